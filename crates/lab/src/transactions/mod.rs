//! TATP and SmallBank, on Farslot's transactions and on other stores side by side.
//!
//! Every system has the same rows and draws the same transactions, runs as many client threads, and has as many
//! transactions under way at once in each. Systems take turns within each round, and every figure is a median over
//! rounds. What a transaction has read is checked, and of SmallBank the total in the end, to the cent.
//!
//! * Farslot: [`farslot_txn`], serializable; the transactions run in the client, by READs and calls.
//! * Redis: one command or one Lua script a transaction, in pipelines.
//! * PostgreSQL: one prepared statement or one function a transaction, in pipelines, serializable, with
//!   `synchronous_commit` off.

mod farslot;
mod postgres;
mod redis;
mod report;
mod round;
mod smallbank;
mod system;
mod tatp;
#[cfg(test)]
mod tests;
mod workload;

pub use report::{KindRow, SystemRow, TransactionsReport};

use crate::{LabError, Progress, Result};
pub(crate) use farslot::{Nodes, Served};
use farslot_bench::{BenchError, median};
pub use farslot_txn::Locking;
use round::{ClientState, Round};
use std::net::SocketAddr;
use std::str::FromStr;
use std::time::Duration;
use system::{Plan, System};
use workload::Workload;

/// A workload, and how large it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bench {
    /// TATP.
    Tatp {
        /// Subscribers.
        subscribers: u64,
    },
    /// SmallBank.
    SmallBank {
        /// Accounts.
        accounts: u64,
        /// Accounts that 90 of 100 transactions are on.
        hot: u64,
    },
}

/// A store to be held against.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rival {
    /// Redis, started for this, or the empty one that runs at an address.
    Redis(Option<SocketAddr>),
    /// PostgreSQL, started for this.
    Postgres,
}

impl FromStr for Rival {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        match text.split_once('=') {
            None if text == "redis" => Ok(Self::Redis(None)),
            None if text == "postgres" => Ok(Self::Postgres),
            Some(("redis", at)) => {
                let parsed = at.parse().map(|at| Self::Redis(Some(at)));
                parsed.map_err(|_| format!("{at:?} is no address such as 127.0.0.1:6379"))
            }
            _ => Err(format!(
                "{text:?} is no system to compare with: there are redis, redis=HOST:PORT and postgres"
            )),
        }
    }
}

/// Whether PostgreSQL's programs are on this machine.
#[must_use]
pub fn postgres_is_installed() -> bool {
    postgres::is_installed()
}

/// What the benchmark may vary.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// The workload.
    pub bench: Bench,
    /// Nodes that share Farslot's rows, by subscriber or account.
    pub nodes: u64,
    /// When Farslot's transactions lock.
    pub locking: Locking,
    /// Client threads of each system.
    pub threads: usize,
    /// Transactions under way at once, of each thread.
    pub pipeline: usize,
    /// How long each system is measured, in all rounds together.
    pub time: Duration,
    /// Rounds, of which the median counts.
    pub rounds: usize,
    /// Threads of each server: of Farslot's nodes, and of Redis for its connections where that is more than one.
    pub server_threads: usize,
    /// What Farslot is held against.
    pub against: Vec<Rival>,
    /// What rows and transactions derive from.
    pub seed: u64,
}

impl Options {
    /// Those of a workload: one node, locks at the commit, one thread with 32 transactions under way, 5 s in 5 rounds.
    #[must_use]
    pub fn new(bench: Bench) -> Self {
        Self {
            bench,
            nodes: 1,
            locking: Locking::Commit,
            threads: 1,
            pipeline: 32,
            time: Duration::from_secs(5),
            rounds: 5,
            server_threads: 1,
            against: Vec::new(),
            seed: 0,
        }
    }

    fn check(&self) -> Result<()> {
        let size = match self.bench {
            Bench::Tatp { subscribers } => ("subscribers", subscribers, 1..=1 << 26),
            Bench::SmallBank { accounts, .. } => ("accounts", accounts, 2..=1 << 28),
        };
        let hot = match self.bench {
            Bench::Tatp { .. } => 2,
            Bench::SmallBank { hot, .. } => hot,
        };
        let limits = [
            size,
            // A transfer between hot accounts needs two.
            ("hot accounts", hot, 2..=1 << 28),
            ("nodes", self.nodes, 1..=64),
            ("threads", self.threads as u64, 1..=1024),
            ("pipeline", self.pipeline as u64, 1..=1024),
            ("rounds", self.rounds as u64, 1..=1000),
            ("server threads", self.server_threads as u64, 1..=128),
        ];
        for (option, value, limit) in limits {
            if !limit.contains(&value) {
                let limit = format!("from {} to {}", limit.start(), limit.end());
                return Err(LabError::bad(option, value, limit));
            }
        }
        if let Bench::SmallBank { accounts, hot } = self.bench
            && accounts < hot + 2
            && accounts != hot
        {
            let limit = format!("{hot}, the hot ones, or 2 more at least");
            return Err(LabError::bad("accounts", accounts, limit));
        }
        if self.time < Duration::from_millis(1) || self.time > Duration::from_secs(86_400) {
            let seconds = format!("{:?}", self.time);
            return Err(BenchError::bad_text("seconds", seconds, "from 0.001 to 86400").into());
        }
        Ok(())
    }
}

