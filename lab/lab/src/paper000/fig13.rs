//! Paper 000, figure 13: the read size that the model chooses in front of, in, and behind a known
//! cluster.

use super::published::{self, LOADS, RECORD_BYTES, VARIABLE};
use crate::scale::Scale;
use crate::{Axis, Line, Plot, Progress, ReproReport, ReproRow, Result};
use farslot::model::{Hint, NicModel, Objective, ProbeDistribution, ReadSizeModel, Workload};
use std::ops::RangeInclusive;

pub(crate) const ID: &str = "000-fig13";

/// Nothing is measured.
pub(crate) const SCALE: Scale = Scale {
    slots: 1 << 22,
    tables: 1,
    lookups: 1,
    seed: 0,
};

/// Slots of the cluster, which begins at offset 0.
const CLUSTER: i64 = 10;
/// The offsets of the slot where a READ begins.
const OFFSETS: RangeInclusive<i64> = -40..=15;
/// The two of [`LOADS`], by their numbers there.
const ROWS: [usize; 2] = [0, 2];

/// Read sizes at one load factor.
struct OffsetReadSizes {
    load: f64,
    oblivious: usize,
    /// By offset.
    hinted: Vec<(i64, usize)>,
}

/// Asks the model.
pub(crate) fn run(_: &Scale, progress: Progress<'_>) -> Result<ReproReport> {
    let (mut rows, mut lines) = (Vec::new(), Vec::new());
    for row in ROWS {
        progress(&format!("load {:.2}", LOADS[row]));
        let sizes = OffsetReadSizes::by_model(LOADS[row])?;
        let papers = f64::from(VARIABLE.read_sizes[row]);
        rows.extend(statements(&sizes, papers));
        for (offset, size) in &sizes.hinted {
            let cell = format!("read size, slots, offset {offset}, load {:.2}", sizes.load);
            rows.push(ReproRow::new(cell, None, *size as f64));
        }
        let points = sizes.hinted.iter();
        let points = points.map(|(offset, size)| (*offset as f64, *size as f64));
        lines.push(Line::model(
            format!("load {:.2}", sizes.load),
            points.collect(),
        ));
    }
    Ok(ReproReport {
        id: ID,
        setup: format!(
            "Computed: a cluster of {CLUSTER} slots begins at offset 0, and nothing else is known; slots of 8 \
             bytes, the paper's tables, latency as the objective, misses, and the bandwidth cap."
        ),
        rows,
        plots: vec![Plot {
            title: "Read size by offset from a known cluster".into(),
            x: Axis::linear("offset of the READ's first slot"),
            y: Axis::linear("slots of a READ"),
            lines,
        }],
    })
}

impl OffsetReadSizes {
    fn by_model(load: f64) -> Result<Self> {
        let distances =
            ProbeDistribution::lookup(published::table_load(load)?, Workload::misses())?;
        let nic = NicModel::connectx5_edr();
        let model = ReadSizeModel::new(RECORD_BYTES, Objective::Latency, nic)?.with_bandwidth_cap();
        let oblivious = model.choose(&distances).read_size;
        let at = |offset: i64| match hint_at(offset) {
            Some(hint) => model.choose_hinted(&distances, hint).read_size,
            None => oblivious,
        };
        Ok(Self {
            load,
            oblivious,
            hinted: OFFSETS.map(|offset| (offset, at(offset))).collect(),
        })
    }

    fn at(&self, offset: i64) -> f64 {
        let found = self.hinted.iter().find(|(known, _)| *known == offset);
        found.expect("the offset is among those asked for").1 as f64
    }
}

/// What is known of the cluster at an offset; nothing behind it.
fn hint_at(offset: i64) -> Option<Hint> {
    match offset {
        ..0 => Some(Hint::Ahead {
            ahead: offset.unsigned_abs(),
            len: CLUSTER as u64,
        }),
        0..CLUSTER => Some(Hint::Inside {
            left: (CLUSTER - offset) as u64,
        }),
        _ => None,
    }
}

/// What the paper's text says of the figure.
fn statements(sizes: &OffsetReadSizes, papers_oblivious: f64) -> Vec<ReproRow> {
    let load = sizes.load;
    let oblivious = sizes.oblivious as f64;
    let mut rows = vec![ReproRow::new(
        format!("cluster-oblivious read size, slots, load {load:.2}"),
        Some(papers_oblivious),
        oblivious,
    )];
    for offset in [-30, CLUSTER] {
        rows.push(ReproRow::new(
            format!("offset {offset} / cluster-oblivious, load {load:.2}"),
            Some(1.0),
            sizes.at(offset) / oblivious,
        ));
    }
    if load == 0.65 {
        rows.push(ReproRow::new(
            format!("offset -20 is below cluster-oblivious (1: yes), load {load:.2}"),
            Some(1.0),
            f64::from(sizes.at(-20) < oblivious),
        ));
    }
    // Up to the cluster's end: all of its slots, and the empty one behind them.
    rows.push(ReproRow::new(
        format!("offset -4 / slots to the cluster's end, load {load:.2}"),
        Some(1.0),
        sizes.at(-4) / (4 + CLUSTER + 1) as f64,
    ));
    rows
}
