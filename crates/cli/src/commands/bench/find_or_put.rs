//! `farslot bench find-or-put`: find-or-puts of processes that share one table.

use crate::failure::{Failure, Result};
use crate::job;
use crate::memory_node::MemoryNode;
use crate::number;
use crate::output::on_spinner;
use farslot_bench::find_or_put::{self, JobRanks, MappedSet, Mix, Options, StoredSet};
use farslot_bench::{BenchReport, BenchRow, Progress};
use farslot_set::job::{Job, Launch};
use std::process::{Command, Stdio};

/// What all processes are told alike.
#[derive(clap::Args, Debug)]
pub struct WorkArgs {
    /// Mixes of found and inserted elements
    #[arg(
        long,
        value_name = "FOUND/NEW,..",
        value_delimiter = ',',
        default_value = "50/50,80/20,20/80"
    )]
    mix: Vec<Mix>,
    /// Load factors that the table has reached at the end of a measurement, rising
    #[arg(long, value_name = "FRACTION,..", value_delimiter = ',', default_values_t = Options::default().loads)]
    load: Vec<f64>,
    /// Slots of each table
    #[arg(long, value_name = "N", value_parser = number::count, default_value_t = Options::default().slots)]
    slots: u64,
    /// Repetitions, of which the median counts
    #[arg(long, value_name = "N", value_parser = number::small_count, default_value_t = Options::default().repetitions)]
    repetitions: usize,
    /// What the elements derive from
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
}

impl WorkArgs {
    /// The measurement that they ask for.
    pub fn options(&self) -> Options {
        Options {
            mixes: self.mix.clone(),
            loads: self.load.clone(),
            slots: self.slots,
            repetitions: self.repetitions,
            seed: self.seed,
        }
    }
}

/// The options of `farslot bench find-or-put`.
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// How many processes share a table, once for each number
    #[arg(long, value_name = "N,..", value_delimiter = ',', default_values_t = [1, 2],
          value_parser = clap::value_parser!(u32).range(1..=64))]
    processes: Vec<u32>,
    #[command(flatten)]
    work: WorkArgs,
    /// Be this rank of the processes that meet at --rendezvous: what this command starts
    #[arg(long, hide = true, requires_all = ["rendezvous", "store"])]
    rank: Option<u32>,
    #[arg(long, hide = true)]
    rendezvous: Option<String>,
    #[arg(long, hide = true)]
    store: Option<String>,
}

/// Runs the measurement; nothing is to be told by the processes that it starts.
///
/// # Errors
/// A usage failure for options that no measurement can be made with; what the measurement says.
pub(super) fn run(args: &Args) -> Result<Option<BenchReport>> {
    let options = args.work.options();
    let memory = find_or_put::memory(&options)?;
    if let (Some(rank), Some(store)) = (args.rank, &args.store) {
        let launch = Launch {
            rank,
            ranks: args.processes[0],
            rendezvous: args.rendezvous.clone(),
            ..Launch::alone()
        };
        let job = Job::join(launch).map_err(|error| Failure::Failed(error.to_string()))?;
        measure(job, &options, store, &|_| ())?;
        return Ok(None);
    }
    let mut rows = Vec::new();
    let mut page = 0;
    for processes in &args.processes {
        let node = MemoryNode::start("bench", memory)?;
        let command =
            |rank: u32, address: &str| command(args, *processes, rank, address, node.address());
        let (job, _children) = job::start(*processes, command)?;
        let measured = on_spinner(|progress| measure(job, &options, node.address(), progress))?;
        rows.extend(measured.0);
        page = measured.1;
    }
    let page = page >> 10;
    Ok(Some(BenchReport {
        bench: "find-or-put",
        fabric: format!(
            "shared memory; each process has mapped all others' part of the set, in pages of {page} KiB"
        ),
        rows,
    }))
}

/// One process's part; the rows, and bytes of a page of its memory.
fn measure(
    mut job: Job,
    options: &Options,
    store: &str,
    progress: Progress<'_>,
) -> farslot_bench::Result<(Vec<BenchRow>, u64)> {
    let mut ranks = JobRanks(&mut job);
    let mut set = MappedSet::of_processes(&mut ranks, options.slots)?;
    let mut stored = StoredSet::open(store, options.slots)?;
    let rows = find_or_put::measure(
        options,
        &mut ranks,
        &mut set,
        &mut [&mut stored],
        "process",
        progress,
    )?;
    Ok((rows, set.page_bytes()))
}

/// What starts a rank.
fn command(args: &Args, ranks: u32, rank: u32, address: &str, store: &str) -> Result<Command> {
    let listed = |values: Vec<String>| values.join(",");
    let work = &args.work;
    let options = [
        ("--processes", ranks.to_string()),
        ("--rank", rank.to_string()),
        ("--rendezvous", address.into()),
        ("--store", store.into()),
        (
            "--mix",
            listed(work.mix.iter().map(Mix::to_string).collect()),
        ),
        (
            "--load",
            listed(work.load.iter().map(f64::to_string).collect()),
        ),
        ("--slots", work.slots.to_string()),
        ("--repetitions", work.repetitions.to_string()),
        ("--seed", work.seed.to_string()),
    ];
    let mut command = Command::new(std::env::current_exe().map_err(Failure::io("this program"))?);
    command.args(["bench", "find-or-put"]);
    command.args(options.iter().flat_map(|(name, value)| [*name, value]));
    command.stdin(Stdio::null()).stdout(Stdio::null());
    Ok(command)
}
