//! `farslot explore` by several processes: how they are started, and how they meet.

use crate::job::{self, Children};
use farslot_explore::Terms;
use farslot_explore::explicit::ranks::{RankFabric, RingShape, TableShape, Team};
use farslot_set::job::{Job, Launch};
use farslot_terminal::failure::{Failure, Result};
use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::path::Path;
use std::process::{Command, Stdio};

/// How the processes reach each other's memory.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fabric {
    /// Shared memory: processes of one machine
    Shm,
    /// TCP: of any machines
    Tcp,
    /// The simulator: ranks of one process, with faults that --seed decides
    Sim,
}

/// Where the states are that several processes have found.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatePlacement {
    /// In a set at each process, to which the others send what is its own
    Own,
    /// In one table over the memory of all (paper 002), for states of up to 63 bits
    Shared,
}

/// The options of an exploration by several processes.
#[derive(clap::Args, Debug)]
#[command(next_help_heading = "Several processes")]
pub struct RankArgs {
    /// Explore by this many processes of this machine; each owns a part of the states
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096),
        conflicts_with = "rendezvous")]
    pub processes: Option<u32>,
    /// How they reach each other [default: shm; tcp with --rendezvous]
    #[arg(long, value_name = "FABRIC")]
    pub over: Option<Fabric>,
    /// Where the states are
    #[arg(long, value_name = "WHERE", value_enum, default_value_t = StatePlacement::Own)]
    pub table: StatePlacement,
    /// Decides the faults of --over sim
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    pub seed: u64,
    /// Be one of several processes that meet at HOST:PORT, where rank 0 listens. The environment
    /// that mpirun or srun sets says which one, or --rank and --ranks do. All are given the same
    /// model, condition and options, but for the memory: they compare it when they meet, and end
    /// where one has something else
    #[arg(long, value_name = "HOST:PORT")]
    pub rendezvous: Option<String>,
    /// This process's rank, from 0
    #[arg(long, value_name = "R", requires_all = ["ranks", "rendezvous"])]
    rank: Option<u32>,
    /// How many processes meet
    #[arg(long, value_name = "N", requires = "rank")]
    ranks: Option<u32>,
    /// With --over tcp: the address at which the others reach this process's memory, port 0 for any
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:0")]
    listen: String,
}

/// What the processes are told that this one starts, beside how they meet.
pub struct ChildOptions<'a> {
    /// The model.
    pub model: &'a str,
    /// The condition, if there is one.
    pub invariant: Option<&'a str>,
    /// The condition that is looked for, if there is one.
    pub reach: Option<&'a str>,
    /// Bytes that each process may take; with `symbolic`, all of them together.
    pub memory: u64,
    /// Where they write their journals.
    pub journal: Option<&'a Path>,
    /// Whether they explore symbolically.
    pub symbolic: bool,
    /// Threads of each of them.
    pub threads: Option<NonZeroUsize>,
}

impl RankArgs {
    /// Whether several processes are asked for.
    pub fn are_given(&self) -> bool {
        self.processes.is_some() || self.rendezvous.is_some()
    }

    /// How many processes share this machine's memory, as far as this one knows.
    pub fn sharing(&self) -> u64 {
        self.processes.unwrap_or(1).into()
    }

    /// What joins the processes.
    pub fn over(&self) -> RankFabric {
        match (self.over, &self.rendezvous) {
            (Some(Fabric::Tcp), _) | (None, Some(_)) => RankFabric::Tcp(self.listen.clone()),
            _ => RankFabric::Shm,
        }
    }

    /// The table that all share, if they do, for processes that may take so much memory each.
    pub fn shared(&self, ranks: u32, memory: u64) -> Option<TableShape> {
        match self.table {
            StatePlacement::Own => None,
            StatePlacement::Shared => Some(TableShape::within(ranks, memory)),
        }
    }

    /// Joins the other processes, which this one starts if that is asked for.
    pub fn join(&self, child: &ChildOptions<'_>) -> Result<(Job, Children)> {
        let failed = |error: farslot_set::job::JobError| Failure::Failed(error.to_string());
        let Some(ranks) = self.processes else {
            let launch = self.launch()?;
            return Ok((Job::join(launch).map_err(failed)?, Children::default()));
        };
        job::start(ranks, |rank, address| {
            self.command(child, rank, ranks, address)
        })
    }

    fn launch(&self) -> Result<Launch> {
        let rendezvous = self.rendezvous.clone();
        if let (Some(rank), Some(ranks)) = (self.rank, self.ranks) {
            return Ok(Launch {
                rank,
                ranks,
                rendezvous,
                ..Launch::alone()
            });
        }
        let launch = Launch::from_environment(rendezvous);
        launch.map_err(|error| Failure::Usage(error.to_string()))
    }

    fn command(
        &self,
        child: &ChildOptions<'_>,
        rank: u32,
        ranks: u32,
        address: &str,
    ) -> Result<Command> {
        let program = std::env::current_exe().map_err(Failure::io("this program"))?;
        let over = match self.over() {
            RankFabric::Shm => "shm",
            RankFabric::Tcp(_) => "tcp",
        };
        let mut options: Vec<(&str, OsString)> = vec![
            ("--rendezvous", address.into()),
            ("--rank", rank.to_string().into()),
            ("--ranks", ranks.to_string().into()),
            ("--over", over.into()),
            ("--listen", self.listen.clone().into()),
            ("--memory", format!("{}B", child.memory).into()),
            (
                "--table",
                match self.table {
                    StatePlacement::Own => "own".into(),
                    StatePlacement::Shared => "shared".into(),
                },
            ),
        ];
        if let Some(formula) = child.invariant {
            options.push(("--invariant", formula.into()));
        }
        if let Some(formula) = child.reach {
            options.push(("--reach", formula.into()));
        }
        if let Some(path) = child.journal {
            options.push(("--journal", path.into()));
        }
        if let Some(threads) = child.threads {
            options.push(("--threads", threads.to_string().into()));
        }
        let mut command = Command::new(program);
        command.arg("explore");
        if child.symbolic {
            command.arg("--symbolic");
        }
        for (name, value) in options {
            // In one argument: a value may begin with a hyphen.
            let mut argument = OsString::from(name);
            argument.push("=");
            argument.push(value);
            command.arg(argument);
        }
        command.args(["--", child.model]);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        Ok(command)
    }
}

/// Meets the others over the fabric.
pub fn meet(
    job: Job,
    over: &RankFabric,
    shape: RingShape,
    table: Option<TableShape>,
    terms: Terms,
) -> Result<Team> {
    Team::meet(job, over, shape, table, terms).map_err(|error| Failure::Failed(error.to_string()))
}
