//! `farslot bench find-or-put`: find-or-puts of processes that share one table, over any fabric.

use crate::job;
use farslot_bench::find_or_put::{
    self, JobRanks, Limited, MappedSet, Mix, NetworkSet, Options, StoredSet,
};
use farslot_bench::{BenchReport, BenchRow, NicProfile, Progress};
use farslot_set::job::{Job, Launch};
use farslot_terminal::failure::{Failure, Result};
use farslot_terminal::find_or_put_args::WorkArgs;
use farslot_terminal::memory_node::MemoryNode;
use farslot_terminal::output::on_spinner;
use std::process::{Command, Stdio};

/// Where the set is.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum Fabric {
    /// On simulated machines, in virtual time
    Sim,
    /// In memory that all processes have mapped
    Shm,
    /// In memory that each process serves over TCP
    Tcp,
}

impl Fabric {
    fn name(self) -> &'static str {
        match self {
            Self::Sim => "sim",
            Self::Shm => "shm",
            Self::Tcp => "tcp",
        }
    }

    fn slots(self) -> u64 {
        match self {
            Self::Sim => 1 << 16,
            Self::Shm => Options::default().slots,
            Self::Tcp => 1 << 18,
        }
    }

    fn processes(self) -> &'static [u32] {
        match self {
            Self::Sim => &[2, 8],
            Self::Shm => &[1, 2],
            Self::Tcp => &[2],
        }
    }
}

/// The options of `farslot bench find-or-put`.
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// Where the set is
    #[arg(long, value_enum, default_value_t = Fabric::Shm)]
    fabric: Fabric,
    /// How many processes share a table, once for each number; in sim one on each machine, and two
    /// at least [default: 1,2; 2 over tcp, 2,8 in sim]
    #[arg(long, value_name = "N,..", value_delimiter = ',',
          value_parser = clap::value_parser!(u32).range(1..=64))]
    processes: Vec<u32>,
    /// The simulated NIC: a profile, or a file that `farslot calibrate` wrote [default: cx5-edr]
    #[arg(long, value_name = "NAME|FILE", value_parser = farslot_bench::nic_profile)]
    profile: Option<NicProfile>,
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
    let options = args.work.options(args.fabric.slots());
    let processes = match &args.processes[..] {
        [] => args.fabric.processes(),
        given => given,
    };
    if args.fabric == Fabric::Sim {
        return simulated(args, &options, processes).map(Some);
    }
    if args.profile.is_some() {
        return Err(Failure::Usage(
            "--profile is for --fabric sim: shared memory and networks are what they are".into(),
        ));
    }
    let memory = find_or_put::memory(&options)?;
    if let (Some(rank), Some(store)) = (args.rank, &args.store) {
        let launch = Launch {
            rank,
            ranks: processes[0],
            rendezvous: args.rendezvous.clone(),
            ..Launch::alone()
        };
        let job = Job::join(launch).map_err(|error| Failure::Failed(error.to_string()))?;
        measure(job, args.fabric, &options, store, &|_| ())?;
        return Ok(None);
    }
    let mut rows = Vec::new();
    let mut fabric = String::new();
    for processes in processes {
        let node = match args.fabric {
            Fabric::Tcp => MemoryNode::start_tcp(memory, 1)?,
            Fabric::Shm | Fabric::Sim => MemoryNode::start("bench", memory)?,
        };
        let command =
            |rank: u32, address: &str| command(args, *processes, rank, address, node.address());
        let (job, _children) = job::start(*processes, command)?;
        let measured =
            on_spinner(|progress| measure(job, args.fabric, &options, node.address(), progress))?;
        rows.extend(measured.0);
        fabric = measured.1;
    }
    Ok(Some(BenchReport {
        bench: "find-or-put",
        fabric,
        rows,
    }))
}

fn simulated(args: &Args, options: &Options, machines: &[u32]) -> Result<BenchReport> {
    if machines.contains(&1) {
        return Err(Failure::Usage(
            "--processes 1 is not for --fabric sim, where memory of the same machine costs nothing"
                .into(),
        ));
    }
    let profile = args.profile.clone();
    let profile = profile.unwrap_or_else(NicProfile::connectx5_edr);
    let mut rows = Vec::new();
    for machines in machines {
        let machines = u64::from(*machines);
        rows.extend(on_spinner(|progress| {
            find_or_put::measure_simulated(options, machines, &profile, progress)
        })?);
    }
    Ok(BenchReport {
        bench: "find-or-put",
        fabric: format!(
            "simulated {}, in virtual time; one process a machine, which owns a part of the set and reaches \
             that for nothing and the others' by verbs",
            profile.name
        ),
        rows,
    })
}

/// One process's part; the rows, and what the set's memory is.
fn measure(
    mut job: Job,
    fabric: Fabric,
    options: &Options,
    store: &str,
    progress: Progress<'_>,
) -> farslot_bench::Result<(Vec<BenchRow>, String)> {
    let mut ranks = JobRanks(&mut job);
    let (mut set, memory): (Box<dyn Limited>, _) = match fabric {
        Fabric::Tcp => {
            let set = NetworkSet::of_processes(&mut ranks, options.slots)?;
            let memory = "TCP over loopback; each process owns a part of the set, reaches that by \
                          loads and the others' by verbs";
            (Box::new(set), memory.to_owned())
        }
        Fabric::Shm | Fabric::Sim => {
            let set = MappedSet::of_processes(&mut ranks, options.slots)?;
            let page = set.page_bytes() >> 10;
            let memory = format!(
                "shared memory; each process has mapped all others' part of the set, in pages of {page} KiB"
            );
            (Box::new(set), memory)
        }
    };
    let mut stored = StoredSet::open(store, options.slots)?;
    let rows = find_or_put::measure(
        options,
        &mut ranks,
        &mut *set,
        &mut [&mut stored],
        "process",
        progress,
    )?;
    Ok((rows, memory))
}

/// What starts a rank.
fn command(args: &Args, ranks: u32, rank: u32, address: &str, store: &str) -> Result<Command> {
    let listed = |values: Vec<String>| values.join(",");
    let work = args.work.options(args.fabric.slots());
    let options = [
        ("--fabric", args.fabric.name().into()),
        ("--processes", ranks.to_string()),
        ("--rank", rank.to_string()),
        ("--rendezvous", address.into()),
        ("--store", store.into()),
        (
            "--mix",
            listed(work.mixes.iter().map(Mix::to_string).collect()),
        ),
        (
            "--load",
            listed(work.loads.iter().map(f64::to_string).collect()),
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
