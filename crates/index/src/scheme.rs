//! The one front of all schemes: what a scheme's client does for a key, and the [`Index`] over it.

use crate::answers::Got;
use crate::index::{Admin, AdminOutcome, AtOnce, BoxFuture, IndexExt, QueueRequest};
use crate::{
    Answers, BATCH_WIDTH, ClientState, Cursor, GET, Index, IndexError, Occupancy, Operation,
    Outcome, Outcomes, Record, Result, SCAN, Survey, Value, Waits, WriterChange,
};
use farslot_fabric::{Endpoint, EndpointExt, Nanos, NodeId, both, window};
use std::cell::RefCell;
use std::pin::pin;

/// The schemes that a table of a store may have.
#[derive(
    Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum SchemeKind {
    /// [Linear probing](crate::linear).
    Linear,
    /// [Bucketed cuckoo hashing](crate::cuckoo).
    Cuckoo,
    /// [CuckooDuo](crate::duo).
    Duo,
    /// [RACE](crate::race).
    Race,
    /// [Linear probing, built whole](crate::sealed).
    Sealed,
    /// Elements that are found or put, and stay (paper 002).
    Set,
    /// Buckets with overflow chains, which the owner of the memory writes (paper 003).
    Chained,
    /// An ordered map, which the owner of the memory writes (paper 003).
    Ordered,
    /// A FIFO queue, which the owner of the memory writes (paper 003): its items have no keys.
    Queue,
}

impl SchemeKind {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Linear,
        Self::Cuckoo,
        Self::Duo,
        Self::Race,
        Self::Sealed,
        Self::Set,
        Self::Chained,
        Self::Ordered,
        Self::Queue,
    ];

    /// Its name in commands, messages and catalogs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Linear => "linear",
            Self::Cuckoo => "cuckoo",
            Self::Duo => "duo",
            Self::Race => "race",
            Self::Sealed => "sealed",
            Self::Set => "set",
            Self::Chained => "chained",
            Self::Ordered => "ordered",
            Self::Queue => "queue",
        }
    }

    /// Whether its tables can be built whole, from all their records, and never change again.
    #[must_use]
    pub const fn is_buildable(self) -> bool {
        matches!(self, Self::Cuckoo | Self::Sealed)
    }

    /// Whether its tables admit one writer at a time.
    #[must_use]
    pub const fn admits_one_writer(self) -> bool {
        matches!(self, Self::Cuckoo | Self::Duo)
    }

    /// Whether its tables are given bytes for records beside their slots.
    #[must_use]
    pub const fn has_heap(self) -> bool {
        !matches!(
            self,
            Self::Sealed | Self::Chained | Self::Ordered | Self::Queue
        )
    }

    /// Whether its tables have keys, as all but queues do.
    #[must_use]
    pub const fn has_keys(self) -> bool {
        !matches!(self, Self::Queue)
    }

    /// Whether its tables take part in transactions: those with keys that the owner of the memory
    /// writes.
    #[must_use]
    pub const fn is_transactional(self) -> bool {
        matches!(self, Self::Chained | Self::Ordered)
    }

    /// Whether records stay as they were put: nothing replaces or removes one.
    #[must_use]
    pub const fn only_grows(self) -> bool {
        matches!(self, Self::Set)
    }

    /// Whether a value is replaced only if it is what the client expects, in one step.
    #[must_use]
    pub const fn replaces_in_one_step(self) -> bool {
        matches!(
            self,
            Self::Linear | Self::Race | Self::Chained | Self::Ordered
        )
    }
}

impl std::fmt::Display for SchemeKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

/// What the client of a scheme does; [`Index`] is written over it once, for all schemes, and counts
/// what an operation on a key or [`SchemeClient::scan_piece`] posts to its class.
///
/// The defaults are those of a scheme that any number of clients may write, of unique keys.
#[allow(
    async_fn_in_trait,
    reason = "used by one thread, over one endpoint: never Send"
)]
pub trait SchemeClient: Sized {
    /// The endpoint that it posts to.
    type Endpoint: Endpoint;

    /// The scheme's name, for errors.
    const NAME: &'static str;

    /// Which operations may wait for others.
    const WAITS: Waits = Waits::Never;

    /// The endpoint that the table is reached by.
    fn endpoint(&self) -> &Self::Endpoint;

    /// The node that the table is on.
    fn node(&self) -> NodeId;

    /// Looks up a key.
    async fn find(&self, key: &[u8]) -> Result<Option<Value>>;

    /// Has the processor fetch what a lookup looks at first, as [`Index::prefetch`] says.
    #[inline]
    fn prefetch_slots(&self, _key: &[u8]) -> bool {
        false
    }

    /// Looks up a key without a future and counts it for [`GET`], as [`Index::get_at_once`] says.
    #[inline]
    fn find_at_once<'s>(&'s self, _key: &'s [u8]) -> AtOnce<'s, Got> {
        None
    }

    /// Does an operation that is no lookup without a future and counts it for its class, as
    /// [`Index::run_at_once`] says.
    #[inline]
    fn write_at_once<'s>(&'s self, _write: Operation<'s>) -> AtOnce<'s, Result<Outcome>> {
        None
    }

