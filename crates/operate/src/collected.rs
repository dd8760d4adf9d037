//! Metrics in a program's own registry.

use crate::family::{Family, Kind, Sample};
use crate::source::Source;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use std::fmt;
use std::sync::{Mutex, PoisonError};

/// The metrics of a source as a collector of the crate `prometheus-client`:
/// `registry.register_collector(Box::new(Collected::of(metrics)))`.
pub struct Collected<S>(Mutex<S>);

impl<S: Source> Collected<S> {
    /// Of that source.
    pub fn of(source: S) -> Self {
        Self(Mutex::new(source))
    }
}

impl<S> fmt::Debug for Collected<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Collected(..)")
    }
}

impl<S: Source> Collector for Collected<S> {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let source = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let families = source.families();
        drop(source);
        for family in families.iter().filter(|family| !family.samples.is_empty()) {
            encode(family, &mut encoder)?;
        }
        Ok(())
    }
}

fn encode(family: &Family, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    // OpenMetrics adds the suffix of counters by itself.
    let name = family.name.strip_suffix("_total").unwrap_or(family.name);
    let kind = match family.kind {
        Kind::Counter => MetricType::Counter,
        Kind::Gauge => MetricType::Gauge,
        Kind::Histogram => MetricType::Histogram,
    };
    let mut encoder = encoder.encode_descriptor(name, family.help, None, kind)?;
    for sample in &family.samples {
        let Sample {
            labels,
            value,
            classes,
        } = sample;
        let mut of_labels = encoder.encode_family(labels)?;
        match family.kind {
            Kind::Counter => ConstCounter::new(*value).encode(of_labels)?,
            Kind::Gauge => ConstGauge::new(*value).encode(of_labels)?,
            Kind::Histogram => {
                let count = classes.iter().map(|(_, count)| count).sum();
                of_labels.encode_histogram::<NoLabelSet>(*value, count, classes, None)?;
            }
        }
    }
    Ok(())
}
