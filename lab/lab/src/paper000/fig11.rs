//! Paper 000, figure 11: lookups/s by record size, with records inline and out of band.

use super::published::{RECORD_SIZES, VARIABLE_STORING};
use super::storage::{FORMS, STORING, measure, setup};
use crate::scale::Scale;
use crate::{Axis, Line, Plot, Progress, ReproReport, ReproRow, Result, threads};

pub(crate) const ID: &str = "000-fig11";

/// Measures the figure.
pub(crate) fn run(scale: &Scale, progress: Progress<'_>) -> Result<ReproReport> {
    let cells = FORMS.len() * RECORD_SIZES.len();
    let measured = threads::in_order(cells, |cell| {
        let (form, name) = FORMS[cell / RECORD_SIZES.len()];
        let size = cell % RECORD_SIZES.len();
        progress(&format!("{name}, {} bytes", RECORD_SIZES[size]));
        measure(scale, form, size)
    })?;
    let rate = |form: usize, size: usize, way: usize| {
        measured[form * RECORD_SIZES.len() + size][way].lookups_per_second() / 1e6
    };
    let (mut rows, mut lines) = (Vec::new(), Vec::new());
    for (form, (_, form_name)) in FORMS.iter().enumerate() {
        for (way, storing) in STORING.iter().enumerate() {
            let mut points = Vec::new();
            for (size, bytes) in RECORD_SIZES.into_iter().enumerate() {
                let cell = format!(
                    "million lookups/s, {}, {form_name}, {bytes} bytes",
                    storing.name
                );
                let ours = rate(form, size, way);
                rows.push(ReproRow::new(
                    cell,
                    papers(storing.name, form_name, bytes),
                    ours,
                ));
                points.push((bytes as f64, ours));
            }
            lines.push(Line::ours(format!("{}, {form_name}", storing.name), points));
        }
    }
    rows.extend(statements(&rate));
    Ok(ReproReport {
        id: ID,
        setup: setup(scale),
        rows,
        plots: vec![Plot {
            title: "Lookups/s by record size".into(),
            x: Axis::logarithmic("bytes of a record"),
            y: Axis::linear("million lookups/s"),
            lines,
        }],
    })
}

/// What the paper's text says, in million lookups/s.
fn papers(name: &str, form: &str, bytes: usize) -> Option<f64> {
    match (form, bytes) {
        _ if name != VARIABLE_STORING.name => None,
        ("inline", 8) => Some(36.0),
        ("inline", 128) => Some(8.0),
        ("out of band", 8) => Some(23.0),
        ("out of band", 128) => Some(19.0),
        _ => None,
    }
}

fn statements(rate: &impl Fn(usize, usize, usize) -> f64) -> Vec<ReproRow> {
    const VARIABLE: usize = 2;
    let gain = |size| rate(1, size, VARIABLE) / rate(0, size, VARIABLE);
    let ahead = (0..RECORD_SIZES.len()).find(|size| gain(*size) > 1.0);
    let best = |size: usize, form: usize| {
        let others = (0..VARIABLE).map(|way| rate(form, size, way));
        rate(form, size, VARIABLE) / others.fold(0.0, f64::max)
    };
    let cells = (0..RECORD_SIZES.len()).flat_map(|size| [best(size, 0), best(size, 1)]);
    vec![
        ReproRow::new(
            "out of band / inline, Variable Linear, 128 bytes",
            Some(2.4),
            gain(2),
        ),
        ReproRow::new(
            "least record size with out of band ahead, Variable Linear, bytes",
            Some(32.0),
            ahead.map_or(f64::from(u32::MAX), |size| RECORD_SIZES[size] as f64),
        ),
        ReproRow::new(
            "Variable Linear / best other, the least of all cells (paper: ahead in all)",
            None,
            cells.fold(f64::INFINITY, f64::min),
        ),
    ]
}
