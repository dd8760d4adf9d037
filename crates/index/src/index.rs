//! A remote hash table as one thread's coroutines see it, whatever its scheme.

use crate::answers::{Answers, Got, Outcomes};
use crate::{BATCH_WIDTH, Cursor, Occupancy, Operation, Outcome, Result, Survey, Value};
use farslot_fabric::{Nanos, both, window};
use std::cell::RefCell;
use std::ops::AddAssign;
use std::pin::Pin;

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

/// The rest of a get that has to wait for something.
pub type Rest<'s> = Pin<Box<dyn Future<Output = Got> + 's>>;

/// A remote hash table as one thread's coroutines see it.
///
/// Operations on one key are linearizable for the writers that the scheme admits. An operation that
/// fails left the table as it was, unless
/// [`may_have_taken_effect`](crate::IndexError::may_have_taken_effect) says that this is unknown.
///
/// [`IndexExt`] has a function for each operation.
#[allow(
    async_fn_in_trait,
    reason = "used by one thread, over one endpoint: never Send"
)]
pub trait Index {
    /// Which of its operations may wait for others.
    fn waits(&self) -> Waits;

    /// The key's value; of a multi-key table, that of the first record found. As
    /// [`Operation::Get`], in a future that has no room for a write.
    async fn get(&self, key: &[u8]) -> Result<Option<Value>>;

    /// Has the processor fetch what a get of the key looks at first; false where the memory is not
    /// mapped, or that is not known.
    #[inline]
    fn prefetch(&self, _key: &[u8]) -> bool {
        false
    }

    /// Answers a get without a future, where nothing has to be waited for: mostly so where the
    /// memory is mapped. Else the rest of the get, if it has begun, or nothing.
    #[inline]
    fn get_at_once<'s>(&'s self, _key: &'s [u8]) -> Option<std::result::Result<Got, Rest<'s>>> {
        None
    }

