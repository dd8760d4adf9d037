//! What every index can be asked for.

use crate::{Result, Value};
use farslot_fabric::{Nanos, OperationClass, window};
use std::ops::AddAssign;

/// Lookups, `get` and each key of `get_many`.
pub const GET: OperationClass = OperationClass(0);
/// Lookups of all records of a key.
pub const GET_ALL: OperationClass = OperationClass(1);
/// Insertions that may replace.
pub const PUT: OperationClass = OperationClass(2);
/// Insertions that never replace (paper 002).
pub const FIND_OR_PUT: OperationClass = OperationClass(3);
/// Replacements of what is there.
pub const UPDATE: OperationClass = OperationClass(4);
/// Removals.
pub const REMOVE: OperationClass = OperationClass(5);
/// Pieces of an iteration.
pub const SCAN: OperationClass = OperationClass(6);
/// What an index does for itself: reading the load factor, getting memory.
pub const UPKEEP: OperationClass = OperationClass(7);

/// The operation classes with their names.
pub const OPERATIONS: [(OperationClass, &str); 8] = [
    (GET, "get"),
    (GET_ALL, "get_all"),
    (PUT, "put"),
    (FIND_OR_PUT, "find_or_put"),
    (UPDATE, "update"),
    (REMOVE, "remove"),
    (SCAN, "scan"),
    (UPKEEP, "upkeep"),
];

/// What `find_or_put` did.
#[derive(Debug)]
pub enum FindOrPut {
    /// The key was there, with this value; nothing was changed.
    Found(Value),
    /// The key was not there and is now, with the value given.
    Inserted,
}

/// A write of a batch in which there are several kinds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Write<'r> {
    /// [`Index::put`] of this key and this value.
    Put(&'r [u8], &'r [u8]),
    /// [`Index::find_or_put`].
    FindOrPut(&'r [u8], &'r [u8]),
    /// [`Index::update`].
    Update(&'r [u8], &'r [u8]),
    /// [`Index::remove`] of this key.
    Remove(&'r [u8]),
}

impl<'r> Write<'r> {
    /// The key.
    #[inline]
    #[must_use]
    pub const fn key(&self) -> &'r [u8] {
        match self {
            Self::Put(key, _)
            | Self::FindOrPut(key, _)
            | Self::Update(key, _)
            | Self::Remove(key) => key,
        }
    }
}

/// What a [`Write`] did.
#[derive(Debug)]
pub enum Written {
    /// What [`Index::put`], [`Index::update`] or [`Index::remove`] answers.
    Changed(bool),
    /// What [`Index::find_or_put`] answers.
    FoundOrPut(FindOrPut),
}

/// How far an iteration has come: a slot number. 0 starts one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Cursor(pub u64);

/// What a table holds, as its clients have counted it together.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Occupancy {
    /// Keys present (records, in a multi-key table).
    pub entries: u64,
    /// Slots in use, those of removed keys included.
    pub used_slots: u64,
    /// All slots.
    pub slots: u64,
    /// Bytes of heap handed out, free or not.
    pub heap_used: u64,
    /// Bytes of heap in all.
    pub heap_bytes: u64,
}

impl Occupancy {
    /// Slots in use per slot, 0 to 1.
    #[must_use]
    pub fn load_factor(&self) -> f64 {
        self.used_slots as f64 / self.slots.max(1) as f64
    }
}

/// What two tables hold together, as the partitions of one do.
impl AddAssign for Occupancy {
    fn add_assign(&mut self, other: Self) {
        self.entries += other.entries;
        self.used_slots += other.used_slots;
        self.slots += other.slots;
        self.heap_used += other.heap_used;
        self.heap_bytes += other.heap_bytes;
    }
}

/// How many operations of a batch are under way at once unless the caller says otherwise.
pub const BATCH_WIDTH: usize = 32;

/// A remote hash table as one thread's coroutines see it.
///
/// Single-key operations are linearizable for the writers that the scheme admits. An operation that
/// fails left the table as it was, unless
/// [`may_have_taken_effect`](crate::IndexError::may_have_taken_effect) says that this is unknown.
#[allow(
    async_fn_in_trait,
    reason = "used by one thread, over one endpoint: never Send"
)]
pub trait Index {
    /// The key's value; of a multi-key table, that of the first record found.
    async fn get(&self, key: &[u8]) -> Result<Option<Value>>;

    /// Every record of the key, each once; returns how many. Records that are put or removed during
    /// the lookup may be found or not.
    async fn get_all(&self, key: &[u8], found: impl FnMut(&[u8])) -> Result<usize>;

    /// Makes the key have this value; true if it is new. A multi-key table gets one record more.
    async fn put(&self, key: &[u8], value: &[u8]) -> Result<bool>;

    /// Puts the value if the key is absent, else answers with the value that is there (paper 002).
    async fn find_or_put(&self, key: &[u8], value: &[u8]) -> Result<FindOrPut>;

