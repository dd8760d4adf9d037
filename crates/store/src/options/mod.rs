//! What a table shall be.

mod alike;
mod layouts;
mod opening;
mod organisation;
mod scheme;
mod spec;
mod text;

pub use spec::TableSpec;

use crate::OnRestart;
use crate::shapes::{CuckooShape, DuoShape, RaceShape};
use farslot_index::heap::Evicting;
use farslot_index::{FieldSize, KeyRule, Sizing, SlotKind};
use serde::{Deserialize, Serialize};

/// Which hash function a table uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HashKind {
    /// XXH3 with a random seed of the table's own.
    #[default]
    Xxh3,
    /// Knuth's multiplicative hash: for the tables of paper 000. Keys of at most 8 bytes.
    Knuth,
}

impl HashKind {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Xxh3, Self::Knuth];

    /// Its name in options.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Xxh3 => "xxh3",
            Self::Knuth => "knuth",
        }
    }
}

/// The scheme, as far as it is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Organisation {
    Linear,
    Cuckoo(CuckooShape),
    Duo(DuoShape),
    Race(RaceShape),
    Set,
    Chained,
    Ordered,
    Queue,
    /// With one slot for each key or not, and then with a filter or not.
    Sealed {
        is_perfect: bool,
        has_filter: bool,
    },
}

/// Bytes of the longest key of a table that is made without sizes.
const ANY_KEY: u32 = 64 << 10;
/// Bytes of the longest value of one.
const ANY_VALUE: u32 = 1 << 20;
/// Keys that it has room for before it has grown.
const FIRST_KEYS: u64 = 1000;
/// Bytes of slots that a key may come to take in a table that grows, at the most: 8 at a load
/// factor of 0.8, of which there are up to two and a quarter times as many as needed when all
/// subtables split together.
const SLOT_BYTES_A_KEY: u64 = 24;
/// A RACE table names no more heap than this.
const MOST_HEAP: u64 = 64 << 30;

/// What a table shall be: a capacity, and sizes where the defaults do not fit.
///
/// The [default](TableOptions::default) asks for neither: a table of any sizes that many clients
/// write, in which the slots and the records of removed keys serve others, and which grows. It is a
/// RACE table: of the schemes that any number of clients may write, linear tables do not use the
/// slots of removed keys again. Its memory comes from the pool of its node (each of its nodes),
/// which it shares with others made so: it takes some as it grows, may come to have all that is
/// free, and gives back what it does not need to others that do. Its records may [have a time to
/// live](TableOptions::expiring).
#[derive(Clone, Debug, PartialEq)]
pub struct TableOptions {
    /// Its seed and hash function are of no table yet.
    sizing: Sizing,
    most_capacity: Option<u64>,
    slot: Option<SlotKind>,
    inline_bytes: Option<u32>,
    hash: HashKind,
    organisation: Organisation,
    /// Whether the memory that there is decides how large it may become.
    by_memory: bool,
    /// Bytes of its node's memory that no other table takes.
    reserve: u64,
    /// Whether records may have a time to live.
    expiring: bool,
    /// Which records it forgets when it is full, if any.
    evicting: Option<Evicting>,
    /// What its keys are hashed by; by chance, if nothing says it.
    seed: Option<u64>,
    /// What becomes of the keys of a node that came back empty.
    pub(crate) on_restart: OnRestart,
}

impl Default for TableOptions {
    fn default() -> Self {
        Self {
            by_memory: true,
            expiring: true,
            ..Self::new(FIRST_KEYS)
                .race(RaceShape::default())
                .keys(FieldSize::UpTo(ANY_KEY))
                .values(FieldSize::UpTo(ANY_VALUE))
        }
    }
}

impl TableOptions {
    /// A linear table for `capacity` keys of up to 256 bytes with values of up to 1 KiB.
    ///
    /// ```
    /// # use farslot::{TableOptions};
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// assert_eq!(TableOptions::new(1_000).scheme()?.name(), "linear");
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub const fn new(capacity: u64) -> Self {
        Self {
            sizing: Sizing::new(capacity, FieldSize::UpTo(256), FieldSize::UpTo(1024), 0),
            most_capacity: None,
            slot: None,
            inline_bytes: None,
            hash: HashKind::Xxh3,
            organisation: Organisation::Linear,
            by_memory: false,
            reserve: 0,
            expiring: false,
            evicting: None,
            seed: None,
            on_restart: OnRestart::Refuse,
        }
    }

