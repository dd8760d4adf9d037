//! The workloads on PostgreSQL: each transaction is one prepared statement, of several steps by a
//! function. Those of one connection are pipelined.

mod connection;
mod failure;
mod server;

pub(crate) use server::is_installed;

use super::round::TransactionRound;
use super::system::{Pipelined, Plan, TransactionSystem, batches};
use super::workload::{Call, Outcome, Workload, WorkloadClient};
use crate::Result;
use connection::{Connection, StatementOutcome};
use failure::{PEER, failure};
use server::Server;
use std::net::SocketAddr;

/// Times that a transaction is run again because of others: far more than ever happens.
const ATTEMPTS: u64 = 10_000;

/// A PostgreSQL server that was started for this.
pub(super) struct Postgres {
    server: Server,
    version: String,
}

impl Postgres {
    pub(super) fn start() -> Result<Self> {
        let server = Server::start()?;
        let version = Connection::open(server.address)?.query("SHOW server_version")?;
        let version = String::from_utf8_lossy(&version.unwrap_or_default()).into_owned();
        // As 15.3 (Debian 15.3-1).
        let version = version.split(' ').next().unwrap_or_default().to_owned();
        Ok(Self { server, version })
    }

    fn connect<'w>(&self, workload: &'w dyn Workload) -> Result<Client<'w>> {
        let mut connection = Connection::open(self.server.address)?;
        for kind in workload.kinds() {
            connection.prepare(kind.name, kind.postgres)?;
        }
        Ok(Client {
            address: self.server.address,
            connection,
            workload,
        })
    }
}

struct Client<'w> {
    address: SocketAddr,
    connection: Connection,
    workload: &'w dyn Workload,
}

impl Pipelined for Client<'_> {
    fn run(&mut self, calls: &[Call], outcomes: &mut Vec<Outcome>) -> Result<u64> {
        let first = outcomes.len();
        outcomes.resize(first + calls.len(), None);
        let mut left: Vec<usize> = (0..calls.len()).collect();
        let mut conflicts = 0;
        while !left.is_empty() {
            for at in &left {
                let kind = &self.workload.kinds()[calls[*at].kind];
                let numbers = &calls[*at].numbers[..kind.numbers];
                let values = self.workload.values(&calls[*at]);
                self.connection
                    .execute(kind.name, numbers, values.as_deref());
            }
            self.connection.flush()?;
            for at in std::mem::take(&mut left) {
                match self.connection.read_end()? {
                    StatementOutcome::Row(row) => {
                        let outcome = |row: Vec<u8>| self.workload.outcome_of(&calls[at], &row);
                        outcomes[first + at] = row.and_then(outcome);
                    }
                    end if end.is_conflict() && conflicts < ATTEMPTS => {
                        conflicts += 1;
                        left.push(at);
                    }
                    StatementOutcome::Failed { message, .. } => {
                        return Err(failure(self.address, message));
                    }
                }
            }
        }
        Ok(conflicts)
    }
}

impl TransactionSystem for Postgres {
    fn name(&self) -> &'static str {
        PEER
    }

    fn version(&self) -> String {
        self.version.clone()
    }

    fn load(&self, workload: &dyn Workload) -> Result<()> {
        let mut connection = Connection::open(self.server.address)?;
        connection.query(workload.schema())?;
        // Rows of all tables come mixed, and a copy is of one.
        for (number, table) in workload.tables().iter().enumerate() {
            let mut begun = false;
            workload.load(&mut |row| {
                if row.table != number || row.columns.is_empty() {
                    return Ok(());
                }
                if !begun {
                    begun = true;
                    connection.begin_copy(table.name);
                }
                connection.copy(&row.columns)
            })?;
            if begun {
                connection.end_copy()?;
            }
        }
        connection.query(workload.schema_after_load()).map(drop)
    }

    fn round(
        &self,
        workload: &dyn Workload,
        clients: &mut [WorkloadClient],
        plan: Plan,
    ) -> Result<TransactionRound> {
        let cpu = || server::cpu_seconds(self.server.process()).map(Some);
        batches(workload, clients, plan, || self.connect(workload), cpu)
    }

    fn total(&self, workload: &dyn Workload) -> Result<i64> {
        let query = workload.total().map_or("SELECT 0", |total| total.postgres);
        let row = Connection::open(self.server.address)?.query(query)?;
        let text = row.as_deref().map(std::str::from_utf8);
        let number = text.and_then(|text| text.ok()?.parse().ok());
        number.ok_or_else(|| failure(self.server.address, "it has no total".into()))
    }
}