    /// Replaces the value of a key that is present; false if it is absent.
    async fn update(&self, key: &[u8], value: &[u8]) -> Result<bool>;

    /// Removes the key, with all its records; false if it was absent. If it fails on a multi-key
    /// table, some of the records may be gone.
    async fn remove(&self, key: &[u8]) -> Result<bool>;

    /// Visits a piece of the table from `cursor` on; returns where the next piece starts, or nothing
    /// at the end. A key that is present all along is visited once, whatever others write.
    async fn scan(&self, cursor: Cursor, visit: impl FnMut(&[u8], &[u8]))
    -> Result<Option<Cursor>>;

    /// What the table holds, read from where the clients add it up. Clients report at intervals, so
    /// that it may lag behind by a small part of the table.
    async fn occupancy(&self) -> Result<Occupancy>;

    /// Reports this client's share of the occupancy now.
    async fn flush(&self) -> Result<()>;

    /// The time of the endpoint's clock.
    fn now(&self) -> Nanos;

    /// Whether the node that the table is on can be reached and is what it was, as far as the endpoint knows. This asks
    /// nobody.
    fn is_up(&self) -> bool;

    /// Whether no answer can change any more, as far as this client knows.
    fn is_immutable(&self) -> bool {
        false
    }

    /// Bytes of this client's own memory that the scheme takes, or may take, by the size of the table or of its options:
    /// an index of the table, its directory, its graph, its hints. More when the table has grown. None by default.
    fn client_bytes(&self) -> u64 {
        0
    }

    /// Looks up many keys, [`BATCH_WIDTH`] at a time; `done` gets each answer with the key's number,
    /// in the order in which they come.
    async fn get_many<'k>(
        &self,
        keys: impl IntoIterator<Item = &'k [u8]>,
        done: impl FnMut(usize, Result<Option<Value>>),
    ) {
        window(BATCH_WIDTH, keys.into_iter().map(|key| self.get(key)), done).await;
    }

    /// Puts many records. Of several with the same key, which one stays is not said.
    async fn put_many<'k>(
        &self,
        records: impl IntoIterator<Item = (&'k [u8], &'k [u8])>,
        done: impl FnMut(usize, Result<bool>),
    ) {
        let puts = records.into_iter().map(|(key, value)| self.put(key, value));
        window(BATCH_WIDTH, puts, done).await;
    }

    /// Finds or puts many records.
    async fn find_or_put_many<'k>(
        &self,
        records: impl IntoIterator<Item = (&'k [u8], &'k [u8])>,
        done: impl FnMut(usize, Result<FindOrPut>),
    ) {
        let puts = records
            .into_iter()
            .map(|(key, value)| self.find_or_put(key, value));
        window(BATCH_WIDTH, puts, done).await;
    }

    /// Replaces the values of many keys that are present.
    async fn update_many<'k>(
        &self,
        records: impl IntoIterator<Item = (&'k [u8], &'k [u8])>,
        done: impl FnMut(usize, Result<bool>),
    ) {
        let updates = records
            .into_iter()
            .map(|(key, value)| self.update(key, value));
        window(BATCH_WIDTH, updates, done).await;
    }

    /// Writes of several kinds, [`BATCH_WIDTH`] at a time. They are under way side by side: of several with the same
    /// key, which one comes last is not said.
    async fn write_many<'k>(
        &self,
        writes: impl IntoIterator<Item = Write<'k>>,
        done: impl FnMut(usize, Result<Written>),
    ) {
        let jobs = writes.into_iter().map(async |write| {
            Ok(match write {
                Write::Put(key, value) => Written::Changed(self.put(key, value).await?),
                Write::FindOrPut(key, value) => {
                    Written::FoundOrPut(self.find_or_put(key, value).await?)
                }
                Write::Update(key, value) => Written::Changed(self.update(key, value).await?),
                Write::Remove(key) => Written::Changed(self.remove(key).await?),
            })
        });
        window(BATCH_WIDTH, jobs, done).await;
    }

    /// Looks up all records of many keys; `done` gets the values of each key.
    async fn get_all_many<'k>(
        &self,
        keys: impl IntoIterator<Item = &'k [u8]>,
        done: impl FnMut(usize, Result<Vec<Vec<u8>>>),
    ) {
        let lookups = keys.into_iter().map(async |key| {
            let mut values = Vec::new();
            self.get_all(key, |value| values.push(value.to_vec()))
                .await?;
            Ok(values)
        });
        window(BATCH_WIDTH, lookups, done).await;
    }

    /// Removes many keys.
    async fn remove_many<'k>(
        &self,
        keys: impl IntoIterator<Item = &'k [u8]>,
        done: impl FnMut(usize, Result<bool>),
    ) {
        window(
            BATCH_WIDTH,
            keys.into_iter().map(|key| self.remove(key)),
            done,
        )
        .await;
    }
}
