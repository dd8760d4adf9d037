//! A table over several nodes, as a [`Table`](crate::Table) uses it.

use super::ShardedTable;
use crate::lease::Leased;
use crate::no_room::MemoryLeft;
use crate::nodes::PartitionReport;
use crate::session::{
    AnswerEach, Client, OutcomeOfEach, Session, block_on_for, block_on_within, end, look_up,
    run_batch,
};
use crate::{Cursor, Operation, Outcome, Result};
use farslot_fabric::{Executor, Nanos};
use farslot_index::{Admin, AdminOutcome, Answers, ClientState, Outcomes, Value};
use std::cell::Cell;

pub(crate) struct OverNodes {
    pub(crate) executor: Executor<Leased>,
    /// Opened on the executor's endpoint.
    pub(crate) table: ShardedTable,
}

impl Session for OverNodes {
    fn get(&self, key: &[u8]) -> Result<Option<Value>> {
        self.executor.block_on(self.table.get(key))
    }

    fn run(&self, operation: Operation<'_>) -> Result<Outcome> {
        self.executor.block_on(self.table.run(operation))
    }

    fn get_many(&self, keys: &[&[u8]], done: AnswerEach<'_>) {
        look_up(self.table.waits(), keys, done, |keys, done| {
            let gets: Vec<_> = keys.iter().map(|key| Operation::Get(key)).collect();
            let done = |number, outcome: Result<Outcome>| match outcome {
                Ok(outcome) => {
                    done(Answers::One(number, Ok(outcome.into_value().as_deref())));
                }
                Err(error) => done(Answers::One(number, Err(Box::new(error)))),
            };
            self.executor.block_on(self.table.run_many(&gets, done));
        });
    }

    fn run_many(
        &self,
        left: Option<&Cell<Nanos>>,
        operations: &[Operation<'_>],
        done: OutcomeOfEach<'_>,
    ) {
        run_batch(self.table.waits(), operations, done, |done| {
            let done = |number, outcome| done(Outcomes::One(number, outcome));
            let running = self.table.run_many(operations, done);
            block_on_within(&self.executor, left, running);
        });
    }

    fn scan(
        &self,
        cursor: Cursor,
        most: u64,
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<Option<Cursor>> {
        self.executor.block_on(self.table.scan(cursor, most, visit))
    }

    fn client(&self) -> &dyn Client {
        self
    }
}

impl Client for OverNodes {
    fn admin(&self, request: Admin<'_>) -> Result<AdminOutcome> {
        self.executor.block_on(self.table.admin(request))
    }

    fn partition_count(&self) -> u16 {
        self.table.numbers().end
    }

    fn partitions(&self) -> Vec<PartitionReport> {
        self.executor.block_on(self.table.partitions())
    }

    fn close(&self, within: Option<Nanos>) -> Result<()> {
        let ending = end(async |request| self.table.admin(request).await);
        block_on_for(&self.executor, within, ending)
    }

    fn state(&self) -> ClientState {
        self.table.state()
    }

    fn endpoint(&self) -> &Leased {
        self.executor.endpoint()
    }

    fn memory_left(&self, key: &[u8]) -> (Option<String>, Option<MemoryLeft>) {
        let (node, address) = self.table.node_of(key);
        let left = self.endpoint().memory_left(node);
        (Some(address.into()), self.executor.block_on(left))
    }
}
