//! Metrics as data, and Prometheus's text format for them.
//!
//! The format is written here: the crate `prometheus-client` writes OpenMetrics alone, in which the
//! name of a counter's family lacks `_total`; `promtool check metrics` and older scrapers take that
//! for a metric without a type.

use std::fmt::Write;

/// What kind of metric it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Goes up alone. Its name ends in `_total`.
    Counter,
    /// Goes up and down.
    Gauge,
    /// How many observations are in each of several classes.
    Histogram,
}

impl Kind {
    const fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// A metric, of each set of labels.
#[derive(Clone, PartialEq, Debug)]
pub struct Family {
    /// Its name.
    pub name: &'static str,
    /// What it says.
    pub help: &'static str,
    /// What kind it is.
    pub kind: Kind,
    /// Its values; none where there is nothing to say.
    pub samples: Vec<Sample>,
}

/// A value of a metric.
#[derive(Clone, PartialEq, Debug)]
pub struct Sample {
    /// The labels, by their names. Values may be any text.
    pub labels: Vec<(&'static str, String)>,
    /// The value; of a histogram the sum of what was observed.
    pub value: f64,
    /// Of a histogram, the upper bound of each class and how many observations it has, without
    /// those of the classes below. The last bound is infinite.
    pub classes: Vec<(f64, u64)>,
}

impl Family {
    /// A counter without values yet.
    #[must_use]
    pub const fn counter(name: &'static str, help: &'static str) -> Self {
        Self::new(name, help, Kind::Counter)
    }

    /// A gauge without values yet.
    #[must_use]
    pub const fn gauge(name: &'static str, help: &'static str) -> Self {
        Self::new(name, help, Kind::Gauge)
    }

    /// A histogram without values yet.
    #[must_use]
    pub const fn histogram(name: &'static str, help: &'static str) -> Self {
        Self::new(name, help, Kind::Histogram)
    }

    const fn new(name: &'static str, help: &'static str, kind: Kind) -> Self {
        Self {
            name,
            help,
            kind,
            samples: Vec::new(),
        }
    }

    /// The same with a value without labels.
    #[must_use]
    pub fn with(mut self, value: f64) -> Self {
        self.add(&[], value);
        self
    }

    /// Adds the value of some labels.
    pub fn add(&mut self, labels: &[(&'static str, &str)], value: f64) {
        self.add_classes(labels, value, Vec::new());
    }

    /// Adds what a histogram has of some labels.
    pub fn add_classes(
        &mut self,
        labels: &[(&'static str, &str)],
        value: f64,
        classes: Vec<(f64, u64)>,
    ) {
        let labels = labels
            .iter()
            .map(|(name, value)| (*name, (*value).to_owned()));
        self.samples.push(Sample {
            labels: labels.collect(),
            value,
            classes,
        });
    }
}

/// The families in Prometheus's text format, version 0.0.4. Those without values are left out.
#[must_use]
pub fn text(families: &[Family]) -> String {
    let mut out = String::new();
    for family in families.iter().filter(|family| !family.samples.is_empty()) {
        let Family { name, help, .. } = family;
        line(&mut out, format_args!("# HELP {name} {help}"));
        line(
            &mut out,
            format_args!("# TYPE {name} {}", family.kind.name()),
        );
        for sample in &family.samples {
            match family.kind {
                Kind::Counter | Kind::Gauge => {
                    let labels = labels_of(sample, None);
                    line(&mut out, format_args!("{name}{labels} {}", sample.value));
                }
                Kind::Histogram => histogram(&mut out, name, sample),
            }
        }
    }
    out
}

fn histogram(out: &mut String, name: &str, sample: &Sample) {
    let mut below = 0;
    for (bound, count) in &sample.classes {
        below += count;
        let bound = if bound.is_finite() {
            bound.to_string()
        } else {
            "+Inf".into()
        };
        let labels = labels_of(sample, Some(&bound));
        line(out, format_args!("{name}_bucket{labels} {below}"));
    }
    let labels = labels_of(sample, None);
    line(out, format_args!("{name}_sum{labels} {}", sample.value));
    line(out, format_args!("{name}_count{labels} {below}"));
}

fn line(out: &mut String, line: std::fmt::Arguments<'_>) {
    // Writing to memory does not fail.
    let _ = writeln!(out, "{line}");
}

/// The labels in braces; nothing if there are none.
fn labels_of(sample: &Sample, bound: Option<&str>) -> String {
    let labels = sample.labels.iter().map(|(name, value)| (*name, &**value));
    let all = labels.chain(bound.map(|bound| ("le", bound)));
    let all: Vec<_> = all
        .map(|(name, value)| format!("{name}=\"{}\"", escaped(value)))
        .collect();
    match &*all {
        [] => String::new(),
        all => format!("{{{}}}", all.join(",")),
    }
}

fn escaped(value: &str) -> String {
    let value = value.replace('\\', "\\\\");
    value.replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_is_that_of_the_format() {
        let mut tables = Family::gauge("tables", "Tables.");
        tables.add(&[("name", "a\"b\\c\nd"), ("of", "")], 1.5);
        let mut took = Family::histogram("took_seconds", "How long.");
        took.add_classes(&[("of", "x")], 0.25, vec![(0.1, 2), (f64::INFINITY, 1)]);
        let families = [
            Family::counter("all_total", "All.").with(1e15),
            tables,
            took,
            Family::gauge("nothing", "Without values."),
        ];
        let expected = "# HELP all_total All.\n\
            # TYPE all_total counter\n\
            all_total 1000000000000000\n\
            # HELP tables Tables.\n\
            # TYPE tables gauge\n\
            tables{name=\"a\\\"b\\\\c\\nd\",of=\"\"} 1.5\n\
            # HELP took_seconds How long.\n\
            # TYPE took_seconds histogram\n\
            took_seconds_bucket{of=\"x\",le=\"0.1\"} 2\n\
            took_seconds_bucket{of=\"x\",le=\"+Inf\"} 3\n\
            took_seconds_sum{of=\"x\"} 0.25\n\
            took_seconds_count{of=\"x\"} 3\n";
        assert_eq!(text(&families), expected);
    }
}
