//! The program `farslot`: serves memory, and works on the tables in it.

#![forbid(unsafe_code)]

mod bytes;
mod commands;
mod draw;
mod formats;
mod job;
mod page;
mod shape;
mod unfinished;
mod until_stopped;
mod visit;

use clap::{CommandFactory, Parser, Subcommand};
use farslot_terminal::context::Context;
use farslot_terminal::failure::Result;
use farslot_terminal::program;
use std::process::ExitCode;

/// Hash tables in far memory: any process that can reach the memory reads and writes them, and
/// nobody has to be asked.
#[derive(Parser, Debug)]
#[command(name = "farslot", version, propagate_version = true)]
#[command(after_help = "Start with:  farslot demo")]
struct CommandLine {
    #[command(flatten)]
    context: Context,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// See it at work on your files: walk a directory, put every file in a table, look them up
    Demo(commands::demo::Args),
    /// Lend memory of this machine to other processes, until stopped
    Serve(commands::serve::Args),
    /// Hold the memory of a node whose process may end: `farslot serve --keep` starts this
    Keep(commands::keep::Args),
    /// Make a table
    Create(commands::create::Args),
    /// List the tables by their names
    Tables(commands::tables::ListArgs),
    /// Drop a table and free its memory; who uses it gets an error
    Drop(commands::tables::TableNameArg),
    /// Give a table another name; who uses it must open it again
    Rename(commands::tables::RenameArgs),
    /// Take all records out of a table; who uses it must open it again
    Clear(commands::tables::TableNameArg),
    /// Copy a table to a new one, of the same scheme or of another, while others use it
    Copy(commands::copy::Args),
    /// Put a record
    Put(commands::put::Args),
    /// Look up a key
    Get(commands::get::Args),
    /// Say by the exit code whether a key is present
    Exists(commands::atomic::ExistsArgs),
    /// Add to the number that a key's value is, and print the sum; an absent key counts as 0
    Increment(commands::atomic::IncrementArgs),
    /// Replace a key's value if it is what is expected
    CompareAndSet(commands::atomic::CompareArgs),
    /// Change or say how long a key lives, in a table whose records may expire
    Expire(commands::atomic::ExpireArgs),
    /// Remove keys
    Del(commands::del::Args),
    /// Add items to a queue, behind all others
    Push(commands::queue::PushArgs),
    /// Take the first items of a queue, and write them
    Pop(commands::queue::PopArgs),
    /// Count the records of a table
    Count(commands::count::Args),
    /// Load records from CSV, TSV or NDJSON
    Load(commands::load::Args),
    /// Write all records as CSV, TSV or NDJSON
    Dump(commands::dump::Args),
    /// Write the records of an ordered table in a range of keys
    Scan(commands::scan::Args),
    /// Write snapshots of tables into a directory while others use them; what was cut off goes on
    Snapshot(commands::snapshot::Args),
    /// Make tables again from their snapshots
    Restore(commands::restore::Args),
    /// List the tables, or show how full one is and how its keys lie
    Stat(commands::stat::Args),
    /// Ask every node of the store how it is
    Nodes(commands::nodes::Args),
    /// Say what took long lately, of nodes or programs that serve metrics
    Slowlog(commands::slowlog::Args),
    /// Go on without what nodes that came back empty had of a table: its keys there are absent then
    AcceptLoss(commands::accept_loss::Args),
    /// Say which entries of the nodes' catalogs are damaged, or clear them: their memory is free
    /// then
    Repair(commands::repair::Args),
    /// Watch nodes, tables and rates in the terminal
    #[cfg(feature = "top")]
    Top(commands::top::Args),
    /// Watch nodes, tables and rates in the terminal: not in this build
    #[cfg(not(feature = "top"))]
    #[command(hide = true)]
    Top {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
        ignored: Vec<String>,
    },
    /// Let others write to a cuckoo or duo table whose writer was killed. In shared memory this is
    /// refused while the writer is alive. Over a network nobody can tell: a writer that is still at
    /// work is refused every later write, but over verbs:// what it had posted may destroy a record
    TakeOver(commands::take_over::Args),
    /// Count the states that a Petri net or a model can reach, and check them
    Explore(commands::explore::Args),
    /// Measure this machine
    Bench(commands::bench::Args),
    /// Say which scheme suits a workload, and why
    Advise(commands::advise::Args),
    /// Measure what a fabric costs: a NIC profile for the model and the simulator
    Calibrate(commands::calibrate::Args),
    /// Write a script that completes this program's commands and options in a shell
    Completions(commands::manual::CompletionsArgs),
    /// Write the manual pages of all commands into a directory
    Man(commands::manual::ManArgs),
    /// Say where the papers' tables and figures are reproduced now
    #[command(hide = true)]
    Repro(commands::repro::Args),
}

