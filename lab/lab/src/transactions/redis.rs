//! The workloads on Redis: each transaction is one command where that is enough, and else one Lua
//! script.
//!
//! WATCH with MULTI needs two round trips for what a script does in one, and belongs to its
//! connection: transactions of one connection could not be under way side by side.

use super::round::TransactionRound;
use super::system::{Pipelined, Plan, TransactionSystem, batches};
use super::workload::{Call, Outcome, Redis, Workload, WorkloadClient};
use crate::ycsb::{PeerResources, PeerServer, RedisClient};
use crate::{LabError, Result};
use farslot_bench::process;
use std::net::SocketAddr;

/// Rows that are put at once.
const LOADED_TOGETHER: usize = 256;

/// A Redis server, started for this or running already.
pub(super) struct RedisSystem(PeerServer<RedisClient>);

impl RedisSystem {
    pub(super) fn open(at: Option<SocketAddr>, threads: usize) -> Result<Self> {
        let resources = PeerResources {
            memory: 0,
            threads,
            evicts: None,
        };
        Ok(Self(PeerServer::open(at, resources)?))
    }

    fn connect<'w>(&self, workload: &'w dyn Workload) -> Result<Connection<'w>> {
        let mut client = RedisClient::connect(self.0.address())?;
        let mut scripts = Vec::new();
        for kind in workload.kinds() {
            scripts.push(match kind.redis {
                Redis::Command(..) => String::new(),
                Redis::Script(text) => match client.command(&["SCRIPT", "LOAD", text])? {
                    redis::Value::BulkString(name) => String::from_utf8_lossy(&name).into_owned(),
                    other => return Err(self.unexpected(&other)),
                },
            });
        }
        Ok(Connection {
            client,
            workload,
            scripts,
        })
    }

    fn unexpected(&self, reply: &redis::Value) -> LabError {
        LabError::Peer {
            peer: "redis",
            address: self.0.address(),
            reason: format!("unexpected answer {reply:?}"),
        }
    }

    fn server_cpu(&self) -> Result<Option<f64>> {
        let process = self.0.process();
        Ok(process.map(process::cpu_seconds).transpose()?)
    }
}

struct Connection<'w> {
    client: RedisClient,
    workload: &'w dyn Workload,
    /// The hash of each kind's script.
    scripts: Vec<String>,
}

impl Pipelined for Connection<'_> {
    fn run(&mut self, calls: &[Call], outcomes: &mut Vec<Outcome>) -> Result<u64> {
        let kinds = self.workload.kinds();
        let mut pipeline = redis::Pipeline::with_capacity(calls.len());
        for call in calls {
            let kind = &kinds[call.kind];
            let numbers = &call.numbers[..kind.numbers];
            match kind.redis {
                Redis::Command(words, _) => {
                    let mut words = words.iter().map(|word| fill(word, numbers));
                    pipeline.cmd(&words.next().unwrap_or_default());
                    words.for_each(|word| {
                        pipeline.arg(word);
                    });
                }
                Redis::Script(_) => {
                    pipeline.cmd("EVALSHA").arg(&self.scripts[call.kind]).arg(0);
                    numbers.iter().for_each(|number| {
                        pipeline.arg(*number);
                    });
                    if let Some(values) = self.workload.values(call) {
                        pipeline.arg(values);
                    }
                }
            }
        }
        let replies = self.client.ask(&pipeline)?;
        for (call, reply) in calls.iter().zip(&replies) {
            outcomes.push(match (&kinds[call.kind].redis, reply) {
                (Redis::Command(_, read), reply) => read(reply),
                (Redis::Script(_), redis::Value::Int(number)) => Some(*number),
                (Redis::Script(_), redis::Value::BulkString(returned)) => {
                    self.workload.outcome_of(call, returned)
                }
                (Redis::Script(_), _) => None,
            });
        }
        Ok(0)
    }
}

/// A word with its numbers.
fn fill(word: &str, numbers: &[i64]) -> String {
    let mut filled = word.to_owned();
    for (at, number) in numbers.iter().enumerate() {
        if filled.contains('{') {
            filled = filled.replace(&format!("{{{at}}}"), &number.to_string());
        }
    }
    filled
}

impl TransactionSystem for RedisSystem {
    fn name(&self) -> &'static str {
        "redis"
    }

    fn version(&self) -> String {
        self.0.version().into()
    }

    fn load(&self, workload: &dyn Workload) -> Result<()> {
        let mut client = RedisClient::connect(self.0.address())?;
        let mut pipeline = redis::pipe();
        let mut count = 0;
        workload.load(&mut |row| {
            pipeline.cmd("SET").arg(row.redis.0).arg(row.redis.1);
            count += 1;
            if count % LOADED_TOGETHER == 0 {
                client.ask(&pipeline)?;
                pipeline.clear();
            }
            Ok(())
        })?;
        client.ask(&pipeline).map(drop)
    }

    fn round(
        &self,
        workload: &dyn Workload,
        clients: &mut [WorkloadClient],
        plan: Plan,
    ) -> Result<TransactionRound> {
        let connect = || self.connect(workload);
        batches(workload, clients, plan, connect, || self.server_cpu())
    }

    fn total(&self, workload: &dyn Workload) -> Result<i64> {
        let mut client = RedisClient::connect(self.0.address())?;
        let mut total = 0;
        for letter in ["s", "c"] {
            for account in 0..workload.size() {
                let reply = client.command(&["GET", &format!("{letter}:{account}")])?;
                let cents: i64 = match &reply {
                    redis::Value::BulkString(text) => std::str::from_utf8(text)
                        .ok()
                        .and_then(|text| text.parse().ok()),
                    _ => None,
                }
                .ok_or_else(|| self.unexpected(&reply))?;
                total += cents;
            }
        }
        Ok(total)
    }
}