impl Bench {
    fn workload(self, seed: u64) -> Box<dyn Workload> {
        match self {
            Self::Tatp { subscribers } => Box::new(tatp::Tatp { subscribers, seed }),
            Self::SmallBank { accounts, hot } => Box::new(smallbank::SmallBank {
                accounts,
                hot,
                seed,
            }),
        }
    }

    /// Serves a node over TCP for as long as what is returned is held.
    pub(crate) fn serve(
        self,
        number: u64,
        nodes: u64,
        threads: usize,
    ) -> Result<::farslot::fabric::tcp::Agent> {
        farslot::serve_tcp(&*self.workload(0), number, nodes, threads)
    }
}

/// The nodes in the memory of this process, or in the simulator.
pub(crate) fn serve_here(options: &Options, simulated: bool) -> Result<Served> {
    let workload = options.bench.workload(options.seed);
    if simulated {
        return farslot::simulated(&*workload, options.nodes, options.seed);
    }
    farslot::in_memory(&*workload, options.nodes)
}

/// Runs the workload. `serve` gives Farslot's nodes.
///
/// # Errors
/// [`BenchError::BadOption`]; [`LabError::NotInstalled`], [`LabError::Peer`] and [`LabError::PeerInUse`] of the others;
/// [`BenchError::WrongAnswers`] and [`LabError::WrongTotal`]; what transactions or `serve` say.
pub(crate) fn run<E: From<LabError>>(
    options: &Options,
    serve: impl FnOnce(&Options) -> std::result::Result<Served, E>,
    progress: Progress<'_>,
) -> std::result::Result<TransactionsReport, E> {
    options.check()?;
    let workload = options.bench.workload(options.seed);
    progress("starting the servers");
    let served = serve(options)?;
    let fabric = match &served.nodes {
        Nodes::Sim(_) => "sim, in virtual time",
        Nodes::Shm(_) => "shm, of this process: clients execute calls themselves",
        Nodes::Tcp(_) => "tcp, to other processes of this machine",
    };
    let mut systems: Vec<Box<dyn System>> = vec![Box::new(farslot::Farslot::new(
        served,
        options.nodes,
        options.locking,
    ))];
    for rival in &options.against {
        systems.push(match rival {
            Rival::Redis(at) => Box::new(redis::RedisSystem::open(*at, options.server_threads)?),
            Rival::Postgres => Box::new(postgres::Postgres::start()?),
        });
    }
    let rows = measure(options, &*workload, &systems, progress)?;
    Ok(report::report(options, &*workload, fabric, rows))
}

/// Loads all systems, then lets them take turns.
fn measure(
    options: &Options,
    workload: &dyn Workload,
    systems: &[Box<dyn System>],
    progress: Progress<'_>,
) -> Result<Vec<SystemRow>> {
    for system in systems {
        progress(&format!("loading {}", system.name()));
        system.load(workload)?;
    }
    let threads = 0..options.threads as u64;
    let clients: Vec<_> = threads
        .map(|thread| ClientState::new(options.seed, thread))
        .collect();
    // Every system meets the same transactions.
    let mut clients = vec![clients; systems.len()];
    let mut rounds: Vec<Vec<Round>> = systems.iter().map(|_| Vec::new()).collect();
    let plan = Plan {
        time: options.time / options.rounds as u32,
        width: options.pipeline,
    };
    for number in 0..options.rounds {
        for turn in 0..systems.len() {
            // Another one begins each round.
            let at = (number + turn) % systems.len();
            let (of, name) = (options.rounds, systems[at].name());
            progress(&format!("round {} of {of}, {name}", number + 1));
            let round = systems[at].round(workload, &mut clients[at], plan)?;
            if round.all.wrong > 0 {
                return Err(LabError::wrong(round.all.wrong, round.all.attempted()));
            }
            rounds[at].push(round);
        }
    }
    let mut rows = Vec::new();
    for (system, own) in systems.iter().zip(&rounds) {
        progress(&format!("the total of {}", system.name()));
        let total = match workload.total() {
            None => None,
            Some(total) => {
                let change: i64 = own.iter().map(|round| round.all.change).sum();
                let (found, expected) = (system.total(workload)?, total.loaded + change);
                if found != expected {
                    let system = system.name();
                    return Err(LabError::WrongTotal {
                        system,
                        found,
                        expected,
                    });
                }
                Some((total.loaded, change, found))
            }
        };
        rows.push(report::row(workload, &**system, own, &rounds[0], total));
    }
    Ok(rows)
}

/// The median of a figure over rounds.
fn median_of(rounds: &[Round], figure: impl Fn(&Round) -> f64) -> f64 {
    median(rounds.iter().map(figure))
}
