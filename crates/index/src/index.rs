//! A remote hash table as one thread's coroutines see it, whatever its scheme.

use crate::answers::{Answers, Got, Outcomes};
use crate::{Cursor, Occupancy, Operation, Outcome, Result, Survey, Value};
use farslot_fabric::Nanos;
use std::ops::AddAssign;
use std::pin::Pin;
use std::rc::Rc;

/// A key and its value.
pub type Record<'r> = (&'r [u8], &'r [u8]);

/// Which operations of a client may wait until others of the same client have ended. Who runs a
/// batch of them must not be called back from within it by an operation that others wait for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Waits {
    /// None does.
    Never,
    /// A write for other writes.
    Writes,
    /// A write or a lookup for either.
    All,
}

/// A step into or out of the role of a table's only writer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WriterChange {
    /// Becomes the writer now and not at the first write.
    Start,
    /// Becomes the writer in place of one that is dead. This waits as long as something that it had
    /// begun may still happen. It is refused while the writer's process is known to run, even if it
    /// is stopped: [`IndexError::WriterAlive`](crate::IndexError::WriterAlive).
    TakeOver,
    /// The same, whether or not the writer's process runs.
    ForceTakeOver,
    /// Is the writer no longer, until the next write.
    Resign,
}

/// What a cache has done, and what it holds; zeros where there is none.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CacheCounts {
    /// Lookups that it has answered.
    pub hits: u64,
    /// Lookups that it has asked the table for.
    pub misses: u64,
    /// Answers that it holds.
    pub entries: u64,
    /// Bytes that it takes at the moment.
    pub bytes: u64,
}

impl AddAssign for CacheCounts {
    fn add_assign(&mut self, other: Self) {
        self.hits += other.hits;
        self.misses += other.misses;
        self.entries += other.entries;
        self.bytes += other.bytes;
    }
}

/// What a client knows of its table and of itself without asking anybody.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ClientState {
    /// Whether no answer can change any more, as far as this client knows.
    pub sealed: bool,
    /// Slots that one READ of the next lookup fetches.
    pub read_size: u64,
    /// Bytes of this process's memory that the client takes, or may take, by the size of the table
    /// or of its options, beside its endpoint's buffers: an index of the table, its directory, its
    /// graph, remembered locations, cached answers. More when the table has grown.
    pub client_bytes: u64,
    /// What its cache has done; zeros without one.
    pub cache: CacheCounts,
}

/// What a thread's coroutines wait for, whatever is behind it.
pub type BoxFuture<'s, T> = Pin<Box<dyn Future<Output = T> + 's>>;

/// What comes of an operation without a future: its answer, or the rest of it, if it has to wait
/// for something. The rest may hold what others wait for, so poll or drop it soon. Nothing if
/// nothing was done, mostly because the memory is not mapped.
pub type AtOnce<'s, T> = Option<std::result::Result<T, BoxFuture<'s, T>>>;

/// What is rarely asked for: of the table as a whole, or of who writes it.
#[derive(Clone, Copy, Debug)]
pub enum Admin<'r> {
    /// What the table holds, read from where the clients add it up. Clients report at intervals, so
    /// that it may lag behind by a small part of the table.
    Occupancy,
    /// Report this client's share of the occupancy now.
    Flush,
    /// Make room for records before it is needed, where dead ones have it; in a call, as far as its
    /// turn is for that.
    CleanAhead,
    /// Look at every slot.
    Survey,
    /// The mark of the client that is the writer now, of a table that admits one at a time.
    Writer,
    /// Change who that is. Where a table admits any number of writers, this does nothing.
    ChangeWriter(WriterChange),
    /// A number that is another once a record of the table has moved to where a scan may have been
    /// already: while it is the same, a scan that was cut off can go on. Asked for by the table's
    /// writer, where it admits one.
    Moves,
    /// Fill the empty table with all its records and seal it:
    /// [`NotBuildable`](crate::IndexError::NotBuildable) where the scheme cannot.
    Build(&'r [Record<'r>]),
    /// Something of a queue: [`NoQueue`](crate::IndexError::NoQueue) where the table is none.
    Queue(QueueRequest<'r>),
}

