//! Copying a table to another of the same store, while others use it.
//!
//! As a snapshot that is restored, without a file: the records go into a table of another name,
//! which gets its own when all are in it. A copy that was killed leaves that table; the next one,
//! to whatever name, drops it.

use super::repartition::{enlarged, within};
use super::restore::{MOST_ENLARGEMENTS, is_full};
use super::take::{moves_of, settle};
use super::workers::ProgressMeter;
use super::{COPYING, OnProgress, Parts, SnapshotError};
use crate::catalog::record::Scheme;
use crate::error::bad_option;
use crate::names::check_name;
use crate::{Cursor, Record, Result, Store, StoreError, Table, TableOptions};
use farslot_index::Cursor as Place;
use farslot_index::KeyRule;
use std::time::Duration;
use xxhash_rust::xxh3::xxh3_64;

/// Bytes of records that are put at a time.
const BATCH_BYTES: usize = 1 << 20;
/// A copy that has put nothing for this long is taken for one that was killed.
const PATIENCE: Duration = Duration::from_secs(3);

/// Records that own their bytes.
#[derive(Default)]
struct Batch {
    bytes: Vec<u8>,
    /// Where the key and the value of each end.
    ends: Vec<(usize, usize)>,
}

impl Batch {
    fn push(&mut self, key: &[u8], value: &[u8]) {
        self.bytes.extend_from_slice(key);
        let key_end = self.bytes.len();
        self.bytes.extend_from_slice(value);
        self.ends.push((key_end, self.bytes.len()));
    }

    fn records(&self) -> Vec<Record<'_>> {
        let mut from = 0;
        let records = self.ends.iter().map(|(key_end, end)| {
            let record = (&self.bytes[from..*key_end], &self.bytes[*key_end..*end]);
            from = *end;
            record
        });
        records.collect()
    }

    /// Puts them all, and forgets them.
    fn put_into(&mut self, table: &Table) -> Result<()> {
        let put = table.put_back(&self.records());
        self.bytes.clear();
        self.ends.clear();
        put
    }
}

impl Store {
    /// Copies a table to a new one of another name, of the same scheme and sizes, and returns how
    /// many records were copied. Of memory that the table reserves to grow into, the copy has no
    /// more than half of what is free, if its records do not need more. Others
    /// may use the table meanwhile; of a cuckoo or CuckooDuo table they may read, for this is its
    /// writer then: should another thread of this store move its records, there is no copy. A
    /// record that was acknowledged before this began and is not changed is in the copy, and each
    /// record in it was its key's value at some moment. Records keep the moments at which they
    /// expire. The new table is there when all records are in it.
    ///
    /// # Errors
    /// [`StoreError::NoSuchTable`], [`StoreError::TableExists`], [`StoreError::OutOfMemory`], that
    /// another client is the table's writer; [`SnapshotError::Stopped`],
    /// [`SnapshotError::Replaced`]; what the fabric says.
    ///
    /// ```
    /// # use farslot::{Store, TableOptions};
    /// # use std::ops::ControlFlow;
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// let store = Store::embedded_with(64 << 20, Default::default())?;
    /// store.create("stock", &TableOptions::new(100))?;
    /// store.table("stock")?.put(b"pears", b"7")?;
    /// store.copy_table("stock", "yesterday", &|_| ControlFlow::Continue(()))?;
    /// store.table("stock")?.put(b"pears", b"8")?;
    /// assert_eq!(store.table("yesterday")?.get(b"pears")?.as_deref(), Some(&b"7"[..]));
    /// # Ok(())
    /// # }
    /// ```
    pub fn copy_table(&self, table: &str, to: &str, progress: OnProgress<'_>) -> Result<u64> {
        self.copy_to(table, to, None, progress)
    }

