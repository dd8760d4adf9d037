//! `farslot-lab explore-compare`: our explorer beside Spin and Stateright.

use crate::explore_compare::{
    self, CommonModel, ExplorationTool, ExploreReport, ExploreRow, One, Options,
};
use comfy_table::{CellAlignment, Table, presets};
use farslot_terminal::context::Context;
use farslot_terminal::failure::{Failure, Result};
use farslot_terminal::output::{self, on_spinner};
use std::num::NonZeroUsize;

/// The options of `farslot-lab explore-compare`.
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// Models that all systems can say: philosophers:N, peterson:N, 2pc:N
    #[arg(
        long,
        value_name = "MODEL:N,..",
        value_delimiter = ',',
        default_value = "philosophers:16,peterson:6,2pc:8"
    )]
    model: Vec<CommonModel>,
    /// Numbers of workers: threads, or of Spin's depth-first search processes
    #[arg(long, value_name = "N,..", value_delimiter = ',', default_values_t = [1, 2])]
    workers: Vec<usize>,
    /// Compare with: stateright-bfs, stateright-dfs, spin, spin-collapse, spin-bfs; spin needs gcc
    /// too
    #[arg(
        long,
        value_name = "SYSTEM,..",
        value_delimiter = ',',
        default_value = "stateright-bfs,stateright-dfs,spin,spin-collapse,spin-bfs"
    )]
    against: Vec<ExplorationTool>,
    /// Rounds, in which the systems take turns, and of which the median counts
    #[arg(long, value_name = "N", default_value_t = 3)]
    rounds: usize,
}

/// The options of `farslot-lab explore-one`.
#[derive(clap::Args, Debug)]
pub(super) struct OneArgs {
    /// farslot, stateright-bfs or stateright-dfs
    #[arg(long)]
    system: ExplorationTool,
    /// The model
    #[arg(long)]
    model: CommonModel,
    /// Threads
    #[arg(long)]
    workers: NonZeroUsize,
}

/// Runs the comparison.
///
/// # Errors
/// A usage failure for options that nothing can be compared with; what the systems say.
pub(super) fn run(args: &Args, context: &Context) -> Result<()> {
    let mut systems = vec![ExplorationTool::Farslot];
    for system in &args.against {
        if !systems.contains(system) {
            systems.push(*system);
        }
    }
    let options = Options {
        models: args.model.clone(),
        workers: args.workers.clone(),
        systems,
        rounds: args.rounds,
        program: std::env::current_exe().map_err(Failure::io("this program"))?,
    };
    let report = on_spinner(|progress| explore_compare::run(&options, progress))?;
    if context.json {
        return output::json(&report);
    }
    output::line(table(&report).to_string())?;
    output::line(description(&report))
}

/// Explores in this process, and tells what was found as one object.
///
/// # Errors
/// What the exploration says.
pub(super) fn one(args: &OneArgs) -> Result<()> {
    let one = One {
        system: args.system,
        model: args.model,
        workers: args.workers,
    };
    output::json(&one.explore()?)
}

fn table(report: &ExploreReport) -> Table {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header([
        "model",
        "workers",
        "system",
        "states",
        "seconds",
        "states/s",
        "bytes/state",
        "peak bytes/state",
        "farslot is",
    ]);
    for row in &report.rows {
        table.add_row(cells(row));
    }
    for column in [1, 3, 4, 5, 6, 7, 8] {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

fn cells(row: &ExploreRow) -> [String; 9] {
    let optional =
        |value: Option<f64>| value.map_or_else(String::new, |value| format!("{value:.1}"));
    [
        row.model.clone(),
        row.workers.to_string(),
        format!("{} {}", row.system, row.version),
        output::grouped(row.states),
        format!("{:.3}", row.seconds),
        output::number(row.states_per_second),
        optional(row.bytes_per_state),
        optional(row.peak_bytes_per_state),
        row.farslot_ratio
            .map_or_else(String::new, |ratio| format!("{ratio:.2}x")),
    ]
}

fn description(report: &ExploreReport) -> String {
    let mut text = format!(
        "medians of {}",
        output::counted(report.rounds as u64, "interleaved round")
    );
    for failure in &report.failures {
        let (system, model, workers) = (failure.system, &failure.model, failure.workers);
        text.push_str(&format!(
            "\n- {system} did not come to the end of {model} with {}: {}",
            output::counted(workers as u64, "worker"),
            failure.reason
        ));
    }
    for note in &report.notes {
        text.push_str("\n- ");
        text.push_str(note);
    }
    text
}
