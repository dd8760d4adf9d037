//! By which scheme a table is organised.

use super::{Organisation, TableOptions};
use crate::shapes::{CuckooShape, DuoShape, RaceShape};

impl TableOptions {
    /// Makes it a cuckoo table: fuller, with small lookups, and one writer at a time.
    ///
    /// ```
    /// # use farslot::layout::CuckooShape;
    /// # use farslot::TableOptions;
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// let options = TableOptions::new(1_000).cuckoo(CuckooShape::default());
    /// assert_eq!(options.scheme()?.name(), "cuckoo");
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn cuckoo(self, shape: CuckooShape) -> Self {
        Self {
            organisation: Organisation::Cuckoo(shape),
            ..self
        }
    }

    /// Makes it a CuckooDuo table: nearly full, one slot read a lookup, one writer at a time, which
    /// keeps an index of it in its own memory; so do readers, if there may be any.
    ///
    /// ```
    /// # use farslot::layout::DuoShape;
    /// # use farslot::TableOptions;
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// let options = TableOptions::new(1_000).duo(DuoShape::default());
    /// assert_eq!(options.scheme()?.name(), "duo");
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn duo(self, shape: DuoShape) -> Self {
        Self {
            organisation: Organisation::Duo(shape),
            ..self
        }
    }

    /// Makes it a RACE table: any number of writers, slots of removed keys serve other keys, and it
    /// may [grow](TableOptions::grow_to) while it is used.
    ///
    /// ```
    /// # use farslot::layout::RaceShape;
    /// # use farslot::TableOptions;
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// let options = TableOptions::new(1_000).race(RaceShape::default());
    /// assert_eq!(options.scheme()?.name(), "race");
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn race(self, shape: RaceShape) -> Self {
        Self {
            organisation: Organisation::Race(shape),
            ..self
        }
    }

    /// Makes it a set (paper 002), for find-or-put: elements are found, or put if they are absent,
    /// and stay as they were put. Any number of clients write, and each element is put by exactly
    /// one of them: all who put it compete for one bucket, by one compare-and-swap.
    ///
    /// Keys of a fixed size of at most 8 bytes, as numbers below 2^63, without values are their
    /// buckets of 8 bytes. All others, and values, lie beside the buckets; a value has the room of
    /// the longest. Key and value have at most 16 KiB together. Nothing replaces or removes an
    /// element ([`OnlyGrows`](farslot_index::IndexError::OnlyGrows)).
    ///
    /// ```
    /// # use farslot::{FieldSize, Store, TableOptions};
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// let store = Store::embedded()?;
    /// let words = TableOptions::new(1_000).keys(FieldSize::Fixed(8)).values(FieldSize::Fixed(0));
    /// store.create("seen", &words.set())?;
    /// let seen = store.table("seen")?;
    /// assert_eq!(seen.find_or_put(&7_u64.to_le_bytes(), b"")?, None, "it is new");
    /// assert!(seen.find_or_put(&7_u64.to_le_bytes(), b"")?.is_some(), "it was there");
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn set(self) -> Self {
        Self {
            organisation: Organisation::Set,
            ..self
        }
    }

    /// Makes it a chained table (paper 003): the owner of the memory writes it, by calls, and
    /// everybody reads, by one READ of a bucket. It takes part in
    /// [transactions](crate::Store::transaction). Each record has the room of the longest in its
    /// slot: at most 16 KiB.
    ///
    /// ```
    /// # use farslot::{FieldSize, Store, TableOptions};
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// let store = Store::embedded()?;
    /// let cents = TableOptions::new(1_000).values(FieldSize::Fixed(8));
    /// store.create("accounts", &cents.chained())?;
    /// store.table("accounts")?.put(b"Ann", &100_u64.to_le_bytes())?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn chained(self) -> Self {
        Self {
            organisation: Organisation::Chained,
            ..self
        }
    }

    /// Makes it an ordered map (paper 003): a B+ tree that the owner of the memory writes, by
    /// calls, and everybody reads, by one READ of a leaf. It takes part in
    /// [transactions](crate::Store::transaction), which may scan it. Records are of at most 16 KiB.
    ///
    /// ```
    /// # use farslot::{FieldSize, Store, TableOptions};
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// let store = Store::embedded()?;
    /// store.create("names", &TableOptions::new(1_000).values(FieldSize::UpTo(32)).ordered())?;
    /// store.table("names")?.put(b"Ann", b"14 Elm Street")?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn ordered(self) -> Self {
        Self {
            organisation: Organisation::Ordered,
            ..self
        }
    }

    /// Makes it a FIFO queue (paper 003) of as many items as its capacity says: the owner of the
    /// memory writes it, by calls, and everybody reads its front, by one READ. Its items, of at
    /// most 64 KiB, have no keys, and are pushed and popped by
    /// [`Store::queue`](crate::Store::queue); the size of keys is of no account. Each item has the
    /// room of the longest. In a store of several nodes it lies on one of them, by a hash of its
    /// name.
    ///
    /// ```
    /// # use farslot::{FieldSize, Store, TableOptions};
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// let store = Store::embedded()?;
    /// store.create("jobs", &TableOptions::new(1_000).values(FieldSize::UpTo(100)).queue())?;
    /// store.queue("jobs")?.push(b"resize photo 17")?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn queue(self) -> Self {
        Self {
            organisation: Organisation::Queue,
            ..self
        }
    }

    /// Makes it a sealed table: smaller slots, misses that end early, and no writes once it has
    /// been [built](crate::Store::build).
    ///
    /// ```
    /// # use farslot::{TableOptions};
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// let options = TableOptions::new(1_000).sealed();
    /// assert_eq!(options.scheme()?.name(), "sealed");
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn sealed(self) -> Self {
        self.sealed_by(false, false)
    }

    /// Makes it a sealed table with one slot for each key, which a perfect hash function names: 99%
    /// full, one READ of one record a lookup, found or not. Each client keeps the function, 0.3
    /// bytes a key, which lies beside the table and is fetched when it is opened. Records of fixed
    /// sizes are in their slots, and so are those of variable sizes where the longest is no more
    /// than twice the average; others take a READ more.
    ///
    /// ```
    /// # use farslot::{FieldSize, Store, TableOptions};
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// let store = Store::embedded()?;
    /// let records = [(&b"pear"[..], &b"7"[..]), (b"figs", b"9")];
    /// let sizes = TableOptions::new(2).keys(FieldSize::Fixed(4)).values(FieldSize::Fixed(1));
    /// store.build("prices", &sizes.perfect(), &records)?;
    /// let prices = store.table("prices")?;
    /// assert_eq!(prices.get(b"figs")?.as_deref(), Some(&b"9"[..]));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn perfect(self) -> Self {
        self.sealed_by(true, false)
    }

    fn sealed_by(self, is_perfect: bool, has_filter: bool) -> Self {
        Self {
            organisation: Organisation::Sealed {
                is_perfect,
                has_filter,
            },
            ..self
        }
    }

    /// As [`TableOptions::perfect`], and clients keep a filter too, 1.2 bytes a key, so that all
    /// but one in 256 lookups of absent keys read nothing.
    ///
    /// ```
    /// # use farslot::{TableOptions};
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// let options = TableOptions::new(1_000).perfect_with_filter();
    /// let without = TableOptions::new(1_000).perfect();
    /// assert!(options.scheme()?.table_bytes() > without.scheme()?.table_bytes());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn perfect_with_filter(self) -> Self {
        self.sealed_by(true, true)
    }
}
