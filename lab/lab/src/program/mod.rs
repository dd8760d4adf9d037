//! The program `farslot-lab`.

mod caches;
mod explore_compare;
mod failure;
mod find_or_put;
mod html;
mod maps;
mod plot;
mod reproduce;
mod serve;
mod table;
mod tasks;
mod transactions;
mod ycsb;

use clap::{Parser, Subcommand};
use farslot_terminal::context::Context;
use farslot_terminal::failure::{Failure, Result};
use farslot_terminal::program;
use std::process::ExitCode;

/// The laboratory of farslot: the papers' tables and figures, ours beside theirs, and Farslot
/// beside other stores
#[derive(Parser, Debug)]
#[command(name = "farslot-lab", version, propagate_version = true)]
struct ProgramArguments {
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
    /// Compare the hit ratios of caches of as much memory, beside other stores
    Caches(caches::Args),
    /// Run TATP's transactions, beside other stores
    Tatp(transactions::TatpArgs),
    /// Run SmallBank's transactions, beside other stores
    #[command(name = "smallbank")]
    SmallBank(transactions::SmallBankArgs),
    /// Explore the same models by Farslot, Spin and Stateright
    ExploreCompare(explore_compare::Args),
    /// Explore a model in this process: what `explore-compare` starts
    #[command(hide = true)]
    ExploreOne(explore_compare::OneArgs),
    /// Measure find-or-puts of threads of one process, beside other concurrent sets
    FindOrPut(find_or_put::Args),
    /// Measure Farslot in a program's own memory, beside concurrent maps
    Maps(maps::Args),
    /// Measure lookups of many tasks through a handle, beside get_many of as many threads
    Tasks(tasks::Args),
    /// Run a workload of YCSB in transactions of 1 to 8 keys, beside other stores
    YcsbTransactions(transactions::YcsbArgs),
    /// Serve a node of a database: what `tatp`, `smallbank` and `ycsb-transactions` start
    #[command(hide = true)]
    ServeTransactions(transactions::ServeArgs),
    /// Lend memory of this machine to other processes: what `ycsb` and `tasks` start
    #[command(hide = true)]
    Serve(serve::Args),
    /// Answer bytes with bytes: what `ycsb` measures as the limit
    #[command(hide = true)]
    Echo,
}

/// Runs the program.
#[must_use]
pub fn main() -> ExitCode {
    program::run(
        |ProgramArguments { context, command }| (context, command),
        run,
    )
}

fn run(command: Command, context: &Context) -> Result<()> {
    match command {
        Command::Repro(args) => reproduce::run(args, context),
        Command::Ycsb(args) => ycsb::run(&args, context),
        Command::Caches(args) => caches::run(&args, context),
        Command::Tatp(args) => transactions::tatp(&args, context),
        Command::SmallBank(args) => transactions::smallbank(&args, context),
        Command::YcsbTransactions(args) => transactions::ycsb(&args, context),
        Command::ExploreCompare(args) => explore_compare::run(&args, context),
        Command::ExploreOne(args) => explore_compare::one(&args),
        Command::Tasks(args) => tasks::run(&args, context),
        Command::Maps(args) => maps::run(&args, context),
        Command::FindOrPut(args) => find_or_put::run(&args, context),
        Command::ServeTransactions(args) => transactions::serve(&args),
        Command::Serve(args) => serve::run(&args),
        Command::Echo => Ok(crate::ycsb::echo::serve().map_err(Failure::io("the echo"))?),
    }
}
