//! Operations on keys: each by the partition of its key. Of a batch, all partitions run their parts
//! at once, in one task, so that the verbs of a turn leave for all nodes together.

use super::{Entry, MOST_ATTEMPTS, ShardedTable, met_another};
use crate::{Operation, Outcome, Result, StoreError};
use farslot_fabric::window;
use farslot_index::{IndexExt, Value};
use std::cell::RefCell;

/// The operations of a batch that are of one partition, and their numbers in the batch.
#[derive(Default)]
struct PartitionBatch<'r> {
    numbers: Vec<usize>,
    operations: Vec<Operation<'r>>,
}

impl<'r> PartitionBatch<'r> {
    fn push(&mut self, number: usize, operation: Operation<'r>) {
        self.numbers.push(number);
        self.operations.push(operation);
    }
}

/// What an operation answers without a partition, which is empty and cannot be made: a lookup finds
/// nothing.
fn without_partition(operation: Operation<'_>, error: StoreError) -> Result<Outcome> {
    match operation {
        Operation::Get(_) => Ok(Outcome::Value(None)),
        Operation::GetAll(_) => Ok(Outcome::Values(Vec::new())),
        Operation::Put(..)
        | Operation::FindOrPut(..)
        | Operation::Update(..)
        | Operation::Replace(..)
        | Operation::Remove(_)
        | Operation::RemoveIf(..) => Err(error),
    }
}

impl ShardedTable {
    pub(super) async fn get(&self, key: &[u8]) -> Result<Option<Value>> {
        let partition = self.partition_of(key);
        let nothing = |_| Ok(None);
        self.on(partition, nothing, async |client| client.get(key).await)
            .await
    }

    pub(super) async fn run(&self, operation: Operation<'_>) -> Result<Outcome> {
        let partition = self.partition_of(operation.key());
        let empty = |error| without_partition(operation, error);
        self.on(partition, empty, async |client| client.run(operation).await)
            .await
    }

    /// Runs many operations; `done` gets each outcome with the operation's number.
    pub(super) async fn run_many(
        &self,
        operations: &[Operation<'_>],
        done: impl FnMut(usize, Result<Outcome>),
    ) {
        let parts = self.numbers().map(|_| PartitionBatch::default());
        let mut parts: Vec<_> = self.numbers().zip(parts).collect();
        for (number, operation) in operations.iter().enumerate() {
            let partition = self.partition_of(operation.key());
            parts[usize::from(partition)].1.push(number, *operation);
        }
        parts.retain(|(_, part)| !part.operations.is_empty());
        // Nobody else borrows it while it is called: a callback that uses the table begins a batch
        // of its own.
        let done = RefCell::new(done);
        let tell = &|number, outcome| (done.borrow_mut())(number, outcome);
        let width = parts.len();
        let jobs = parts
            .into_iter()
            .map(|(partition, part)| self.run_part(partition, part, tell));
        window(width, jobs, |_, ()| ()).await;
    }

    /// Runs a partition's part of a batch; those again, whose node came back empty under them.
    async fn run_part(
        &self,
        partition: u16,
        mut part: PartitionBatch<'_>,
        tell: &impl Fn(usize, Result<Outcome>),
    ) {
        let mut attempts = 0;
        while !part.operations.is_empty() {
            attempts += 1;
            let items = || part.numbers.iter().zip(&part.operations);
            let held = match self.enter(partition).await {
                Ok(Entry::Open(held)) => held,
                Ok(Entry::Empty(error)) => {
                    return items().for_each(|(number, operation)| {
                        tell(*number, without_partition(*operation, error.clone()));
                    });
                }
                Err(error) => {
                    return items().for_each(|(number, _)| tell(*number, Err(error.clone())));
                }
            };
            let mut again = PartitionBatch::default();
            let mut restarted = false;
            let answer = |at: usize, outcome: farslot_index::Result<Outcome>| {
                let number = part.numbers[at];
                match outcome.map_err(StoreError::from) {
                    Err(error) if met_another(&error) => {
                        restarted = true;
                        if attempts < MOST_ATTEMPTS {
                            again.push(number, part.operations[at]);
                        } else {
                            tell(number, Err(self.named(partition, error)));
                        }
                    }
                    outcome => tell(
                        number,
                        outcome.map_err(|error| self.named(partition, error)),
                    ),
                }
            };
            held.client.run_each(&part.operations, answer).await;
            if restarted {
                held.give_up();
            }
            part = again;
        }
    }
}
