//! One thread's way to one table: an endpoint, its executor, and the client of the table over it.

use crate::lease::Leased;
use crate::no_room::MemoryLeft;
use crate::nodes::PartitionReport;
use crate::{Cursor, Operation, Outcome, Result, StoreError, WriterChange};
use farslot_fabric::{Endpoint, EndpointExt, Executor, Nanos, NodeId};
use farslot_index::{
    Admin, AdminOutcome, Answers, AnyIndex, ClientState, IndexError, KeptAnswers, Outcomes, Value,
    Waits,
};
use std::cell::Cell;

/// The value of a key of a batch, which takes few registers.
pub(crate) type BatchValue<'v> = std::result::Result<Option<&'v [u8]>, Box<StoreError>>;

/// Gets the answers to the keys of a batch, with the keys' numbers: several by one virtual call,
/// where they have come together.
pub(crate) type AnswerEach<'f> = &'f mut dyn FnMut(Answers<'_, BatchValue<'_>>);

/// Gets the outcomes of a batch's operations, likewise.
pub(crate) type OutcomeOfEach<'f> = &'f mut dyn FnMut(Outcomes<'_, StoreError>);

/// What was asked for.
pub(crate) enum SessionRequest<'o> {
    One(Operation<'o>),
    /// So many puts, side by side.
    Puts(usize),
    /// Something of no key.
    Admin,
}

/// Something that is done, as long as this is held.
pub(crate) trait OperationGuard {}

/// What a table does, whatever its scheme, its fabric and the number of its nodes.
pub(crate) trait Session {
    fn get(&self, key: &[u8]) -> Result<Option<Value>>;
    /// Has the processor fetch what a get of the key looks at first; false where it cannot.
    fn prefetch(&self, _key: &[u8]) -> bool {
        false
    }
    fn run(&self, operation: Operation<'_>) -> Result<Outcome>;
    fn get_many(&self, keys: &[&[u8]], done: AnswerEach<'_>);
    /// Runs a batch; where something is left of a wait, until it has waited for that: operations
    /// without an outcome then were given up.
    fn run_many(
        &self,
        left: Option<&Cell<Nanos>>,
        operations: &[Operation<'_>],
        done: OutcomeOfEach<'_>,
    );
    /// Visits a piece of at most so many slots ([`Index::scan`](farslot_index::Index::scan)).
    fn scan(
        &self,
        cursor: Cursor,
        most: u64,
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<Option<Cursor>>;
    /// The client of the table beneath all that stands on it.
    fn client(&self) -> &dyn Client;
    /// The time of the endpoint's clock.
    fn now(&self) -> Nanos {
        self.client().endpoint().now()
    }
    /// Is told what is asked for that who stands above does with the session beneath, until that
    /// which it returns is dropped.
    fn begun(&self, _: &SessionRequest<'_>) -> Option<Box<dyn OperationGuard + '_>> {
        None
    }
    /// Is told what was asked for that who stands above has done with the session beneath, since
    /// then.
    fn did(&self, _: SessionRequest<'_>, _since: Nanos) {}
    /// Is told with what any of it has failed.
    fn failed(&self, _: &StoreError) {}
    /// The session with the table as it is stored, if this one hides records that have expired.
    fn beneath(&self) -> Option<&dyn Session> {
        None
    }
}

/// What is asked of a table's client, and not of a key: the same of whatever stands on it.
pub(crate) trait Client {
    fn admin(&self, request: Admin<'_>) -> Result<AdminOutcome>;
    /// How many nodes the table is on.
    fn partition_count(&self) -> u16;
    /// What each node has of a table over several.
    fn partitions(&self) -> Vec<PartitionReport>;
    /// Reports this client's counts, and lets another be the writer; tries that for so long, if
    /// there is a limit.
    fn close(&self, within: Option<Nanos>) -> Result<()>;
    fn state(&self) -> ClientState;
    fn endpoint(&self) -> &Leased;
    /// What there is of the memory of a key's node, and the node where there are several.
    fn memory_left(&self, key: &[u8]) -> (Option<String>, Option<MemoryLeft>);
}

/// How often others may be faster before an operation that expects what it has seen fails.
pub(crate) const MOST_ATTEMPTS: u32 = 100_000;

/// The failure of an operation that others were too often faster than.
pub(crate) fn contended() -> StoreError {
    StoreError::Index(IndexError::Contended {
        slot: 0,
        attempts: MOST_ATTEMPTS,
    })
}

/// Lookups whose answers are kept until all of them have come, where one may wait for another.
const LOOKUPS_A_CHUNK: usize = 256;

/// Runs a batch of lookups; `done`, which may itself use the table, gets each answer: where one
/// lookup may wait until others have ended, some at a time, when none is under way.
pub(crate) fn look_up(
    waits: Waits,
    keys: &[&[u8]],
    done: AnswerEach<'_>,
    batch: impl Fn(&[&[u8]], AnswerEach<'_>),
) {
    if waits != Waits::All {
        return batch(keys, done);
    }
    for (chunk, keys) in keys.chunks(LOOKUPS_A_CHUNK).enumerate() {
        let first = chunk * LOOKUPS_A_CHUNK;
        let (mut kept, mut singles) = (KeptAnswers::default(), Vec::new());
        batch(keys, &mut |answers| match answers {
            Answers::Small(small) if kept.keep(small) => {}
            Answers::Small(small) => small.each(|number, value| {
                singles.push((number, Ok(value.map(Value::from))));
            }),
            Answers::One(number, outcome) => {
                singles.push((number, outcome.map(|value| value.map(Value::from))));
            }
        });
        done(Answers::Small(kept.behind(first)));
        for (number, outcome) in &singles {
            let outcome = match outcome {
                Ok(value) => Ok(value.as_deref()),
                Err(error) => Err(error.clone()),
            };
            done(Answers::One(first + number, outcome));
        }
    }
}

/// Runs a batch that may have writes; `done`, which may itself use the table, gets each outcome:
/// where operations may wait for one another, when all have come, for one of `done` would wait for
/// the batch that it is called by.
pub(crate) fn run_batch(
    waits: Waits,
    operations: &[Operation<'_>],
    done: OutcomeOfEach<'_>,
    batch: impl FnOnce(OutcomeOfEach<'_>),
) {
    if waits == Waits::Never {
        return batch(done);
    }
    let (mut kept, mut singles) = (KeptAnswers::default(), Vec::new());
    batch(&mut |answers| match answers {
        Outcomes::Small(small) if kept.keep(small) => {}
        answers => answers.each_of(operations, |number, outcome| {
            singles.push((number, outcome.map(Outcome::detached)));
        }),
    });
    done(Outcomes::Small(kept.behind(0)));
    for (number, outcome) in singles {
        done(Outcomes::One(number, outcome));
    }
}

/// A table on one node.
pub(crate) struct OnOneNode {
    pub(crate) executor: Executor<Leased>,
    /// Opened on the executor's endpoint.
    pub(crate) index: AnyIndex,
    pub(crate) node: NodeId,
}

/// Reports a client's counts and lets another be the writer, whether or not the first fails.
pub(crate) async fn end<E>(
    admin: impl AsyncFn(Admin<'static>) -> std::result::Result<AdminOutcome, E>,
) -> std::result::Result<(), E> {
    let flushed = admin(Admin::Flush).await;
    admin(Admin::ChangeWriter(WriterChange::Resign)).await?;
    flushed.map(drop)
}

impl Session for OnOneNode {
    #[inline]
    fn get(&self, key: &[u8]) -> Result<Option<Value>> {
        Ok(match self.index.get_at_once(key) {
            Some(Ok(got)) => got,
            Some(Err(rest)) => self.executor.block_on(rest),
            None => self.executor.block_on(self.index.get(key)),
        }?)
    }

    #[inline]
    fn prefetch(&self, key: &[u8]) -> bool {
        self.index.prefetch(key)
    }

    #[inline]
    fn run(&self, operation: Operation<'_>) -> Result<Outcome> {
        Ok(match self.index.run_at_once(operation) {
            Some(Ok(outcome)) => outcome,
            Some(Err(rest)) => self.executor.block_on(rest),
            None => self.executor.block_on(self.index.run(operation)),
        }?)
    }

    fn get_many(&self, keys: &[&[u8]], done: AnswerEach<'_>) {
        look_up(self.index.waits(), keys, done, |keys, done| {
            let mut done = |answers: Answers<'_>| match answers {
                Answers::Small(small) => done(Answers::Small(small)),
                Answers::One(number, Ok(value)) => done(Answers::One(number, Ok(value.as_deref()))),
                Answers::One(number, Err(error)) => {
                    done(Answers::One(number, Err(Box::new(error.into()))));
                }
            };
            self.executor.block_on(self.index.look_up(keys, &mut done));
        });
    }

    fn run_many(
        &self,
        left: Option<&Cell<Nanos>>,
        operations: &[Operation<'_>],
        done: OutcomeOfEach<'_>,
    ) {
        run_batch(self.index.waits(), operations, done, |done| {
            let mut done = |outcomes: Outcomes<'_>| {
                done(outcomes.map_one(|_, outcome| outcome.map_err(StoreError::from)));
            };
            let running = self.index.run_many(operations, &mut done);
            block_on_within(&self.executor, left, running);
        });
    }

    fn scan(
        &self,
        cursor: Cursor,
        most: u64,
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<Option<Cursor>> {
        let scanning = self.index.scan(cursor.place, most, visit);
        let next = self.executor.block_on(scanning)?;
        Ok(next.map(|place| Cursor::of(cursor.partition, place)))
    }

    fn client(&self) -> &dyn Client {
        self
    }
}

impl Client for OnOneNode {
    fn admin(&self, request: Admin<'_>) -> Result<AdminOutcome> {
        Ok(self.executor.block_on(self.index.admin(request))?)
    }

    fn partition_count(&self) -> u16 {
        1
    }

    fn partitions(&self) -> Vec<PartitionReport> {
        Vec::new()
    }

    fn close(&self, within: Option<Nanos>) -> Result<()> {
        let ending = end(async |request| Ok(self.index.admin(request).await?));
        block_on_for(&self.executor, within, ending)
    }

    fn state(&self) -> ClientState {
        self.index.state()
    }

    fn endpoint(&self) -> &Leased {
        self.executor.endpoint()
    }

    fn memory_left(&self, _: &[u8]) -> (Option<String>, Option<MemoryLeft>) {
        let left = self.endpoint().memory_left(self.node);
        (None, self.executor.block_on(left))
    }
}

/// Runs a batch, until it has waited for what is left if there is a limit. Whoever asked knows
/// which operations have no outcome.
pub(crate) fn block_on_within<E: Endpoint>(
    executor: &Executor<E>,
    left: Option<&Cell<Nanos>>,
    running: impl Future<Output = ()>,
) {
    match left {
        None => executor.block_on(running),
        Some(left) => {
            let _ = executor.block_on(executor.endpoint().timeout_of_waiting(left, running));
        }
    }
}

/// Runs `closing` for at most so long, if there is a limit. A count that could not be reported then
/// is behind, which it may be; a writer that could not resign is as one that died.
pub(crate) fn block_on_for<E: Endpoint>(
    executor: &Executor<E>,
    within: Option<Nanos>,
    closing: impl Future<Output = Result<()>>,
) -> Result<()> {
    match within {
        None => executor.block_on(closing),
        Some(span) => {
            let limited = executor.endpoint().timeout(span, closing);
            executor.block_on(limited).unwrap_or(Ok(()))
        }
    }
}