    /// The same with this seed.
    pub(crate) fn seeded(self, seed: u64) -> Self {
        Self {
            seed: Some(seed),
            ..self
        }
    }

    /// Whether the memory that there is decides how large it may become, as by
    /// [default](TableOptions::default).
    ///
    /// ```
    /// # use farslot::TableOptions;
    /// assert!(TableOptions::default().is_by_memory());
    /// assert!(!TableOptions::new(1_000).is_by_memory());
    /// ```
    #[must_use]
    pub const fn is_by_memory(&self) -> bool {
        self.by_memory
    }

    /// The same where so many bytes are free in one piece, which decide.
    pub(crate) fn for_memory(self, free: u64) -> Self {
        let share = free / 2;
        let most = share / 4 / SLOT_BYTES_A_KEY;
        let heap = (share / 4 * 3).saturating_sub(64 << 10).min(MOST_HEAP);
        Self {
            by_memory: false,
            most_capacity: Some(most.max(FIRST_KEYS)),
            sizing: Sizing {
                heap_bytes: Some((heap / 64 * 64).max(64)),
                ..self.sizing
            },
            ..self
        }
    }

    /// Lets a RACE, a CuckooDuo or a chained table grow until it has room for so many keys. The
    /// memory for all of them belongs to it from the start, and is touched as it grows.
    ///
    /// ```
    /// # use farslot::layout::RaceShape;
    /// # use farslot::TableOptions;
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// // Room for a thousand keys now, and for a million as they come.
    /// let options = TableOptions::new(1_000).race(RaceShape::default()).grow_to(1_000_000);
    /// assert!(options.scheme()?.table_bytes() > TableOptions::new(1_000).scheme()?.table_bytes());
    /// let linear = TableOptions::new(1_000).grow_to(1_000_000);
    /// assert!(linear.scheme().is_err(), "linear tables stay");
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn grow_to(self, most_capacity: u64) -> Self {
        Self {
            most_capacity: Some(most_capacity),
            ..self
        }
    }

