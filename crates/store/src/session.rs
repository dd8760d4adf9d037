//! One thread's way to one table: an endpoint, its executor, and the index over it.

use crate::client::Client;
use crate::mixed::{self, Answer};
use crate::{Cursor, Found, Operation, Outcome, PartitionReport, Result, Survey};
use farslot_fabric::counters::Snapshot;
use farslot_fabric::{Endpoint, EndpointExt, Executor, Nanos};
use farslot_index::cache::CacheCounts;
use farslot_index::{Occupancy, Value};

/// Gets the answer to each key of a batch, with the key's number.
pub(crate) type AnswerEach<'f> = &'f mut dyn FnMut(usize, Result<Option<&[u8]>>);

/// Gets the outcome of each operation of a batch, with the operation's number.
pub(crate) type OutcomeOfEach<'f> = &'f mut dyn FnMut(usize, Result<Outcome<'_>>);

/// What a table does, whatever its scheme and its fabric: one virtual call for an operation or a
/// whole batch, everything below it is compiled for the fabric.
pub(crate) trait Session {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>>;
    fn get_all(&self, key: &[u8]) -> Result<Vec<Vec<u8>>>;
    fn put(&self, key: &[u8], value: &[u8]) -> Result<bool>;
    fn find_or_put(&self, key: &[u8], value: &[u8]) -> Result<Found>;
    fn update(&self, key: &[u8], value: &[u8]) -> Result<bool>;
    fn remove(&self, key: &[u8]) -> Result<bool>;
    fn get_many(&self, keys: &[&[u8]], done: AnswerEach<'_>);
    fn put_many(&self, records: &[(&[u8], &[u8])], done: &mut dyn FnMut(usize, Result<bool>));
    fn find_or_put_many(
        &self,
        records: &[(&[u8], &[u8])],
        done: &mut dyn FnMut(usize, Result<Found>),
    );
    fn update_many(&self, records: &[(&[u8], &[u8])], done: &mut dyn FnMut(usize, Result<bool>));
    fn get_all_many(&self, keys: &[&[u8]], done: &mut dyn FnMut(usize, Result<Vec<Vec<u8>>>));
    fn remove_many(&self, keys: &[&[u8]], done: &mut dyn FnMut(usize, Result<bool>));
    fn run_many(&self, operations: &[Operation<'_>], done: OutcomeOfEach<'_>);
    fn scan(&self, cursor: Cursor, visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<Option<Cursor>>;
    fn occupancy(&self) -> Result<Occupancy>;
    fn flush(&self) -> Result<()>;
    fn survey(&self) -> Result<Survey>;
    fn partitions(&self) -> Vec<PartitionReport>;
    fn writer(&self) -> Result<Option<u64>>;
    fn start_writing(&self) -> Result<()>;
    fn take_over(&self) -> Result<()>;
    fn resign(&self) -> Result<()>;
    fn is_sealed(&self) -> bool;
    fn build(&self, records: &[(&[u8], &[u8])]) -> Result<()>;
    fn close(&self) -> Result<()>;
    /// As `close`, but gives up before long.
    fn abandon(&self);
    fn counters(&self) -> Snapshot;
    fn read_size(&self) -> u64;
    fn cache_counts(&self) -> CacheCounts;
    fn client_bytes(&self) -> u64;
    fn now(&self) -> Nanos;
}

/// Lookups whose answers are kept until all of them have come, where one may wait for another.
const LOOKUPS_A_TURN: usize = 256;

/// How long a table that is dropped tries to tell what it has to tell.
const PATIENCE: Nanos = 100_000_000;

struct SchemeSession<E: Endpoint, C> {
    executor: Executor<E>,
    index: C,
}

/// A session with a table that was opened on the executor's endpoint.
pub(crate) fn of<E: Endpoint, C: Client + 'static>(
    executor: Executor<E>,
    index: C,
) -> Box<dyn Session> {
    Box::new(SchemeSession { executor, index })
}

/// Reports this client's counts, and lets another be the writer.
async fn close(index: &impl Client) -> Result<()> {
    let flushed = index.flush().await;
    index.resign().await?;
    flushed
}

impl<E: Endpoint, C: Client> SchemeSession<E, C> {
    /// Runs a batch of writes, or one that has writes; `done` gets each answer, and may itself use the table. Where
    /// operations wait for one another, one of `done` would wait for the batch that it is called by: there, it
    /// gets the answers when all have come.
    fn write_many<T>(
        &self,
        done: &mut dyn FnMut(usize, Result<T>),
        batch: impl AsyncFnOnce(&C, &mut dyn FnMut(usize, Result<T>)),
    ) {
        if !C::WRITES_WAIT && !C::LOOKUPS_WAIT {
            return self.executor.block_on(batch(&self.index, done));
        }
        let mut outcomes = Vec::new();
        let mut keep = |number, outcome| outcomes.push((number, outcome));
        self.executor.block_on(batch(&self.index, &mut keep));
        for (number, outcome) in outcomes {
            done(number, outcome);
        }
    }
}

impl<E: Endpoint, C: Client> SchemeSession<E, C> {
    /// Runs a batch of lookups, where one may wait until others have ended: `done`, which may itself use the table, gets
    /// their answers some at a time, when none is under way.
    fn look_up_in_turns<T>(
        &self,
        keys: &[&[u8]],
        done: &mut dyn FnMut(usize, Result<T>),
        batch: impl AsyncFn(&C, &[&[u8]], &mut dyn FnMut(usize, Result<T>)),
    ) {
        for (turn, keys) in keys.chunks(LOOKUPS_A_TURN).enumerate() {
            let mut answers = Vec::with_capacity(keys.len());
            let mut keep = |number, answer| answers.push((number, answer));
            self.executor.block_on(batch(&self.index, keys, &mut keep));
            for (number, answer) in answers {
                done(turn * LOOKUPS_A_TURN + number, answer);
            }
        }
    }
}

impl<E: Endpoint, C: Client> Session for SchemeSession<E, C> {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let value = self.executor.block_on(self.index.get(key))?;
        Ok(value.map(|value| value.to_vec()))
    }

    fn get_all(&self, key: &[u8]) -> Result<Vec<Vec<u8>>> {
        self.executor.block_on(self.index.get_all(key))
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<bool> {
        self.executor.block_on(self.index.put(key, value))
    }

    fn find_or_put(&self, key: &[u8], value: &[u8]) -> Result<Found> {
        self.executor.block_on(self.index.find_or_put(key, value))
    }

    fn update(&self, key: &[u8], value: &[u8]) -> Result<bool> {
        self.executor.block_on(self.index.update(key, value))
    }

    fn remove(&self, key: &[u8]) -> Result<bool> {
        self.executor.block_on(self.index.remove(key))
    }

    fn get_many(&self, keys: &[&[u8]], done: AnswerEach<'_>) {
        if C::LOOKUPS_WAIT {
            let mut owned = |number, value: Result<Option<Vec<u8>>>| match value {
                Ok(value) => done(number, Ok(value.as_deref())),
                Err(error) => done(number, Err(error)),
            };
            return self.look_up_in_turns(keys, &mut owned, async |index, keys, keep| {
                let keep = |number, value: Result<Option<Value>>| {
                    keep(number, value.map(|value| value.map(|value| value.to_vec())));
                };
                index.get_many(keys, keep).await;
            });
        }
        let answer = |key, value: Result<Option<Value>>| match value {
            Ok(value) => done(key, Ok(value.as_deref())),
            Err(error) => done(key, Err(error)),
        };
        self.executor.block_on(self.index.get_many(keys, answer));
    }

    fn put_many(&self, records: &[(&[u8], &[u8])], done: &mut dyn FnMut(usize, Result<bool>)) {
        self.write_many(done, async |index, done| {
            index.put_many(records, done).await;
        });
    }

    fn find_or_put_many(
        &self,
        records: &[(&[u8], &[u8])],
        done: &mut dyn FnMut(usize, Result<Found>),
    ) {
        self.write_many(done, async |index, done| {
            index.find_or_put_many(records, done).await;
        });
    }

    fn update_many(&self, records: &[(&[u8], &[u8])], done: &mut dyn FnMut(usize, Result<bool>)) {
        self.write_many(done, async |index, done| {
            index.update_many(records, done).await;
        });
    }

    fn get_all_many(&self, keys: &[&[u8]], done: &mut dyn FnMut(usize, Result<Vec<Vec<u8>>>)) {
        if C::LOOKUPS_WAIT {
            return self.look_up_in_turns(keys, done, async |index, keys, keep| {
                index.get_all_many(keys, keep).await;
            });
        }
        self.executor.block_on(self.index.get_all_many(keys, done));
    }

    fn remove_many(&self, keys: &[&[u8]], done: &mut dyn FnMut(usize, Result<bool>)) {
        self.write_many(done, async |index, done| {
            index.remove_many(keys, done).await;
        });
    }

    fn run_many(&self, operations: &[Operation<'_>], done: OutcomeOfEach<'_>) {
        let mut tell = |number, answer: Result<Answer>| match answer {
            Ok(answer) => answer.tell(|outcome| done(number, Ok(outcome))),
            Err(error) => done(number, Err(error)),
        };
        let kept = C::WRITES_WAIT || C::LOOKUPS_WAIT;
        self.write_many(&mut tell, async |index, done| {
            let tell = |number, answer: Result<Answer>| match kept {
                true => done(number, answer.map(Answer::owned)),
                false => done(number, answer),
            };
            mixed::run(index, operations, tell).await;
        });
    }

    fn scan(&self, cursor: Cursor, visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<Option<Cursor>> {
        self.executor.block_on(self.index.scan(cursor, visit))
    }

    fn occupancy(&self) -> Result<Occupancy> {
        self.executor.block_on(self.index.occupancy())
    }

    fn flush(&self) -> Result<()> {
        self.executor.block_on(self.index.flush())
    }

    fn survey(&self) -> Result<Survey> {
        self.executor.block_on(self.index.survey())
    }

    fn partitions(&self) -> Vec<PartitionReport> {
        self.executor.block_on(self.index.partitions())
    }

    fn writer(&self) -> Result<Option<u64>> {
        self.executor.block_on(self.index.writer())
    }

    fn start_writing(&self) -> Result<()> {
        self.executor.block_on(self.index.start_writing())
    }

    fn take_over(&self) -> Result<()> {
        self.executor.block_on(self.index.take_over())
    }

    fn resign(&self) -> Result<()> {
        self.executor.block_on(self.index.resign())
    }

    fn is_sealed(&self) -> bool {
        self.index.is_sealed()
    }

    fn build(&self, records: &[(&[u8], &[u8])]) -> Result<()> {
        self.executor.block_on(self.index.build(records))
    }

    fn close(&self) -> Result<()> {
        self.executor.block_on(close(&self.index))
    }

    fn abandon(&self) {
        let closing = self
            .executor
            .endpoint()
            .timeout(PATIENCE, close(&self.index));
        // A count that could not be reported is behind, which it may be; a writer that could not
        // resign is as one that died.
        let _ = self.executor.block_on(closing);
    }

    fn counters(&self) -> Snapshot {
        self.executor.endpoint().core().counters.snapshot()
    }

    fn read_size(&self) -> u64 {
        self.index.read_size()
    }

    fn cache_counts(&self) -> CacheCounts {
        self.index.cache_counts()
    }

    fn client_bytes(&self) -> u64 {
        self.index.client_bytes()
    }

    fn now(&self) -> Nanos {
        self.executor.endpoint().now()
    }
}
