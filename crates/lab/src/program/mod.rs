//! The program `farslot-lab`.

mod failure;
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
        Command::Serve(args) => serve::run(args, context),
    }
}