/// What is asked of a queue, which has items in the order in which they came, and no keys.
#[derive(Clone, Copy, Debug)]
pub enum QueueRequest<'r> {
    /// Add these items behind all others, one behind the other, all or none: the answer is the
    /// [`Position`](AdminOutcome::Position) of the first.
    Push(&'r [&'r [u8]]),
    /// Take the first items, at most so many. The answer is [`Items`](AdminOutcome::Items), some at
    /// least where there are any.
    Pop(u32),
    /// The first item, which stays: [`Items`](AdminOutcome::Items), one or none.
    Front,
}

/// What an [`Admin`] request answers.
#[derive(Clone, Debug)]
pub enum AdminOutcome {
    /// It is done.
    Done,
    /// Of [`Admin::Occupancy`].
    Occupancy(Occupancy),
    /// Of [`Admin::Survey`].
    Survey(Survey),
    /// Of [`Admin::Writer`].
    Writer(Option<u64>),
    /// Of [`Admin::Moves`], a number for each partition: of an index one.
    Moves(Vec<u64>),
    /// How many items had been added to a queue before.
    Position(u64),
    /// Items of a queue.
    Items(Vec<Vec<u8>>),
}

impl AdminOutcome {
    /// What the table holds.
    ///
    /// # Panics
    /// If that was not asked for.
    #[must_use]
    pub fn into_occupancy(self) -> Occupancy {
        match self {
            Self::Occupancy(occupancy) => occupancy,
            other => other.is_not("an occupancy"),
        }
    }

    /// What a look at every slot has found.
    ///
    /// # Panics
    /// If that was not asked for.
    #[must_use]
    pub fn into_survey(self) -> Survey {
        match self {
            Self::Survey(survey) => survey,
            other => other.is_not("a survey"),
        }
    }

    /// The mark of the writer, if there is one.
    ///
    /// # Panics
    /// If that was not asked for.
    #[must_use]
    pub fn into_writer(self) -> Option<u64> {
        match self {
            Self::Writer(writer) => writer,
            other => other.is_not("a writer"),
        }
    }

    /// What tells whether records have moved, of each partition.
    ///
    /// # Panics
    /// If that was not asked for.
    #[must_use]
    pub fn into_moves(self) -> Vec<u64> {
        match self {
            Self::Moves(moves) => moves,
            other => other.is_not("moves"),
        }
    }

    /// The position of an item.
    ///
    /// # Panics
    /// If that was not asked for.
    #[must_use]
    pub fn into_position(self) -> u64 {
        match self {
            Self::Position(position) => position,
            other => other.is_not("a position"),
        }
    }

    /// The items of a queue.
    ///
    /// # Panics
    /// If that was not asked for.
    #[must_use]
    pub fn into_items(self) -> Vec<Vec<u8>> {
        match self {
            Self::Items(items) => items,
            other => other.is_not("items"),
        }
    }

    fn is_not(&self, asked: &str) -> ! {
        unreachable!("{asked} was asked for, and the answer is {self:?}")
    }
}

/// A remote hash table as one thread's coroutines see it.
///
/// Operations on one key are linearizable for the writers that the scheme admits. An operation that
/// fails left the table as it was, unless
/// [`may_have_taken_effect`](crate::IndexError::may_have_taken_effect) says that this is unknown.
///
/// [`IndexExt`] has a function for each operation and each [`Admin`] request. Whoever holds an
/// [`AnyIndex`] need not know the scheme. Each operation that has to wait costs an allocation; a
/// batch costs one for all of its operations that do not wait, and an operation that is [done at
/// once](AtOnce) none.
///
/// ```no_run
/// # use farslot_index::{AnyIndex, Result};
/// # async fn example(linear: AnyIndex, cuckoo: AnyIndex) -> Result<()> {
/// for index in [linear, cuckoo] {
///     index.get(b"key").await?;
/// }
/// # Ok(()) }
/// ```
pub trait Index {
    /// Which of its operations may wait for others.
    fn waits(&self) -> Waits;

    /// The key's value; of a multi-key table, that of the first record found. As
    /// [`Operation::Get`], in a future that has no room for a write.
    fn get<'s>(&'s self, key: &'s [u8]) -> BoxFuture<'s, Got>;