fn run(command: Command, context: &Context) -> Result<()> {
    match command {
        Command::Demo(args) => commands::demo::run(args, context),
        Command::Serve(args) => commands::serve::run(args, context),
        Command::Keep(args) => commands::keep::run(&args, context),
        Command::Create(args) => commands::create::run(args, context),
        Command::Tables(args) => commands::tables::list(&args, context),
        Command::Drop(args) => commands::tables::drop_table(&args, context),
        Command::Rename(args) => commands::tables::rename(&args, context),
        Command::Clear(args) => commands::tables::clear(&args, context),
        Command::Copy(args) => commands::copy::run(&args, context),
        Command::Put(args) => commands::put::run(args, context),
        Command::Get(args) => commands::get::run(args, context),
        Command::Exists(args) => commands::atomic::exists(args, context),
        Command::Increment(args) => commands::atomic::increment(args, context),
        Command::CompareAndSet(args) => commands::atomic::compare_and_set(args, context),
        Command::Expire(args) => commands::atomic::expire(args, context),
        Command::Del(args) => commands::del::run(args, context),
        Command::Push(args) => commands::queue::push(args, context),
        Command::Pop(args) => commands::queue::pop(args, context),
        Command::Count(args) => commands::count::run(args, context),
        Command::Load(args) => commands::load::run(args, context),
        Command::Dump(args) => commands::dump::run(args, context),
        Command::Scan(args) => commands::scan::run(args, context),
        Command::Snapshot(args) => commands::snapshot::run(&args, context),
        Command::Restore(args) => commands::restore::run(&args, context),
        Command::Stat(args) => commands::stat::run(args, context),
        Command::Nodes(args) => commands::nodes::run(args, context),
        Command::Slowlog(args) => commands::slowlog::run(&args, context.json),
        Command::AcceptLoss(args) => commands::accept_loss::run(&args, context),
        Command::Repair(args) => commands::repair::run(&args, context),
        #[cfg(feature = "top")]
        Command::Top(args) => commands::top::run(args, context),
        #[cfg(not(feature = "top"))]
        Command::Top { .. } => Err(farslot_terminal::failure::Failure::Usage(
            "this program was built without `farslot top`\n  try:  cargo install --path crates/cli --features top"
                .into(),
        )),
        Command::TakeOver(args) => commands::take_over::run(args, context),
        Command::Explore(args) => commands::explore::run(args, context),
        Command::Bench(args) => commands::bench::run(args, context),
        Command::Advise(args) => commands::advise::run(args, context),
        Command::Calibrate(args) => commands::calibrate::run(args, context),
        Command::Completions(args) => commands::manual::completions(&args, &mut definition()),
        Command::Man(args) => commands::manual::man(&args, definition()),
        Command::Repro(args) => commands::repro::run(&args),
    }
}

/// The commands of the program `farslot`, and their options.
#[must_use]
pub fn definition() -> clap::Command {
    CommandLine::command()
}

/// The program `farslot`.
#[must_use]
pub fn main() -> ExitCode {
    program::run(|CommandLine { context, command }| (context, command), run)
}
