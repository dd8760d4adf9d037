//! Paper 000, figure 7: lookups/s of linear probing and cuckoo hashing by load factor.

use super::probing::{LookupCurve, ProbingCurves, setup};
use super::published::{LOADS, TABLE_2};
use crate::scale::Scale;
use crate::{Axis, Line, Plot, Progress, ReproReport, ReproRow, Result};
use farslot_bench::simulated::Measured;

pub(crate) const ID: &str = "000-fig7";

/// Measures the figure.
pub(crate) fn run(scale: &Scale, progress: Progress<'_>) -> Result<ReproReport> {
    let curves = ProbingCurves::measure(scale, progress)?;
    let mut rows = Vec::new();
    for (row, load) in LOADS.into_iter().enumerate() {
        for curve in curves.all() {
            // The text has figures for one line, in its table 2.
            let is_variable = curve.name == curves.variable.name;
            let papers = TABLE_2.get(row).filter(|_| is_variable);
            let mean = curve.mean(row, millions);
            let cell = format!("million lookups/s, {}, load {load:.2}", curve.name);
            rows.push(mean.row(cell, papers.map(|cells| cells[row] / 1e6)));
        }
    }
    rows.extend(statements(&curves));
    let mut lines: Vec<Line> = curves.all().map(|curve| curve.line(millions)).into();
    let diagonal = TABLE_2.iter().enumerate();
    let papers = diagonal.map(|(row, cells)| (LOADS[row], cells[row] / 1e6));
    lines.push(Line::paper(curves.variable.name, papers.collect()));
    Ok(ReproReport {
        id: ID,
        setup: setup(scale),
        rows,
        plots: vec![Plot {
            title: "Lookups/s by load factor".into(),
            x: Axis::linear("load factor"),
            y: Axis::linear("million lookups/s"),
            lines,
        }],
    })
}

fn millions(measured: &Measured) -> f64 {
    measured.lookups_per_second() / 1e6
}

/// What the paper's text says of the figure.
fn statements(curves: &ProbingCurves) -> Vec<ReproRow> {
    let rate = |curve: &LookupCurve, row| curve.mean(row, millions).mean;
    let most = |over: &LookupCurve, under: &LookupCurve| {
        let ratios = (0..LOADS.len()).map(|row| rate(over, row) / rate(under, row));
        ratios.fold(0.0, f64::max)
    };
    let (cuckoo, fixed, variable) = (&curves.cuckoo, &curves.fixed, &curves.variable);
    let overtaken = |by: &LookupCurve, curve: &LookupCurve| {
        let mut rows = 0..LOADS.len();
        let first = rows.find(|row| rate(by, *row) > rate(curve, *row));
        first.map_or(1.0, |row| LOADS[row])
    };
    vec![
        ReproRow::new(
            "Variable Linear / Cuckoo, at most",
            Some(2.8),
            most(variable, cuckoo),
        ),
        ReproRow::new(
            "Variable Linear / Fixed Linear, at most",
            Some(1.7),
            most(variable, fixed),
        ),
        ReproRow::new(
            "Fixed Linear / Cuckoo, at most",
            Some(1.6),
            most(fixed, cuckoo),
        ),
        ReproRow::new(
            "Fixed Linear / Var. Linear (uncons.), at most",
            Some(2.0),
            most(fixed, &curves.unconstrained),
        ),
        ReproRow::new(
            "least load at which Cuckoo is ahead of Variable Linear",
            Some(0.9),
            overtaken(cuckoo, variable),
        ),
        ReproRow::new(
            "least load at which Cuckoo is ahead of stopping at the match (1: none)",
            None,
            overtaken(cuckoo, &curves.stop_at_match),
        ),
    ]
}
