//! A benchmark's report, as a table or as one object.

use crate::context::Context;
use crate::failure::Result;
use crate::output::{self, number as shown};
use comfy_table::{CellAlignment, Table, presets};
use farslot_bench::{BenchReport, BenchRow};

/// Prints a report, as a table or as one object.
///
/// # Errors
/// That it cannot be printed.
pub fn print(report: &BenchReport, context: &Context) -> Result<()> {
    if context.json {
        return output::json(report);
    }
    output::line(table(report).to_string())?;
    output::line(format!(
        "fabric: {}; limits were measured in this run",
        report.fabric
    ))
}

fn table(report: &BenchReport) -> Table {
    let mut table = output::new_table(presets::ASCII_MARKDOWN);
    let header = [
        "", "value", "unit", "limit", "ratio", "paper", "model", "slots", "reads", "trips", "bytes",
    ];
    table.set_header(header);
    for row in &report.rows {
        table.add_row(cells(row));
    }
    for column in [1, 3, 4, 5, 6, 7, 8, 9, 10] {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

fn cells(row: &BenchRow) -> [String; 11] {
    let optional = |value: Option<f64>| value.map_or_else(String::new, shown);
    let ratio = |value: Option<f64>| value.map_or_else(String::new, |value| format!("{value:.3}"));
    [
        row.name.clone(),
        shown(row.value),
        row.unit.into(),
        optional(row.limit),
        ratio(row.ratio),
        optional(row.paper),
        optional(row.model),
        row.read_size
            .map_or_else(String::new, |slots| slots.to_string()),
        ratio(row.reads_per_lookup),
        ratio(row.round_trips_per_lookup),
        row.bytes_per_lookup
            .map_or_else(String::new, |bytes| format!("{bytes:.0}")),
    ]
}
