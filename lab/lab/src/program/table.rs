//! A report as a table for people.

use crate::{Basis, ReproReport, ReproRow};
use comfy_table::{CellAlignment, Table, presets};

/// The columns, the first of which names the cell.
pub(super) const HEADER: [&str; 6] = ["cell", "paper", "ours", "ratio", "model", "std. error"];

/// The largest standard error, as a part of its cell.
pub(super) fn largest_error(report: &ReproReport) -> Option<f64> {
    let errors = report
        .rows
        .iter()
        .filter_map(|row| Some(row.standard_error? / row.ours));
    errors.reduce(f64::max)
}

/// The table.
pub(super) fn of(report: &ReproReport) -> Table {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header(HEADER);
    for row in &report.rows {
        table.add_row(cells(row));
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// A row, as [`HEADER`] has it.
pub(super) fn cells(row: &ReproRow) -> [String; 6] {
    let optional = |value: Option<f64>| value.map_or_else(String::new, |value| number(row, value));
    let decimals = |value: Option<f64>, places| {
        value.map_or_else(String::new, |value| format!("{value:.places$}"))
    };
    let paper = match row.paper_range {
        Some([least, most]) => format!("{} to {}", number(row, least), number(row, most)),
        None => optional(row.paper),
    };
    let basis = match row.basis {
        Some(Basis::Fitted) => " [fitted]",
        Some(Basis::Predicted) => " [predicted]",
        Some(Basis::Follows) => " [follows]",
        None => "",
    };
    let count = match row.paper_is_count {
        true => " [paper: counted by its code]",
        false => "",
    };
    [
        format!("{}{basis}{count}", row.cell),
        paper,
        number(row, row.ours),
        decimals(row.ratio, 3),
        optional(row.model),
        decimals(row.standard_error, 4),
    ]
}

/// Counts of slots whole, everything else to three places.
fn number(row: &ReproRow, value: f64) -> String {
    let is_count = row.model.is_none() && row.ours.fract() == 0.0 && value.fract() == 0.0;
    let places = if is_count { 0 } else { 3 };
    format!("{value:.places$}")
}