    /// Another number of keys that it must have room for.
    ///
    /// ```
    /// # use farslot::{TableOptions};
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// assert_eq!(TableOptions::new(1_000).capacity(10), TableOptions::new(10));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub const fn capacity(mut self, capacity: u64) -> Self {
        self.sizing.capacity = capacity;
        self.by_memory = false;
        self
    }

    /// The size of the keys.
    ///
    /// ```
    /// # use farslot::{FieldSize, TableOptions};
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// // Eight bytes each: user numbers, say.
    /// let options = TableOptions::new(1_000).keys(FieldSize::Fixed(8));
    /// assert!(options.scheme()?.table_bytes() < TableOptions::new(1_000).scheme()?.table_bytes());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub const fn keys(mut self, key: FieldSize) -> Self {
        self.sizing.key = key;
        self
    }

    /// The size of the values.
    ///
    /// ```
    /// # use farslot::{FieldSize, TableOptions};
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// let options = TableOptions::new(1_000).values(FieldSize::UpTo(64));
    /// assert!(options.scheme()?.table_bytes() < TableOptions::new(1_000).scheme()?.table_bytes());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub const fn values(mut self, value: FieldSize) -> Self {
        self.sizing.value = value;
        self
    }

    /// Slots in use per slot when `capacity` keys are in the table: above 0, at most 1. By default
    /// 0.75; of a cuckoo table 0.9, or less with few ways and small buckets; of a sealed table 0.9,
    /// and with [one slot for each key](TableOptions::perfect) 0.99, at most 0.995; of a set 0.75,
    /// at most 0.8; of a RACE table 0.8, or 0.65 with buckets of fewer than 8 slots; of a CuckooDuo
    /// table 0.95, or 0.85 with such buckets.
    ///
    /// ```
    /// # use farslot::{TableOptions};
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// assert!(TableOptions::new(1_000).load_factor(0.5).scheme().is_ok());
    /// assert!(TableOptions::new(1_000).load_factor(1.5).scheme().is_err());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub const fn load_factor(mut self, load_factor: f64) -> Self {
        self.sizing.load_factor = Some(load_factor);
        self
    }

    /// What the slots hold, if not what suits the sizes.
    ///
    /// ```
    /// # use farslot::layout::Scheme;
    /// # use farslot::{SlotKind, TableOptions};
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// // Every record out of band, however short.
    /// let options = TableOptions::new(1_000).slots(SlotKind::Heap);
    /// let scheme = options.scheme()?;
    /// assert!(matches!(scheme, Scheme::Linear(layout) if layout.kind == SlotKind::Heap));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn slots(self, slot: SlotKind) -> Self {
        Self {
            slot: Some(slot),
            ..self
        }
    }

    /// Bytes of key and value that a [`SlotKind::Hybrid`] slot of a linear table has room for: a
    /// multiple of 8 up to 1024; 32 unless told otherwise.
    ///
    /// ```
    /// # use farslot::{FieldSize, SlotKind, TableOptions};
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// let sizes = TableOptions::new(1_000).keys(FieldSize::UpTo(16));
    /// let sizes = sizes.values(FieldSize::UpTo(1024));
    /// // Most values have fewer than 48 bytes.
    /// let options = sizes.slots(SlotKind::Hybrid).inline_bytes(64);
    /// assert!(options.scheme().is_ok());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn inline_bytes(self, bytes: u32) -> Self {
        Self {
            inline_bytes: Some(bytes),
            ..self
        }
    }

    /// Lets a key have several records. A cuckoo table of them can only be
    /// [built](crate::Table::build) whole; RACE and CuckooDuo tables have none.
    ///
    /// ```
    /// # use farslot::{Store, TableOptions};
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// let store = Store::embedded()?;
    /// store.create("tags", &TableOptions::new(100).multi_key())?;
    /// let tags = store.table("tags")?;
    /// tags.put(b"pears", b"fruit")?;
    /// tags.put(b"pears", b"green")?;
    /// assert_eq!(tags.get_all(b"pears")?.len(), 2);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub const fn multi_key(mut self) -> Self {
        self.sizing.keys = KeyRule::Multi;
        self
    }

    /// Whether records may have a time to live ([`Table::put_for`](crate::Table::put_for)): in
    /// linear and RACE tables of unique keys. Each record takes 8 bytes more, for the moment at
    /// which it expires; removals, updates and replacements may take a round trip more, to look
    /// whether what is there has expired.
    ///
    /// ```
    /// # use farslot::{Store, TableOptions};
    /// # use std::time::Duration;
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// let store = Store::embedded()?;
    /// store.create("codes", &TableOptions::new(100).expiring(true))?;
    /// let codes = store.table("codes")?;
    /// codes.put_for(b"ada", b"314159", Duration::from_secs(300))?;
    /// assert_eq!(codes.get(b"ada")?.as_deref(), Some(&b"314159"[..]));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub const fn expiring(mut self, expiring: bool) -> Self {
        self.expiring = expiring;
        self
    }

    /// Makes it a cache: a record that finds no room takes the place of others instead of being
    /// refused. RACE tables can do so, of which the [default](TableOptions::default) is one.
    ///
    /// What has not been read since it was put goes first, the oldest before the others; what has
    /// been read stays for longer. Readers say what they have read in batches, behind every 32nd
    /// record that was not read before. Which records may be forgotten, [`Evicting`] says; a record
    /// is still refused where none may.
    ///
    /// ```
    /// # use farslot::{Evicting, Store, TableOptions};
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// let store = Store::embedded()?;
    /// let sized = TableOptions::new(1_000).race(Default::default()).heap_bytes(1 << 20);
    /// store.create("pages", &sized.evicting(Evicting::All))?;
    /// let pages = store.table("pages")?;
    /// for number in 0..5_000_u64 {
    ///     pages.put(&number.to_le_bytes(), &[7; 1_000])?;
    /// }
    /// assert!(pages.occupancy()?.evicted > 4_000);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub const fn evicting(mut self, evicting: Evicting) -> Self {
        self.evicting = Some(evicting);
        self
    }

    /// Bytes for records out of band, if not enough for `capacity` records of the largest size. Of
    /// a table without a capacity what these may take at most of the memory that it shares: the
    /// rest is for others.
    ///
    /// ```
    /// # use farslot::{TableOptions};
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// // A thousand records may have a megabyte together, rather than each the most that it can
    /// // be.
    /// let options = TableOptions::new(1_000).heap_bytes(1 << 20);
    /// assert!(options.scheme()?.table_bytes() < TableOptions::new(1_000).scheme()?.table_bytes());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub const fn heap_bytes(mut self, bytes: u64) -> Self {
        self.sizing.heap_bytes = Some(bytes);
        self
    }

    /// Bytes of memory that no other table takes: the table can always come to have so many, its
    /// slots included, however full its node is. It is for tables without a capacity, which share
    /// their node's memory; others have all of theirs from the start. The bytes are whole segments
    /// of the node's memory. Of a table over several nodes each keeps an equal part. A node with
    /// less to give refuses the table ([`StoreError::OutOfMemory`](crate::StoreError)).
    ///
    /// ```
    /// # use farslot::{Store, TableOptions};
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// let store = Store::embedded()?;
    /// let before = store.memory()?.free();
    /// store.create("orders", &TableOptions::default().reserve_bytes(8 << 20))?;
    /// assert!(store.memory()?.free() <= before - (8 << 20));
    /// store.drop_table("orders")?;
    /// assert_eq!(store.memory()?.free(), before);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub const fn reserve_bytes(mut self, bytes: u64) -> Self {
        self.reserve = bytes;
        self
    }

    /// The hash function.
    ///
    /// ```
    /// # use farslot::layout::HashKind;
    /// # use farslot::{FieldSize, TableOptions};
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// let numbers = FieldSize::Fixed(8);
    /// let options = TableOptions::new(1_000).keys(numbers).values(numbers).hash(HashKind::Knuth);
    /// assert!(options.scheme().is_ok());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn hash(self, hash: HashKind) -> Self {
        Self { hash, ..self }
    }

    /// Whether such a table can be [built](crate::Store::build) whole, as its
    /// [scheme](crate::layout::Scheme::buildable) will say.
    ///
    /// ```
    /// # use farslot::{TableOptions};
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// assert!(TableOptions::new(1_000).sealed().buildable());
    /// assert!(!TableOptions::new(1_000).buildable());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub const fn buildable(&self) -> bool {
        matches!(
            self.organisation,
            Organisation::Cuckoo(_) | Organisation::Sealed { .. }
        )
    }

    /// Whether its memory is taken from the pool of its node as it grows.
    pub(crate) const fn is_pooled(&self) -> bool {
        self.by_memory && matches!(self.organisation, Organisation::Race(_))
    }

    /// The same for each of so many nodes, of a table whose memory comes from their pools: they
    /// keep equal parts of what is kept for it.
    pub(crate) fn for_pools(self, nodes: u16) -> Self {
        Self {
            reserve: self.reserve.div_ceil(nodes.max(1).into()),
            ..self
        }
    }

    /// Whether it is of a scheme whose tables lie on one node.
    const fn is_on_one_node(&self) -> bool {
        matches!(self.organisation, Organisation::Queue)
    }

    /// Whether it is a table that is built of records that are there, and never changes.
    pub(crate) const fn is_sealed(&self) -> bool {
        matches!(self.organisation, Organisation::Sealed { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_built_is_known_before_the_scheme_is() {
        let options = TableOptions::new(1_000);
        for options in [
            options.clone(),
            options.clone().cuckoo(CuckooShape::default()),
            options.clone().duo(DuoShape::default()),
            options.clone().race(RaceShape::default()),
            options.clone().perfect(),
            options.sealed(),
        ] {
            assert_eq!(options.buildable(), options.scheme().unwrap().buildable());
        }
    }
}
