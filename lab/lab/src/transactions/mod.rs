//! TATP, SmallBank and transactions of YCSB, on Farslot's transactions and on other stores side by
//! side.
//!
//! Every system has the same rows and draws the same transactions, runs as many client threads, and
//! has as many transactions under way at once in each. Systems take turns within each round, and
//! every figure is a median over rounds. What a transaction has read is checked, and of SmallBank
//! the total in the end, to the cent.
//!
//! * Farslot: [`farslot_txn`], serializable. A transaction of TATP or SmallBank runs at the owner,
//!   by one call to a procedure, as a script of Redis does; or in the client, by READs and calls,
//!   which those of several nodes and of YCSB always do.
//! * Redis: one command or one Lua script a transaction, in pipelines.
//! * PostgreSQL: one prepared statement or one function a transaction, in pipelines, serializable,
//!   with `synchronous_commit` off.

mod farslot;
mod options;
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
mod ycsb;

pub use options::{Options, Rival, TransactionBenchmark, postgres_is_installed};
pub use report::{KindRow, PostedRow, SystemRow, TransactionsReport};

use crate::{LabError, Progress, Result};
pub(crate) use farslot::{DatabaseNodes, ServedDatabase, TatpMachines};
pub use farslot_txn::Locking;
use round::TransactionRound;
use system::{Plan, TransactionSystem};
use workload::{Workload, WorkloadClient};

/// The nodes in the memory of this process, or in the simulator.
pub(crate) fn serve_here(options: &Options, simulated: bool) -> Result<ServedDatabase> {
    let workload = options.bench.workload(options.seed);
    if simulated {
        return farslot::simulated(&*workload, options.nodes, options.seed);
    }
    farslot::in_memory(&*workload, options.nodes)
}

/// Runs the workload. `serve` gives Farslot's nodes.
///
/// # Errors
/// [`BadOption`](farslot_bench::BenchError::BadOption); [`LabError::NotInstalled`],
/// [`LabError::Peer`] and [`LabError::PeerInUse`] of the others;
/// [`WrongAnswers`](farslot_bench::BenchError::WrongAnswers) and [`LabError::WrongTotal`]; what
/// transactions or `serve` say.
pub(crate) fn run<E: From<LabError>>(
    options: &Options,
    serve: impl FnOnce(&Options) -> std::result::Result<ServedDatabase, E>,
    progress: Progress<'_>,
) -> std::result::Result<TransactionsReport, E> {
    options.check()?;
    let workload = options.bench.workload(options.seed);
    progress("starting the servers");
    let served = serve(options)?;
    let fabric = match &served.nodes {
        DatabaseNodes::Sim(_) => "sim, in virtual time",
        DatabaseNodes::Shm(_) => "shm, of this process: clients execute calls themselves",
        DatabaseNodes::Attached(_) => "shm, of other processes of this machine",
        DatabaseNodes::Tcp(_) => "tcp, to other processes of this machine",
    };
    let mut systems: Vec<Box<dyn TransactionSystem>> = vec![Box::new(
        farslot::FarslotDatabase::new(served, options.nodes, options.locking, options.at_owner),
    )];
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
    systems: &[Box<dyn TransactionSystem>],
    progress: Progress<'_>,
) -> Result<Vec<SystemRow>> {
    for system in systems {
        progress(&format!("loading {}", system.name()));
        system.load(workload)?;
    }
    let threads = 0..options.threads as u64;
    let clients: Vec<_> = threads
        .map(|thread| WorkloadClient::new(options.seed, thread, options.threads as u64))
        .collect();
    // Every system meets the same transactions.
    let mut clients = vec![clients; systems.len()];
    let mut rounds: Vec<Vec<TransactionRound>> = systems.iter().map(|_| Vec::new()).collect();
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
