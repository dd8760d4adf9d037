//! `farslot-lab find-or-put`: the set beside concurrent maps and the mapping's limit.

use crate::find_or_put::{self, FindOrPutReport, Meeting, Options};
use comfy_table::{CellAlignment, Table, presets};
use farslot_cli::context::Context;
use farslot_cli::failure::Result;
use farslot_cli::output::{self, on_spinner};

/// The options of `farslot-lab find-or-put`.
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// Buckets of each table, 8 bytes each
    #[arg(long, value_name = "N", default_value_t = 1 << 24)]
    buckets: u64,
    /// Mixes: of a hundred operations, how many find an element that is there
    #[arg(
        long,
        value_name = "PERCENT,..",
        value_delimiter = ',',
        default_value = "50,80,20"
    )]
    found: Vec<u32>,
    /// Numbers of processes over shared memory; of the maps, as many threads
    #[arg(
        long,
        value_name = "N,..",
        value_delimiter = ',',
        default_value = "1,2"
    )]
    processes: Vec<u32>,
    /// Rounds, of which the medians count
    #[arg(long, value_name = "N", default_value_t = 3)]
    rounds: usize,
    /// What the operations derive from
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    #[command(flatten)]
    meeting: Meeting,
}

/// Runs the benchmark, or this process's part of it.
pub(super) fn run(args: &Args, context: &Context) -> Result<()> {
    let options = Options {
        buckets: args.buckets,
        found: args.found.clone(),
        processes: args.processes.clone(),
        rounds: args.rounds,
        seed: args.seed,
    };
    if args.meeting.take_part(&options)? {
        return Ok(());
    }
    let report = on_spinner(|progress| find_or_put::run(&options, progress))?;
    if context.json {
        return output::json(&report);
    }
    output::line(table(&report).to_string())?;
    output::line(format!(
        "{} of 8 bytes; medians of {}; {} is one load, and for a new element one CAS, at a random word",
        output::counted(report.buckets, "bucket"),
        output::counted(report.rounds as u64, "interleaved round"),
        "CAS",
    ))
}

fn table(report: &FindOrPutReport) -> Table {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header([
        "workers",
        "found",
        "load",
        "table",
        "M ops/s",
        "of the limit",
    ]);
    for row in &report.rows {
        table.add_row([
            row.workers.to_string(),
            format!("{}%", row.found_percent),
            format!("{} to {}", row.load[0], row.load[1]),
            row.system.clone(),
            format!("{:.2}", row.operations_per_second / 1e6),
            format!("{:.0}%", 100.0 * row.of_limit),
        ]);
    }
    for column in [0, 1, 4, 5] {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}