    /// Looks up a key, and counts that for [`GET`].
    #[inline]
    async fn find_one(&self, key: &[u8]) -> Got {
        self.endpoint().operation(GET, self.find(key)).await
    }

    /// Looks up all records of a key.
    async fn find_all(&self, key: &[u8]) -> Result<Vec<Value>> {
        Ok(self.find(key).await?.into_iter().collect())
    }

    /// Looks up many keys, and counts each for [`GET`]: side by side, where the scheme has nothing
    /// better.
    async fn find_many(&self, keys: &[&[u8]], done: &mut dyn FnMut(Answers<'_>)) {
        let gets = keys.iter().map(|key| self.find_one(key));
        window(BATCH_WIDTH, gets, |number, answer| {
            done(Answers::One(number, answer));
        })
        .await;
    }

    /// Does many operations that are no gets, and counts each for its class: side by side, where
    /// the scheme has nothing better.
    async fn write_many(&self, writes: &[Operation<'_>], done: &mut dyn FnMut(Outcomes<'_>)) {
        run_side_by_side(self, writes, done).await;
    }

    /// Does an operation that is no lookup. One that the scheme cannot do in one step fails with
    /// [`SchemeClient::not_atomic`].
    async fn write(&self, operation: Operation<'_>) -> Result<Outcome>;

    /// Does an operation, and counts it for its class.
    async fn run_one(&self, operation: Operation<'_>) -> Result<Outcome> {
        // Pinned here: an operation that is moved is moved byte by byte.
        let doing = pin!(async {
            Ok(match operation {
                Operation::Get(key) => Outcome::Value(self.find(key).await?),
                Operation::GetAll(key) => Outcome::Values(self.find_all(key).await?),
                write => self.write(write).await?,
            })
        });
        self.endpoint().operation(operation.class(), doing).await
    }

    /// The error of a write that the scheme cannot do in one step.
    fn not_atomic() -> IndexError {
        IndexError::NotAtomic { scheme: Self::NAME }
    }

    /// Visits a piece of the table, as [`Index::scan`] says.
    async fn scan_piece(
        &self,
        cursor: Cursor,
        most: u64,
        visit: impl FnMut(&[u8], &[u8]),
    ) -> Result<Option<Cursor>>;

    /// Reads what the table holds.
    async fn read_occupancy(&self) -> Result<Occupancy>;

    /// Reports this client's share of that.
    async fn report_all(&self) -> Result<()>;

    /// Looks at every slot; where the counts say all there is to see, they will do.
    async fn look_at_slots(&self) -> Result<Survey> {
        Ok(Survey::Counted(self.read_occupancy().await?))
    }

    /// The writer that the table has, where it admits one.
    async fn current_writer(&self) -> Result<Option<u64>> {
        Ok(None)
    }

    /// Becomes the writer or resigns, where the table admits one.
    async fn become_or_resign(&self, _: WriterChange) -> Result<()> {
        Ok(())
    }

    /// Makes room for records before it is needed, where the table keeps any in a heap.
    async fn make_room_ahead(&self) -> Result<()> {
        Ok(())
    }

    /// Counts what [`Admin::Moves`] says.
    async fn count_of_moves(&self) -> Result<u64> {
        Ok(0)
    }

    /// Fills the empty table and seals it, where the scheme can.
    async fn build_whole(&self, _: &[Record<'_>]) -> Result<()> {
        Err(IndexError::NotBuildable { scheme: Self::NAME })
    }

    /// Does what is asked of a queue, where the table is one.
    async fn queue(&self, _: QueueRequest<'_>) -> Result<AdminOutcome> {
        Err(IndexError::NoQueue { scheme: Self::NAME })
    }

    /// What the client knows of the table and of itself.
    fn known(&self) -> ClientState;
}

impl<S: SchemeClient> Index for S {
    fn waits(&self) -> Waits {
        S::WAITS
    }

    #[inline]
    fn get<'s>(&'s self, key: &'s [u8]) -> BoxFuture<'s, Got> {
        Box::pin(self.find_one(key))
    }

    #[inline]
    fn prefetch(&self, key: &[u8]) -> bool {
        self.prefetch_slots(key)
    }

    #[inline]
    fn get_at_once<'s>(&'s self, key: &'s [u8]) -> AtOnce<'s, Got> {
        self.find_at_once(key)
    }

    #[inline]
    fn run_at_once<'s>(&'s self, operation: Operation<'s>) -> AtOnce<'s, Result<Outcome>> {
        match operation {
            Operation::Get(key) => Some(match self.find_at_once(key)? {
                Ok(got) => Ok(got.map(Outcome::Value)),
                Err(rest) => Err(Box::pin(async { rest.await.map(Outcome::Value) })),
            }),
            Operation::GetAll(_) => None,
            write => self.write_at_once(write),
        }
    }

    fn run<'s>(&'s self, operation: Operation<'s>) -> BoxFuture<'s, Result<Outcome>> {
        Box::pin(self.run_one(operation))
    }

    fn look_up<'s>(
        &'s self,
        keys: &'s [&'s [u8]],
        done: &'s mut dyn FnMut(Answers<'_>),
    ) -> BoxFuture<'s, ()> {
        Box::pin(self.find_many(keys, done))
    }

    fn run_many<'s>(
        &'s self,
        operations: &'s [Operation<'s>],
        done: &'s mut dyn FnMut(Outcomes<'_>),
    ) -> BoxFuture<'s, ()> {
        if let [operation] = operations {
            // Alone, it has no other to fetch memory beside.
            return Box::pin(async { done(Outcomes::One(0, self.run_alone(*operation).await)) });
        }
        let is_get = |operation: &Operation<'_>| matches!(operation, Operation::Get(_));
        match operations.iter().any(is_get) {
            true => Box::pin(run_gets_beside_writes(self, operations, done)),
            // Of less than half the size: a future is moved into its box byte by byte.
            false => Box::pin(self.write_many(operations, done)),
        }
    }

    fn scan<'s>(
        &'s self,
        cursor: Cursor,
        most: u64,
        visit: &'s mut dyn FnMut(&[u8], &[u8]),
    ) -> BoxFuture<'s, Result<Option<Cursor>>> {
        let scanning = self.scan_piece(cursor, most, visit);
        Box::pin(self.endpoint().operation(SCAN, scanning))
    }

    fn admin<'s>(&'s self, request: Admin<'s>) -> BoxFuture<'s, Result<AdminOutcome>> {
        Box::pin(async move {
            Ok(match request {
                Admin::Occupancy => AdminOutcome::Occupancy(self.read_occupancy().await?),
                Admin::Flush => {
                    self.report_all().await?;
                    AdminOutcome::Done
                }
                Admin::CleanAhead => {
                    self.make_room_ahead().await?;
                    AdminOutcome::Done
                }
                Admin::Survey => AdminOutcome::Survey(self.look_at_slots().await?),
                Admin::Writer => AdminOutcome::Writer(self.current_writer().await?),
                Admin::ChangeWriter(change) => {
                    self.become_or_resign(change).await?;
                    AdminOutcome::Done
                }
                Admin::Moves => AdminOutcome::Moves(vec![self.count_of_moves().await?]),
                Admin::Build(records) => {
                    self.build_whole(records).await?;
                    AdminOutcome::Done
                }
                Admin::Queue(request) => self.queue(request).await?,
            })
        })
    }

    fn state(&self) -> ClientState {
        self.known()
    }

    fn now(&self) -> Nanos {
        self.endpoint().now()
    }

    fn is_up(&self) -> bool {
        self.endpoint().is_up(self.node())
    }
}

