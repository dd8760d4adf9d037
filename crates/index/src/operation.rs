//! The vocabulary of all layers: operations, their outcomes, and the classes under which endpoints
//! count them.

use crate::Value;
use farslot_fabric::OperationClass;
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

/// One operation on one key: what every layer is asked for, from [`Index::run`](crate::Index::run)
/// to the table of a store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operation<'r> {
    /// The key's value; of a multi-key table, that of the first record found.
    Get(&'r [u8]),
    /// The values of all records of the key. Those that are put or removed meanwhile may be found
    /// or not.
    GetAll(&'r [u8]),
    /// Makes the key have this value. A multi-key table gets a record more.
    Put(&'r [u8], &'r [u8]),
    /// Puts the value if the key is absent, else answers with the value that is there (paper 002).
    FindOrPut(&'r [u8], &'r [u8]),
    /// Replaces the value of a key that is present.
    Update(&'r [u8], &'r [u8]),
    /// Replaces the value of a key that is present and has the first of these values, by the
    /// second: in one step, whoever else writes. Not in every scheme.
    Replace(&'r [u8], &'r [u8], &'r [u8]),
    /// Removes the key with all its records. If it fails on a multi-key table, some of them may be
    /// gone.
    Remove(&'r [u8]),
    /// Removes a key that is present and has this value: in one step, whoever else writes. Not in
    /// every scheme.
    RemoveIf(&'r [u8], &'r [u8]),
}

impl<'r> Operation<'r> {
    /// The key that it is about.
    #[inline]
    #[must_use]
    pub const fn key(&self) -> &'r [u8] {
        match self {
            Self::Get(key)
            | Self::GetAll(key)
            | Self::Put(key, _)
            | Self::FindOrPut(key, _)
            | Self::Update(key, _)
            | Self::Replace(key, ..)
            | Self::Remove(key)
            | Self::RemoveIf(key, _) => key,
        }
    }

    /// The value that it may write.
    #[inline]
    #[must_use]
    pub const fn value(&self) -> Option<&'r [u8]> {
        match self {
            Self::Put(_, value)
            | Self::FindOrPut(_, value)
            | Self::Update(_, value)
            | Self::Replace(_, _, value) => Some(value),
            Self::Get(_) | Self::GetAll(_) | Self::Remove(_) | Self::RemoveIf(..) => None,
        }
    }

    /// The record that it may write: its key and its value, or no bytes where it has none.
    #[inline]
    pub(crate) fn record(&self) -> (&'r [u8], &'r [u8]) {
        (self.key(), self.value().unwrap_or_default())
    }

    /// Whether it changes the record of its key whatever value that has.
    #[inline]
    pub(crate) const fn takes_any_value(&self) -> bool {
        matches!(self, Self::Put(..) | Self::Update(..) | Self::Remove(_))
    }

    /// The same with other bytes for its key and for each of its values: `bytes` is called for the
    /// key, then for the values, each time in the same order.
    #[must_use]
    pub fn map<'s>(self, mut bytes: impl FnMut(&'r [u8]) -> &'s [u8]) -> Operation<'s> {
        match self {
            Self::Get(key) => Operation::Get(bytes(key)),
            Self::GetAll(key) => Operation::GetAll(bytes(key)),
            Self::Put(key, value) => Operation::Put(bytes(key), bytes(value)),
            Self::FindOrPut(key, value) => Operation::FindOrPut(bytes(key), bytes(value)),
            Self::Update(key, value) => Operation::Update(bytes(key), bytes(value)),
            Self::Replace(key, expected, value) => {
                Operation::Replace(bytes(key), bytes(expected), bytes(value))
            }
            Self::Remove(key) => Operation::Remove(bytes(key)),
            Self::RemoveIf(key, expected) => Operation::RemoveIf(bytes(key), bytes(expected)),
        }
    }

    /// Whether it leaves every table as it is.
    #[inline]
    #[must_use]
    pub const fn is_lookup(&self) -> bool {
        matches!(self, Self::Get(_) | Self::GetAll(_))
    }

    /// The class under which endpoints count it.
    #[inline]
    #[must_use]
    pub const fn class(&self) -> OperationClass {
        match self {
            Self::Get(_) => GET,
            Self::GetAll(_) => GET_ALL,
            Self::Put(..) => PUT,
            Self::FindOrPut(..) => FIND_OR_PUT,
            Self::Update(..) | Self::Replace(..) => UPDATE,
            Self::Remove(_) | Self::RemoveIf(..) => REMOVE,
        }
    }

    /// The outcome of one on a key that had that value, or none. A write need not tell which.
    #[inline]
    pub(crate) fn outcome(&self, was: Option<Value>) -> Outcome {
        match self {
            Self::Get(_) | Self::FindOrPut(..) => Outcome::Value(was),
            Self::GetAll(_) => Outcome::Values(was.into_iter().collect()),
            Self::Put(..) => Outcome::Changed(was.is_none()),
            Self::Update(..) | Self::Replace(..) | Self::Remove(_) | Self::RemoveIf(..) => {
                Outcome::Changed(was.is_some())
            }
        }
    }

    /// Its name, as [`OPERATIONS`] has it.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        OPERATIONS[self.class().0 as usize].1
    }
}