    /// Has the processor fetch what a get of the key looks at first; false where the memory is not
    /// mapped, or that is not known.
    #[inline]
    fn prefetch(&self, _key: &[u8]) -> bool {
        false
    }

    /// Answers a get without a future, where nothing has to be waited for.
    #[inline]
    fn get_at_once<'s>(&'s self, _key: &'s [u8]) -> AtOnce<'s, Got> {
        None
    }

    /// Runs an operation without a future, where nothing has to be waited for.
    #[inline]
    fn run_at_once<'s>(&'s self, _operation: Operation<'s>) -> AtOnce<'s, Result<Outcome>> {
        None
    }

    /// Runs an operation. It answers with the outcome that its [`Operation`] has.
    fn run<'s>(&'s self, operation: Operation<'s>) -> BoxFuture<'s, Result<Outcome>>;

    /// Looks up many keys, [`BATCH_WIDTH`](crate::BATCH_WIDTH) at a time; `done` gets the answers
    /// with the keys' numbers, in the order in which they come, several at once where they have
    /// come together.
    fn look_up<'s>(
        &'s self,
        keys: &'s [&'s [u8]],
        done: &'s mut dyn FnMut(Answers<'_>),
    ) -> BoxFuture<'s, ()>;

    /// Runs many operations; `done` gets the outcomes with the operations' numbers, in the order in
    /// which they come, several at once where they have come together. All gets are under way
    /// together with all others, [`BATCH_WIDTH`](crate::BATCH_WIDTH) of each at a time: of several
    /// on one key, which one takes effect first is not said.
    fn run_many<'s>(
        &'s self,
        operations: &'s [Operation<'s>],
        done: &'s mut dyn FnMut(Outcomes<'_>),
    ) -> BoxFuture<'s, ()>;

    /// Visits a piece of the table from `cursor` on; returns where the next piece starts, or
    /// nothing at the end. A key that is present all along is visited once, whatever others write;
    /// but in a cuckoo or CuckooDuo table, one that the writer moves meanwhile may be visited
    /// twice, or not at all. [`Admin::Moves`] tells whether it has moved any.
    ///
    /// A piece has at most `most` slots (or records, where these are all that is visited), but no
    /// less than the scheme can begin the next one behind: a slot, a bucket, a group of buckets. It
    /// is never longer than what one READ fetches well, so [`u64::MAX`] visits the table with the
    /// fewest round trips. Each piece of a scan may have another limit.
    fn scan<'s>(
        &'s self,
        cursor: Cursor,
        most: u64,
        visit: &'s mut dyn FnMut(&[u8], &[u8]),
    ) -> BoxFuture<'s, Result<Option<Cursor>>>;

    /// Does what is rarely asked for. It answers with the outcome that its [`Admin`] request has.
    fn admin<'s>(&'s self, request: Admin<'s>) -> BoxFuture<'s, Result<AdminOutcome>>;

    /// What the client knows without asking anybody.
    fn state(&self) -> ClientState;

    /// The time of the endpoint's clock.
    fn now(&self) -> Nanos;

    /// Whether the node that the table is on can be reached and is what it was, as far as the
    /// endpoint knows. This asks nobody.
    fn is_up(&self) -> bool;
}

/// An [`Index`] whose scheme only the running program knows. Clones are the same client.
pub type AnyIndex = Rc<dyn Index>;

impl std::fmt::Debug for dyn Index {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Index").field(&self.state()).finish()
    }
}

