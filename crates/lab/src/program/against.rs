//! `farslot-lab explore-against`: exploration beside other model checkers.

use crate::against::{self, AgainstReport, OneArgs, Row, Subject};
use comfy_table::{CellAlignment, Table, presets};
use farslot_cli::context::Context;
use farslot_cli::failure::Result;
use farslot_cli::output::{self, on_spinner};

/// The options of `farslot-lab explore-against`.
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// The models: philosophers:N, peterson:N, 2pc:N
    #[arg(
        long,
        value_name = "MODEL,..",
        value_delimiter = ',',
        default_value = "philosophers:15,peterson:5,2pc:8"
    )]
    models: Vec<Subject>,
    /// Numbers of workers
    #[arg(long, value_name = "N,..", value_delimiter = ',', default_value = "1,2",
        value_parser = clap::value_parser!(u16).range(1..=64))]
    workers: Vec<u16>,
    /// Runs of each, of which the fastest counts
    #[arg(long, value_name = "N", default_value_t = 3)]
    rounds: usize,
}

/// Runs the comparison.
pub(super) fn run(args: &Args, context: &Context) -> Result<()> {
    let options = against::Options {
        models: args.models.clone(),
        workers: args.workers.iter().map(|of| usize::from(*of)).collect(),
        rounds: args.rounds,
    };
    let report = on_spinner(|progress| against::run(&options, progress))?;
    if context.json {
        return output::json(&report);
    }
    output::line(table(&report).to_string())?;
    report
        .notes
        .iter()
        .try_for_each(|note| output::line(format!("- {note}")))
}

/// Measures one, for `explore-against`.
pub(super) fn one(args: &OneArgs) -> Result<()> {
    output::json(&args.run()?)
}

fn table(report: &AgainstReport) -> Table {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header([
        "model",
        "checker",
        "workers",
        "states",
        "s",
        "states/s",
        "bytes a state",
        "resident bytes a state",
        "farslot is",
    ]);
    for row in &report.rows {
        table.add_row(cells(row));
    }
    for column in 2..9 {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

fn cells(row: &Row) -> [String; 9] {
    let optional = |value: Option<f64>, unit| {
        value.map_or_else(String::new, |value| format!("{value:.2}{unit}"))
    };
    [
        row.model.clone(),
        row.checker.clone(),
        row.workers.to_string(),
        output::grouped(row.states),
        format!("{:.2}", row.seconds),
        output::number(row.states_per_second),
        optional(row.bytes_per_state, ""),
        format!("{:.1}", row.resident_bytes_per_state),
        optional(row.farslot_ratio, "x"),
    ]
}