/// What an [`Operation`] answers, with values as they were read, or in another form.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome<V = Value> {
    /// Of a get, the key's value, if the key is present. Of a find-or-put, the value that was
    /// there; nothing if the key was absent, and has the value given now.
    Value(Option<V>),
    /// Of a get-all, the values of all records.
    Values(Vec<V>),
    /// Of a put, whether the key is new. Of an update or a removal, whether it was present. Of a
    /// replacement and a removal of one value, whether the key had the value.
    Changed(bool),
}

impl<V> Outcome<V> {
    /// The value of a get or a find-or-put; nothing of any other operation.
    #[inline]
    #[must_use]
    pub fn into_value(self) -> Option<V> {
        match self {
            Self::Value(value) => value,
            Self::Values(_) | Self::Changed(_) => None,
        }
    }

    /// The values of a get-all; none of any other operation.
    #[must_use]
    pub fn into_values(self) -> Vec<V> {
        match self {
            Self::Values(values) => values,
            Self::Value(_) | Self::Changed(_) => Vec::new(),
        }
    }

    /// Whether a put, an update or a removal has changed which keys there are, or their values: as
    /// [`Outcome::Changed`] says. False of any other operation.
    #[inline]
    #[must_use]
    pub const fn is_changed(&self) -> bool {
        matches!(self, Self::Changed(true))
    }

    /// The same with its values in another form.
    pub fn map<W>(self, value: impl FnMut(V) -> W) -> Outcome<W> {
        match self {
            Self::Value(found) => Outcome::Value(found.map(value)),
            Self::Values(found) => Outcome::Values(found.into_iter().map(value).collect()),
            Self::Changed(changed) => Outcome::Changed(changed),
        }
    }
}

impl Outcome {
    /// The same without the buffers of the fabric that values were read into: for who keeps many.
    #[must_use]
    pub fn detached(self) -> Self {
        self.map(Value::detached)
    }
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
    /// Bytes of heap in use: in whole pages, what has died in them included.
    pub heap_used: u64,
    /// About how many of these are of records that were replaced or removed: they come back when
    /// their pages are cleaned.
    pub heap_dead: u64,
    /// Bytes of heap in all: of a table that takes them from the pool of its node those that it
    /// has.
    pub heap_bytes: u64,
    /// Records that were evicted since the table was made.
    pub evicted: u64,
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
        self.heap_dead += other.heap_dead;
        self.heap_bytes += other.heap_bytes;
        self.evicted += other.evicted;
    }
}

/// How many operations of a batch are under way at once.
pub const BATCH_WIDTH: usize = 32;
