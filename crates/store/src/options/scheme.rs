//! The scheme that options give: of a table, of a partition, of one that is built of records.

use super::{Organisation, TableOptions};
use crate::Result;
use crate::catalog::record::Scheme;
use crate::deduplicate::last_of_each_key;
use crate::error::bad_option;
use crate::expiry::Expiry;
use crate::owned::layout::{ChainedLayout, OrderedLayout, OwnedTableShape, QueueLayout};
use crate::set::layout::SetLayout;
use crate::slot_map::partition_share;
use farslot_index::race::SMALLEST_SEGMENT;
use farslot_index::{Record, Sizing};
use std::borrow::Cow;

impl TableOptions {
    /// The scheme that these options give, with a fresh seed.
    ///
    /// # Errors
    /// [`BadOption`](farslot_index::IndexError::BadOption) names the option and what is possible.
    ///
    /// ```
    /// # use farslot::{TableOptions};
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// let scheme = TableOptions::new(1_000).scheme()?;
    /// println!("a {} table of {} bytes", scheme.name(), scheme.table_bytes());
    /// # Ok(())
    /// # }
    /// ```
    pub fn scheme(&self) -> Result<Scheme> {
        if self.reserve > 0 && !self.is_pooled() {
            let limit = "for RACE tables without a capacity, which share their node's memory";
            return Err(bad_option("reserve bytes", self.reserve, limit));
        }
        if self.evicting.is_some() {
            return self.evicting_scheme();
        }
        if self.expiring {
            return self.expiring_scheme();
        }
        Ok(match self.organisation {
            Organisation::Linear => Scheme::Linear(self.linear()?),
            Organisation::Cuckoo(shape) => Scheme::Cuckoo(self.cuckoo_layout(shape)?),
            Organisation::Duo(shape) => Scheme::Duo(self.duo_layout(shape)?),
            Organisation::Race(shape) if self.is_pooled() => {
                let mut layout = self.race_layout(shape)?;
                layout.most_heap = self.sizing.heap_bytes;
                layout.reserve = self.reserve;
                // Of the smallest pool: its sizes are those of the one that it comes to.
                Scheme::Race(layout.in_pool(SMALLEST_SEGMENT, SMALLEST_SEGMENT))
            }
            Organisation::Race(shape) => Scheme::Race(self.race_layout(shape)?),
            Organisation::Sealed { .. } => Scheme::Sealed(self.sealed_options()?.layout()?),
            Organisation::Set => Scheme::Set(SetLayout::of(self.set_sizing()?)?),
            Organisation::Chained => Scheme::Chained(ChainedLayout::of(self.owned()?)?),
            Organisation::Ordered => {
                self.no_growth()?;
                Scheme::Ordered(OrderedLayout::of(self.owned()?)?)
            }
            Organisation::Queue => {
                self.no_growth()?;
                let OwnedTableShape {
                    value, capacity, ..
                } = self.owned()?;
                Scheme::Queue(QueueLayout::of(value, capacity)?)
            }
        })
    }

    /// The scheme of a table that forgets records.
    fn evicting_scheme(&self) -> Result<Scheme> {
        let kept = Self {
            evicting: None,
            ..self.clone()
        };
        let mut scheme = kept.scheme()?;
        match &mut scheme {
            Scheme::Race(layout) => layout.evicting = self.evicting,
            other => return Err(bad_option("evict", other.name(), "in RACE tables")),
        }
        scheme.check()?;
        Ok(scheme)
    }

    /// The scheme of a table whose records may have a time to live.
    fn expiring_scheme(&self) -> Result<Scheme> {
        let mut scheme = self.stored().scheme()?;
        match &mut scheme {
            Scheme::Linear(layout) => layout.expiring = true,
            Scheme::Race(layout) => layout.expiring = true,
            Scheme::Cuckoo(_)
            | Scheme::Sealed(_)
            | Scheme::Duo(_)
            | Scheme::Set(_)
            | Scheme::Chained(_)
            | Scheme::Ordered(_)
            | Scheme::Queue(_) => {
                let limit = "in linear and RACE tables";
                return Err(bad_option("records that expire", scheme.name(), limit));
            }
        }
        scheme.check()?;
        Ok(scheme)
    }

    /// The options of the table as it is stored: with the moments at which records expire.
    fn stored(&self) -> Self {
        let value = match self.expiring {
            true => Expiry::with(self.sizing.value),
            false => self.sizing.value,
        };
        Self {
            expiring: false,
            ..self.clone().values(value)
        }
    }

    /// The same for each partition of a table over so many nodes: with capacity and heap for its
    /// share of the records, and so much more that none fills before the others (see
    /// `partition_share`). Of a multi-key table the capacity is of records: where some keys have a
    /// good part of them, more must be asked for.
    pub(crate) fn for_partitions(&self, partitions: u16) -> Self {
        if self.is_on_one_node() {
            return self.clone();
        }
        // Heap is counted by classes of sizes, which are less than twice the record.
        let largest = self.stored().largest_record().saturating_mul(2);
        let heap = |bytes| partition_share(bytes, largest, partitions).next_multiple_of(8);
        let keys = |keys| partition_share(keys, 1, partitions);
        Self {
            sizing: Sizing {
                capacity: keys(self.sizing.capacity),
                heap_bytes: self.sizing.heap_bytes.map(heap),
                ..self.sizing
            },
            most_capacity: self.most_capacity.map(keys),
            ..self.clone()
        }
    }

    /// Of these records, those that stay when the table has been built.
    pub(crate) fn deduplicated<'s, 'r>(&self, records: &'s [Record<'r>]) -> Cow<'s, [Record<'r>]> {
        last_of_each_key(self.sizing.keys, records)
    }

    /// The scheme of a table, or of a partition of one, for exactly these records.
    pub(crate) fn scheme_for(&self, records: &[Record<'_>]) -> Result<Scheme> {
        let capacity = (records.len() as u64).max(1);
        match (self.organisation, self.sizing.heap_bytes) {
            (Organisation::Sealed { .. }, None) => Ok(Scheme::Sealed(self.sealed_for(records)?)),
            (Organisation::Sealed { .. }, Some(asked)) => {
                let limit = "for tables that are made before their records are known";
                Err(bad_option("heap bytes", asked, limit))
            }
            _ => self.clone().capacity(capacity).scheme(),
        }
    }
}