/// The operations of an [`Index`] by their names.
#[allow(
    async_fn_in_trait,
    reason = "used by one thread, over one endpoint: never Send"
)]
pub trait IndexExt: Index {
    /// [`Index::look_up`]; `done` gets each answer with the key's number.
    async fn get_many<'k>(
        &self,
        keys: impl IntoIterator<Item = &'k [u8]>,
        mut done: impl FnMut(usize, Got),
    ) {
        let keys: Vec<_> = keys.into_iter().collect();
        self.look_up(&keys, &mut |answers| answers.each(&mut done))
            .await;
    }

    /// [`Index::run`], without a future of its own where nothing has to be waited for.
    async fn run_alone(&self, operation: Operation<'_>) -> Result<Outcome> {
        match self.run_at_once(operation) {
            Some(Ok(outcome)) => outcome,
            Some(Err(rest)) => rest.await,
            None => self.run(operation).await,
        }
    }

    /// [`Operation::GetAll`]: the values of all records of the key.
    async fn get_all(&self, key: &[u8]) -> Result<Vec<Value>> {
        let outcome = self.run(Operation::GetAll(key)).await;
        outcome.map(Outcome::into_values)
    }

    /// [`Operation::Put`]; true if the key is new.
    async fn put(&self, key: &[u8], value: &[u8]) -> Result<bool> {
        let outcome = self.run_alone(Operation::Put(key, value)).await;
        outcome.map(|outcome| outcome.is_changed())
    }

    /// [`Operation::FindOrPut`]: the value that was there, or nothing if the key was absent and has
    /// this value now.
    async fn find_or_put(&self, key: &[u8], value: &[u8]) -> Result<Option<Value>> {
        let outcome = self.run_alone(Operation::FindOrPut(key, value)).await;
        outcome.map(Outcome::into_value)
    }

    /// [`Operation::Update`]; false if the key is absent.
    async fn update(&self, key: &[u8], value: &[u8]) -> Result<bool> {
        let outcome = self.run_alone(Operation::Update(key, value)).await;
        outcome.map(|outcome| outcome.is_changed())
    }

    /// [`Operation::Remove`]; false if the key was absent.
    async fn remove(&self, key: &[u8]) -> Result<bool> {
        let outcome = self.run_alone(Operation::Remove(key)).await;
        outcome.map(|outcome| outcome.is_changed())
    }

    /// [`Index::run_many`], told one by one: `done` gets each outcome with the operation's number.
    async fn run_each(
        &self,
        operations: &[Operation<'_>],
        mut done: impl FnMut(usize, Result<Outcome>),
    ) {
        let mut done = |outcomes: Outcomes<'_>| outcomes.each_of(operations, &mut done);
        self.run_many(operations, &mut done).await;
    }

    /// Puts many records. Of several with the same key, which one stays is not said.
    async fn put_many<'k>(
        &self,
        records: impl IntoIterator<Item = Record<'k>>,
        mut done: impl FnMut(usize, Result<bool>),
    ) {
        let puts = records.into_iter();
        let puts: Vec<_> = puts
            .map(|(key, value)| Operation::Put(key, value))
            .collect();
        let done = |number, outcome: Result<Outcome>| {
            done(number, outcome.map(|outcome| outcome.is_changed()));
        };
        self.run_each(&puts, done).await;
    }

    /// [`Admin::Occupancy`].
    async fn occupancy(&self) -> Result<Occupancy> {
        let outcome = self.admin(Admin::Occupancy).await;
        outcome.map(AdminOutcome::into_occupancy)
    }

    /// [`Admin::Flush`].
    async fn flush(&self) -> Result<()> {
        self.admin(Admin::Flush).await.map(drop)
    }

    /// [`Admin::Survey`].
    async fn survey(&self) -> Result<Survey> {
        let outcome = self.admin(Admin::Survey).await;
        outcome.map(AdminOutcome::into_survey)
    }

    /// [`Admin::Writer`].
    async fn writer(&self) -> Result<Option<u64>> {
        let outcome = self.admin(Admin::Writer).await;
        outcome.map(AdminOutcome::into_writer)
    }

    /// [`Admin::ChangeWriter`].
    async fn change_writer(&self, change: WriterChange) -> Result<()> {
        self.admin(Admin::ChangeWriter(change)).await.map(drop)
    }

    /// [`Admin::Moves`].
    async fn moves(&self) -> Result<u64> {
        let outcome = self.admin(Admin::Moves).await?;
        Ok(outcome.into_moves().into_iter().sum())
    }

    /// [`Admin::Build`].
    async fn build(&self, records: &[Record<'_>]) -> Result<()> {
        self.admin(Admin::Build(records)).await.map(drop)
    }
}

impl<I: Index + ?Sized> IndexExt for I {}