/// [`Index::run_many`] of a scheme.
async fn run_gets_beside_writes<S: SchemeClient>(
    table: &S,
    operations: &[Operation<'_>],
    done: &mut dyn FnMut(Outcomes<'_>),
) {
    let is_get = |operation: &Operation<'_>| matches!(operation, Operation::Get(_));
    if operations.iter().all(is_get) {
        let keys: Vec<_> = operations.iter().map(Operation::key).collect();
        let mut done = |answers: Answers<'_>| {
            done(answers.map_one(|_, got| got.map(Outcome::Value)));
        };
        return table.find_many(&keys, &mut done).await;
    }
    let numbers = 0..operations.len();
    let (gets, write_numbers): (Vec<_>, Vec<_>) =
        numbers.partition(|number| is_get(&operations[*number]));
    // Nobody else borrows it while it is called: a callback that uses the table begins a batch
    // of its own.
    let done = RefCell::new(done);
    let writes: Vec<_> = write_numbers
        .iter()
        .map(|number| operations[*number])
        .collect();
    let keys: Vec<_> = gets
        .iter()
        .map(|number| operations[*number].key())
        .collect();
    // Writes take as many round trips as gets or more, so theirs begin first.
    both(
        async {
            if !write_numbers.is_empty() {
                let tell = |at: usize, outcome| {
                    (done.borrow_mut())(Outcomes::One(write_numbers[at], outcome));
                };
                let mut done = |outcomes: Outcomes<'_>| outcomes.each_of(&writes, tell);
                table.write_many(&writes, &mut done).await;
            }
        },
        async {
            let mut done = |at: usize, value: Got| {
                (done.borrow_mut())(Outcomes::One(gets[at], value.map(Outcome::Value)));
            };
            table
                .find_many(&keys, &mut |answers: Answers<'_>| answers.each(&mut done))
                .await;
        },
    )
    .await;
}

/// Runs operations by [`SchemeClient::run_one`], [`BATCH_WIDTH`] at a time.
pub async fn run_side_by_side<S: SchemeClient>(
    table: &S,
    operations: &[Operation<'_>],
    done: &mut dyn FnMut(Outcomes<'_>),
) {
    let run = operations.iter().map(|operation| table.run_one(*operation));
    window(BATCH_WIDTH, run, |number, outcome| {
        done(Outcomes::One(number, outcome));
    })
    .await;
}
