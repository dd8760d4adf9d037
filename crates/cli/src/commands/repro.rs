//! `farslot repro`: tables and figures of the papers, ours beside theirs.

use crate::commands::bench::on_spinner;
use crate::context::Context;
use crate::failure::{Failure, Result};
use crate::output;
use comfy_table::{CellAlignment, Table, presets};
use farslot_bench::repro::{self, Options};
use farslot_bench::{BenchError, ReproReport, ReproRow};

/// The options of `farslot repro`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// What to reproduce
    id: Option<String>,
    /// Slots of each table
    #[arg(long, value_name = "N", default_value_t = Options::default().slots)]
    slots: u64,
    /// Tables that are averaged over
    #[arg(long, value_name = "N", default_value_t = Options::default().tables)]
    tables: u32,
    /// Lookups, in each table, behind each cell
    #[arg(long, value_name = "N", default_value_t = Options::default().lookups)]
    lookups: u32,
    /// What all chance derives from
    #[arg(long, value_name = "N", default_value_t = Options::default().seed)]
    seed: u64,
}

/// Reproduces a table or figure.
///
/// # Errors
/// A usage failure for an id that there is not; what the measurement says.
pub fn run(args: Args, context: &Context) -> Result<()> {
    let Some(id) = &args.id else {
        return Err(Failure::Usage(format!(
            "what shall be reproduced?\n{}",
            ids()
        )));
    };
    let options = Options {
        slots: args.slots,
        tables: args.tables,
        lookups: args.lookups,
        seed: args.seed,
    };
    let report = on_spinner(|progress| repro::run(id, &options, progress)).map_err(|error| {
        let is_unknown = matches!(error, BenchError::UnknownId { .. });
        match Failure::from(error) {
            Failure::Usage(why) if is_unknown => Failure::Usage(format!("{why}\n{}", ids())),
            other => other,
        }
    })?;
    if let Some(error) = largest_error(&report) {
        let percent = 100.0 * error;
        output::note(format_args!(
            "largest standard error of a cell: {percent:.2} %"
        ));
    }
    if context.json {
        return output::json(&report);
    }
    output::line(table(&report).to_string())?;
    output::line(
        "counted by the endpoints of the simulated fabric; exact: by the model, for our table's size",
    )
}

fn ids() -> String {
    let ids: Vec<_> = repro::all()
        .map(|(id, title)| format!("  farslot repro {id:<14} {title}"))
        .collect();
    ids.join("\n")
}

/// The largest standard error, as a part of its cell.
fn largest_error(report: &ReproReport) -> Option<f64> {
    let errors = report
        .rows
        .iter()
        .filter_map(|row| Some(row.standard_error? / row.ours));
    errors.reduce(f64::max)
}

fn table(report: &ReproReport) -> Table {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header(["cell", "paper", "ours", "ratio", "exact", "std. error"]);
    for row in &report.rows {
        table.add_row(cells(row));
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn cells(row: &ReproRow) -> [String; 6] {
    let optional = |value: Option<f64>| value.map_or_else(String::new, |value| number(row, value));
    let decimals = |value: Option<f64>, places| {
        value.map_or_else(String::new, |value| format!("{value:.places$}"))
    };
    [
        row.cell.clone(),
        optional(row.paper),
        number(row, row.ours),
        decimals(row.ratio, 3),
        optional(row.model),
        decimals(row.standard_error, 4),
    ]
}

/// Counts of slots whole, everything else to three places.
fn number(row: &ReproRow, value: f64) -> String {
    let is_count = row.model.is_none() && row.ours.fract() == 0.0;
    let places = if is_count { 0 } else { 3 };
    format!("{value:.places$}")
}