    /// Runs an operation. It answers with the outcome that its [`Operation`] has.
    async fn run(&self, operation: Operation<'_>) -> Result<Outcome>;

    /// Looks up many keys, [`BATCH_WIDTH`] at a time; `done` gets the answers with the keys'
    /// numbers, in the order in which they come, several at once where they have come together.
    async fn look_up(&self, keys: &[&[u8]], done: impl FnMut(Answers<'_>));

    /// Runs many operations; `done` gets the outcomes with the operations' numbers, in the order in
    /// which they come, several at once where they have come together. All gets are under way
    /// together with all others, [`BATCH_WIDTH`] of each at a time: of several on one key, which
    /// one takes effect first is not said.
    async fn run_many(&self, operations: &[Operation<'_>], mut done: impl FnMut(Outcomes<'_>)) {
        run_gets_beside_writes(self, operations, &mut done).await;
    }

    /// As [`Index::run_many`], for operations of which none is a get.
    async fn write_many(&self, operations: &[Operation<'_>], done: impl FnMut(Outcomes<'_>)) {
        run_side_by_side(self, operations, done).await;
    }

    /// Visits a piece of the table from `cursor` on; returns where the next piece starts, or
    /// nothing at the end. A key that is present all along is visited once, whatever others write;
    /// but in a cuckoo or CuckooDuo table, one that the writer moves meanwhile may be visited
    /// twice, or not at all. [`Index::moves`] tells whether it has moved any.
    ///
    /// A piece has at most `most` slots (or records, where these are all that is visited), but no
    /// less than the scheme can begin the next one behind: a slot, a bucket, a group of buckets. It
    /// is never longer than what one READ fetches well, so [`u64::MAX`] visits the table with the
    /// fewest round trips. Each piece of a scan may have another limit.
    async fn scan(
        &self,
        cursor: Cursor,
        most: u64,
        visit: impl FnMut(&[u8], &[u8]),
    ) -> Result<Option<Cursor>>;

    /// What the table holds, read from where the clients add it up. Clients report at intervals, so
    /// that it may lag behind by a small part of the table.
    async fn occupancy(&self) -> Result<Occupancy>;

    /// Reports this client's share of the occupancy now.
    async fn flush(&self) -> Result<()>;

    /// Looks at every slot.
    async fn survey(&self) -> Result<Survey>;

    /// The mark of the client that is the writer now, of a table that admits one at a time.
    async fn writer(&self) -> Result<Option<u64>>;

    /// Changes who that is. Where a table admits any number of writers, this does nothing.
    async fn change_writer(&self, change: WriterChange) -> Result<()>;

    /// A number that is another once a record of the table has moved to where a scan may have been
    /// already: while it is the same, a scan that was cut off can go on. Asked for by the table's
    /// writer, where it admits one.
    async fn moves(&self) -> Result<u64>;

    /// Fills the empty table with all its records and seals it.
    ///
    /// # Errors
    /// [`NotBuildable`](crate::IndexError::NotBuildable) where the scheme cannot, among others.
    async fn build(&self, records: &[Record<'_>]) -> Result<()>;

    /// What the client knows without asking anybody.
    fn state(&self) -> ClientState;

    /// The time of the endpoint's clock.
    fn now(&self) -> Nanos;

    /// Whether the node that the table is on can be reached and is what it was, as far as the
    /// endpoint knows. This asks nobody.
    fn is_up(&self) -> bool;
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
        self.look_up(&keys, |answers| answers.each(&mut done)).await;
    }

    /// [`Operation::GetAll`]: the values of all records of the key.
    async fn get_all(&self, key: &[u8]) -> Result<Vec<Value>> {
        let outcome = self.run(Operation::GetAll(key)).await;
        outcome.map(Outcome::into_values)
    }

    /// [`Operation::Put`]; true if the key is new.
    async fn put(&self, key: &[u8], value: &[u8]) -> Result<bool> {
        let outcome = self.run(Operation::Put(key, value)).await;
        outcome.map(|outcome| outcome.is_changed())
    }

    /// [`Operation::FindOrPut`]: the value that was there, or nothing if the key was absent and has this value now.
    async fn find_or_put(&self, key: &[u8], value: &[u8]) -> Result<Option<Value>> {
        let outcome = self.run(Operation::FindOrPut(key, value)).await;
        outcome.map(Outcome::into_value)
    }

    /// [`Operation::Update`]; false if the key is absent.
    async fn update(&self, key: &[u8], value: &[u8]) -> Result<bool> {
        let outcome = self.run(Operation::Update(key, value)).await;
        outcome.map(|outcome| outcome.is_changed())
    }

    /// [`Operation::Remove`]; false if the key was absent.
    async fn remove(&self, key: &[u8]) -> Result<bool> {
        let outcome = self.run(Operation::Remove(key)).await;
        outcome.map(|outcome| outcome.is_changed())
    }

    /// [`Index::run_many`], told one by one: `done` gets each outcome with the operation's number.
    async fn run_each(
        &self,
        operations: &[Operation<'_>],
        mut done: impl FnMut(usize, Result<Outcome>),
    ) {
        let done = |outcomes: Outcomes<'_>| outcomes.each_of(operations, &mut done);
        self.run_many(operations, done).await;
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
}

impl<I: Index> IndexExt for I {}

/// [`Index::run_many`], compiled once for an index, whoever asks.
async fn run_gets_beside_writes<I: Index + ?Sized>(
    index: &I,
    operations: &[Operation<'_>],
    done: &mut dyn FnMut(Outcomes<'_>),
) {
    let is_get = |operation: &Operation<'_>| matches!(operation, Operation::Get(_));
    if !operations.iter().any(is_get) {
        return index.write_many(operations, done).await;
    }
    if operations.iter().all(is_get) {
        let keys: Vec<_> = operations.iter().map(Operation::key).collect();
        let done = |answers: Answers<'_>| {
            done(answers.map_one(|_, got| got.map(Outcome::Value)));
        };
        return index.look_up(&keys, done).await;
    }
    let numbers = 0..operations.len();
    let (gets, others): (Vec<_>, Vec<_>) = numbers.partition(|number| is_get(&operations[*number]));
    // Nobody else borrows it while it is called: a callback that uses the table begins a batch
    // of its own.
    let done = RefCell::new(done);
    let writes: Vec<_> = others.iter().map(|number| operations[*number]).collect();
    let keys: Vec<_> = gets
        .iter()
        .map(|number| operations[*number].key())
        .collect();
    // Writes take as many round trips as gets or more, so theirs begin first.
    both(
        async {
            if !others.is_empty() {
                let tell = |at: usize, outcome| {
                    (done.borrow_mut())(Outcomes::One(others[at], outcome));
                };
                let done = |outcomes: Outcomes<'_>| outcomes.each_of(&writes, tell);
                index.write_many(&writes, done).await;
            }
        },
        async {
            let mut done = |at: usize, value: Got| {
                (done.borrow_mut())(Outcomes::One(gets[at], value.map(Outcome::Value)));
            };
            index
                .look_up(&keys, |answers| answers.each(&mut done))
                .await;
        },
    )
    .await;
}

/// Runs operations by [`Index::run`], [`BATCH_WIDTH`] at a time.
pub async fn run_side_by_side<I: Index + ?Sized>(
    index: &I,
    operations: &[Operation<'_>],
    mut done: impl FnMut(Outcomes<'_>),
) {
    let run = operations.iter().map(|operation| index.run(*operation));
    window(BATCH_WIDTH, run, |number, outcome| {
        done(Outcomes::One(number, outcome));
    })
    .await;
}
