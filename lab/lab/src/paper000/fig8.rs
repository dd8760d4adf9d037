//! Paper 000, figure 8: the bandwidth that payload takes, and what its section 5.3 says about how
//! READs are distributed over lookups.

use super::probing::{ProbingCurves, setup};
use super::published::LOADS;
use crate::scale::Scale;
use crate::{Axis, Line, Plot, Progress, ReproReport, ReproRow, Result};
use farslot::model::{ProbeDistribution, TableLoad};
use farslot_bench::simulated::Measured;

pub(crate) const ID: &str = "000-fig8";

/// The bandwidth of the paper's link.
const LINK_GB: f64 = 12.5;

/// Measures the figure.
pub(crate) fn run(scale: &Scale, progress: Progress<'_>) -> Result<ReproReport> {
    let curves = ProbingCurves::measure(scale, progress)?;
    let mut rows = Vec::new();
    for (row, load) in LOADS.into_iter().enumerate() {
        for curve in curves.all() {
            // "Almost 8 GB/sec", where a READ is nearly all that there is to a lookup.
            let papers = (curve.name == curves.fixed.name && load <= 0.5).then_some(8.0);
            let cell = format!("GB/s of payload, {}, load {load:.2}", curve.name);
            rows.push(curve.mean(row, gigabytes).row(cell, papers));
        }
    }
    rows.extend(statements(&curves, scale.slots)?);
    let mut lines: Vec<Line> = curves.all().map(|curve| curve.line(gigabytes)).into();
    let ends = [LOADS[0], LOADS[LOADS.len() - 1]].map(|load| (load, LINK_GB));
    lines.push(Line::paper("link", ends.into()));
    Ok(ReproReport {
        id: ID,
        setup: setup(scale),
        rows,
        plots: vec![Plot {
            title: "Effective bandwidth by load factor".into(),
            x: Axis::linear("load factor"),
            y: Axis::linear("GB/s of payload"),
            lines,
        }],
    })
}

fn gigabytes(measured: &Measured) -> f64 {
    measured.bytes_per_second() / 1e9
}

/// What the paper's text says about the READs of lookups.
fn statements(curves: &ProbingCurves, slots: u64) -> Result<Vec<ReproRow>> {
    let fullest = LOADS.len() - 1;
    let fill = TableLoad::from_load(slots, LOADS[fullest])?;
    let distances = ProbeDistribution::hit_all_matches(fill)?;
    let percent_with = |reads: u64, papers: f64| {
        let share = |measured: &Measured| 100.0 * measured.share_with_reads(reads);
        let cell = format!("% of lookups with {reads} READs or more, Fixed Linear, load 0.95");
        ReproRow {
            model: Some(100.0 * distances.survival((reads - 1) * 32)),
            ..curves.fixed.mean(fullest, share).row(cell, Some(papers))
        }
    };
    let with_one = |row| {
        let share = |measured: &Measured| 100.0 * (1.0 - measured.share_with_reads(2));
        curves.unconstrained.mean(row, share).mean
    };
    let least = (0..LOADS.len()).map(with_one).fold(100.0, f64::min);
    Ok(vec![
        percent_with(4, 48.0),
        percent_with(16, 13.0),
        ReproRow::new(
            "% of lookups with one READ, Var. Linear (uncons.), the least of all loads",
            Some(89.0),
            least,
        ),
    ])
}