    /// As [`Store::copy_table`], to a table of another scheme or of other sizes: what the options
    /// say. Records keep the moments at which they expire if those of the new table may have some;
    /// else the new ones stay, and those that have expired are not copied.
    ///
    /// # Errors
    /// As [`Store::copy_table`]; [`BadOption`](crate::IndexError::BadOption) for options that no
    /// table can have, or that would leave one of several records of a key; what does not fit into
    /// the new table.
    ///
    /// ```
    /// # use farslot::{Store, TableOptions};
    /// # use std::ops::ControlFlow;
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// let store = Store::embedded_with(64 << 20, Default::default())?;
    /// store.create("stock", &TableOptions::new(100))?;
    /// store.table("stock")?.put(b"pears", b"7")?;
    /// let options = TableOptions::new(1_000).chained();
    /// store.copy_table_as("stock", "counted", &options, &|_| ControlFlow::Continue(()))?;
    /// store.transaction(|t| t.put("counted", b"pears", b"8"))?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn copy_table_as(
        &self,
        table: &str,
        to: &str,
        options: &TableOptions,
        progress: OnProgress<'_>,
    ) -> Result<u64> {
        self.copy_to(table, to, Some(options), progress)
    }

    fn copy_to(
        &self,
        table: &str,
        to: &str,
        options: Option<&TableOptions>,
        progress: OnProgress<'_>,
    ) -> Result<u64> {
        check_name(to)?;
        if self.ends_naming(&unfinished(to), to)? {
            return Err(StoreError::TableExists { name: to.into() });
        }
        let open = self.stored_table(table)?;
        let built = settle(&open)?;
        let copied = self.copy_settled(&open, built, to, options, progress);
        let closed = open.close();
        let copied = copied.and_then(|copied| closed.map(|()| copied));
        copied.map_err(|error| error.in_doubt().of_table(to))
    }

    /// The same of a table in which nothing moves past a scan.
    fn copy_settled(
        &self,
        from: &Table,
        built: bool,
        to: &str,
        options: Option<&TableOptions>,
        progress: OnProgress<'_>,
    ) -> Result<u64> {
        let replaced = || {
            let table = from.name().into();
            SnapshotError::Replaced { table }
        };
        let parts = self.parts(from.name())?.ok_or_else(replaced)?;
        if !parts.ids().contains(&from.record().id) {
            return Err(replaced().into());
        }
        let other = options.map(|options| CopyTarget::of(options, from.scheme()));
        let other = other.transpose()?;
        let moves = moves_of(from, built)?;
        let name = unfinished(to);
        self.drop_left_copies(&name)?;
        let (free, used) = (self.largest_free()?, from.occupancy()?.heap_used);
        let used = used / parts.records.len() as u64;
        let schemes = parts.schemes();
        let schemes = schemes.iter().map(|scheme| within(scheme, free / 2, used));
        let mut schemes = schemes.collect::<Result<Vec<_>>>()?;
        for attempt in 0.. {
            self.drop_if_there(&name)?;
            let filled = match &other {
                Some(other) => self.copy_as(&name, from, &parts, other, progress),
                None => {
                    let on_restart = parts.on_restart();
                    self.create_alike(&name, parts.slots(), &schemes, built, on_restart, &[])?;
                    self.copy_into(&name, from, &parts, built, progress)
                }
            };
            let named = filled.and_then(|copied| {
                let current = self.parts(from.name())?.ok_or_else(replaced)?;
                if current.ids() != parts.ids() {
                    return Err(replaced().into());
                }
                if moves_of(from, built)? != moves {
                    let table = from.name().into();
                    return Err(SnapshotError::Moved { table }.into());
                }
                self.rename(&name, to).map(|()| copied)
            });
            match named {
                Err(error) if other.is_none() && is_full(&error) && attempt < MOST_ENLARGEMENTS => {
                    schemes = schemes.iter().map(enlarged).collect::<Result<_>>()?;
                }
                Err(error) => {
                    // What cannot be dropped now is dropped by the next copy to that name.
                    let _ = self.drop_table(&name);
                    return Err(error);
                }
                copied => return copied,
            }
        }
        Err(replaced().into())
    }

    fn drop_if_there(&self, table: &str) -> Result<()> {
        match self.drop_table(table) {
            Ok(()) | Err(StoreError::NoSuchTable { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Drops what copies have left that were killed: the table `own` of this one, and those of
    /// others that put nothing. One that was paused, and goes on, fails.
    fn drop_left_copies(&self, copy_name: &str) -> Result<()> {
        self.drop_if_there(copy_name)?;
        let left = || -> Result<Vec<_>> {
            let tables = self.tables()?.into_iter().map(|table| table.name);
            let copies = tables.filter(|name| name.starts_with(COPYING));
            Ok(copies
                .map(|name| {
                    let table = self.stored_table(&name);
                    (name, table.and_then(|table| table.occupancy()).ok())
                })
                .collect())
        };
        let before = left()?;
        if before.is_empty() {
            return Ok(());
        }
        std::thread::sleep(PATIENCE);
        for copy in left()?.iter().filter(|copy| before.contains(copy)) {
            log::warn!(
                "{} is dropped: the copy was killed that has left it",
                copy.0
            );
            self.drop_if_there(&copy.0)?;
        }
        Ok(())
    }

    /// Copies all records; returns how many.
    fn copy_into(
        &self,
        name: &str,
        from: &Table,
        parts: &Parts,
        built: bool,
        progress: OnProgress<'_>,
    ) -> Result<u64> {
        let meter = ProgressMeter::new(0, from.occupancy()?.entries, progress);
        if built {
            let mut all = Batch::default();
            from.for_each(|key, value| all.push(key, value))?;
            meter.add(all.ends.len() as u64)?;
            let table = self.stored_table(name)?;
            table.build(&all.records())?;
            table.close()?;
            return Ok(meter.records());
        }
        let open = Self::stored_table;
        self.pour_into(name, (from.name(), parts), open, (&meter, false))?;
        Ok(meter.records())
    }

    /// Makes another table, and copies all records into it; returns how many.
    fn copy_as(
        &self,
        name: &str,
        from: &Table,
        parts: &Parts,
        other: &CopyTarget<'_>,
        progress: OnProgress<'_>,
    ) -> Result<u64> {
        let open = match other.keeps_moments {
            true => Self::stored_table,
            false => Self::table,
        };
        let meter = ProgressMeter::new(0, from.occupancy()?.entries, progress);
        if other.options.is_sealed() {
            let mut all = Batch::default();
            open(self, from.name())?.for_each(|key, value| all.push(key, value))?;
            meter.add(all.ends.len() as u64)?;
            self.build(name, other.options, &all.records())?;
        } else {
            self.create(name, other.options)?;
            let in_turn = other.has_one_writer;
            self.pour_into(name, (from.name(), parts), open, (&meter, in_turn))?;
        }
        Ok(meter.records())
    }

    /// Puts all records of a table into another that is there, part by part: one after the other,
    /// or side by side.
    fn pour_into(
        &self,
        name: &str,
        (of, parts): (&str, &Parts),
        open: fn(&Self, &str) -> Result<Table>,
        (meter, in_turn): (&ProgressMeter<'_>, bool),
    ) -> Result<()> {
        let mut partitions = 0..parts.records.len() as u16;
        let pour = |partition| {
            let (source, table) = (open(self, of)?, open(self, name)?);
            if !parts.ids().contains(&source.record().id) {
                let table = of.into();
                return Err(SnapshotError::Replaced { table }.into());
            }
            let mut batch = Batch::default();
            let mut cursor = Some(Cursor::of(partition, Place::default()));
            while let Some(at) = cursor {
                let next = source.scan(at, u64::MAX, |key, value| batch.push(key, value))?;
                cursor = next.filter(|next| next.partition == partition);
                if batch.bytes.len() >= BATCH_BYTES || cursor.is_none() {
                    let records = batch.ends.len() as u64;
                    batch.put_into(&table)?;
                    meter.add(records)?;
                }
            }
            table.close()
        };
        match in_turn {
            true => partitions.try_for_each(pour),
            false => meter.all(partitions.collect(), pour),
        }
    }
}

/// A table that is to have the records of one of another scheme or other sizes.
struct CopyTarget<'o> {
    options: &'o TableOptions,
    /// Whether records go on to expire when they did.
    keeps_moments: bool,
    /// Whether its parts have one writer each. Spread otherwise, the keys of one partition belong
    /// to several.
    has_one_writer: bool,
}

impl<'o> CopyTarget<'o> {
    fn of(options: &'o TableOptions, from: &Scheme) -> Result<Self> {
        let scheme = options.scheme()?;
        if from.keys() == KeyRule::Multi && scheme.keys() == KeyRule::Unique {
            let limit = "the table that is copied may have several records of a key";
            return Err(bad_option(
                "a copy with one record of each key",
                scheme.name(),
                limit,
            ));
        }
        if from.kind().has_keys() && !scheme.kind().has_keys() {
            let (option, limit) = (
                "the scheme that a queue is copied from",
                "queue alone, whose items have no keys",
            );
            return Err(bad_option(option, from.name(), limit));
        }
        if matches!(from, Scheme::Chained(_)) && scheme.keys() == KeyRule::Multi {
            let limit = "what is read of a chained table that grows may have a key twice";
            return Err(bad_option(
                "a copy with several records of a key",
                scheme.name(),
                limit,
            ));
        }
        Ok(Self {
            options,
            keeps_moments: from.is_expiring() && scheme.is_expiring(),
            has_one_writer: scheme.one_writer(),
        })
    }
}

/// The name of a copy until it has all records.
fn unfinished(to: &str) -> String {
    format!("{COPYING}{:016x}", xxh3_64(to.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ErrorKind, TableOptions};
    use farslot_fabric::NodeId;
    use std::ops::ControlFlow;

    #[test]
    fn a_copy_that_was_cut_off_as_its_parts_got_their_name_is_there() {
        let store = Store::open("sim://cx5-edr?seed=7&memory=8MiB&nodes=3").unwrap();
        for table in ["t", "u"] {
            store.create(table, &TableOptions::new(100)).unwrap();
        }
        let parts = store.parts("u").unwrap().unwrap();
        let creation = parts.records[1].partition.as_ref().unwrap().creation;
        let renamed = store.in_catalog(NodeId(1), async |catalog| {
            catalog.rename("u", &unfinished("u"), Some(creation)).await
        });
        assert!(renamed.unwrap().is_some());
        let refused = store.copy_table("t", "u", &|_| ControlFlow::Continue(()));
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::TableExists);
        assert_eq!(store.parts("u").unwrap().unwrap().ids().len(), 3);
        assert_eq!(store.tables().unwrap().len(), 2);
    }
}
