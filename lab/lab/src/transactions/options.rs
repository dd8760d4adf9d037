//! What is measured, and what may vary.

use super::workload::Workload;
use super::{farslot, postgres, smallbank, tatp, ycsb};
use crate::ycsb::Workload as Letter;
use crate::{LabError, Result};
use farslot_bench::BenchError;
use farslot_txn::Locking;
use std::any::Any;
use std::net::SocketAddr;
use std::str::FromStr;
use std::time::Duration;

/// A workload, and how large it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TransactionBenchmark {
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
    /// A workload of YCSB's core, in transactions of 1 to 8 keys.
    Ycsb {
        /// Which of the workloads.
        letter: Letter,
        /// Records that are loaded.
        records: u64,
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
    pub bench: TransactionBenchmark,
    /// Nodes that share Farslot's rows, by subscriber or account.
    pub nodes: u64,
    /// When Farslot's transactions lock.
    pub locking: Locking,
    /// Whether a transaction of TATP or SmallBank runs at the owner, by one call, where one node
    /// has all of its rows.
    pub at_owner: bool,
    /// Client threads of each system.
    pub threads: usize,
    /// Transactions under way at once, of each thread.
    pub pipeline: usize,
    /// How long each system is measured, in all rounds together.
    pub time: Duration,
    /// Rounds, of which the median counts.
    pub rounds: usize,
    /// Threads of each server: of Farslot's nodes, and of Redis for its connections where that is
    /// more than one.
    pub server_threads: usize,
    /// What Farslot is held against.
    pub against: Vec<Rival>,
    /// What rows and transactions derive from.
    pub seed: u64,
}

impl Options {
    /// Those of a workload: one node, run at the owner, or else with locks at the commit; one
    /// thread with 32 transactions under way, 5 s in 5 rounds.
    #[must_use]
    pub fn new(bench: TransactionBenchmark) -> Self {
        Self {
            bench,
            nodes: 1,
            locking: Locking::Commit,
            at_owner: true,
            threads: 1,
            pipeline: 32,
            time: Duration::from_secs(5),
            rounds: 5,
            server_threads: 1,
            against: Vec::new(),
            seed: 0,
        }
    }

    pub(super) fn check(&self) -> Result<()> {
        let size = match self.bench {
            TransactionBenchmark::Tatp { subscribers } => ("subscribers", subscribers, 1..=1 << 26),
            TransactionBenchmark::SmallBank { accounts, .. } => ("accounts", accounts, 2..=1 << 28),
            // More than a transaction has keys.
            TransactionBenchmark::Ycsb { records, .. } => ("records", records, 16..=1 << 26),
        };
        let hot = match self.bench {
            TransactionBenchmark::SmallBank { hot, .. } => hot,
            TransactionBenchmark::Tatp { .. } | TransactionBenchmark::Ycsb { .. } => 2,
        };
        // A map that is scanned lies at one node.
        let is_scanned = matches!(
            self.bench,
            TransactionBenchmark::Ycsb {
                letter: Letter::E,
                ..
            }
        );
        let most_nodes = if is_scanned { 1 } else { 64 };
        LabError::check_ranges([
            size,
            // A transfer between hot accounts needs two.
            ("hot accounts", hot, 2..=1 << 28),
            ("nodes", self.nodes, 1..=most_nodes),
            ("threads", self.threads as u64, 1..=1024),
            ("pipeline", self.pipeline as u64, 1..=1024),
            ("rounds", self.rounds as u64, 1..=1000),
            ("server threads", self.server_threads as u64, 1..=128),
        ])?;
        if let TransactionBenchmark::SmallBank { accounts, hot } = self.bench
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

impl TransactionBenchmark {
    pub(super) fn workload(self, seed: u64) -> Box<dyn Workload> {
        match self {
            Self::Tatp { subscribers } => Box::new(tatp::Tatp {
                subscribers,
                seed,
                evenly: false,
            }),
            Self::SmallBank { accounts, hot } => Box::new(smallbank::SmallBank {
                accounts,
                hot,
                seed,
            }),
            Self::Ycsb { letter, records } => Box::new(ycsb::Ycsb::new(letter, records)),
        }
    }

    /// Serves a node to other processes, over TCP or shared memory, for as long as what is returned
    /// is held; and where.
    pub(crate) fn serve(
        self,
        number: u64,
        nodes: u64,
        threads: usize,
        over_shm: bool,
    ) -> Result<(String, Box<dyn Any>)> {
        let workload = self.workload(0);
        if over_shm {
            let (name, node) = farslot::serve_shm(&*workload, number, nodes)?;
            return Ok((name, Box::new(node)));
        }
        let agent = farslot::serve_tcp(&*workload, nodes, threads)?;
        Ok((agent.address().to_string(), Box::new(agent)))
    }
}
