//! The program `farslot-lab`.

mod against;
mod failure;
mod find_or_put;
mod html;
mod plot;
mod reproduce;
mod table;
mod ycsb;

use clap::{Parser, Subcommand};
use farslot_cli::commands::serve;
use farslot_cli::context::Context;
use farslot_cli::failure::Result;
use std::process::ExitCode;

/// The laboratory of farslot: the papers' tables and figures, ours beside theirs, and Farslot
/// beside other stores
#[derive(Parser, Debug)]
#[command(name = "farslot-lab", version, propagate_version = true)]
struct Cli {
    #[command(flatten)]
    context: Context,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Reproduce a table or figure of a paper, or all of a paper's; without an id, list them
    Repro(reproduce::Args),
    /// Run YCSB's workloads, beside other stores
    Ycsb(ycsb::Args),
    /// Count states beside Spin and Stateright: models, workers, states a second, bytes a state
    ExploreAgainst(against::Args),
    /// Measure one library: what `explore-against` starts
    #[command(hide = true)]
    ExploreOne(crate::against::OneArgs),
    /// Fill find-or-put's table, beside concurrent maps and the mapping's limit
    FindOrPut(find_or_put::Args),
    /// Lend memory of this machine to other processes: what `ycsb` starts
    #[command(hide = true)]
    Serve(serve::Args),
}

/// Runs the program.
#[must_use]
pub fn main() -> ExitCode {
    farslot_cli::run_program(|Cli { context, command }| (context, command), run)
}

fn run(command: Command, context: &Context) -> Result<()> {
    match command {
        Command::Repro(args) => reproduce::run(args, context),
        Command::Ycsb(args) => ycsb::run(&args, context),
        Command::ExploreAgainst(args) => against::run(&args, context),
        Command::ExploreOne(args) => against::one(&args),
        Command::FindOrPut(args) => find_or_put::run(&args, context),
        Command::Serve(args) => serve::run(args, context),
    }
}
