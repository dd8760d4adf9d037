//! What a thread may remember of a table's answers.

use crate::FieldSize;
use crate::catalog::record::Scheme;
use farslot_index::cache::{CacheOptions, Freshness};
use std::time::Duration;

/// Bytes of a record hint.
const HINT_BYTES: u64 = 16;

/// A cache of answers for each table that a thread has open
/// ([`OpenOptions::cache`](crate::OpenOptions::cache)).
///
/// By default only answers that cannot change are kept, those of tables that are
/// [sealed](crate::Table::is_sealed). If [a bound](Cache::stale_for) on their age is accepted,
/// `get` and `get_many` may answer what was so at some moment not longer ago than that, absence
/// included. All the same, this table's own writes are seen by all of its lookups that begin after
/// them, and time does not go back for it. Nobody says when *others* write: another client's, or
/// another [`Table`](crate::Table)'s, writes are seen when the bound has passed. Whatever else is
/// asked goes to the table.
///
/// While a node cannot be reached, or once it is known to have come back empty, nothing of what it
/// had is answered from the cache.
///
/// [The index crate](farslot_index::cache) says it in full.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cache {
    /// Bytes of this process's memory for all that a [`Table`](crate::Table) keeps: answers, and
    /// what it must know of the table itself ([record
    /// locations](crate::OpenOptions::record_locations), a [writer's
    /// graph](crate::OpenOptions::predetermination), the index of a CuckooDuo table): a table whose
    /// index takes more cannot be opened with a cache of its answers. The partitions of a table
    /// over several nodes share them evenly.
    pub bytes: u64,
    /// How old answers may be that can change; nothing if such are not to be kept.
    pub stale_for: Option<Duration>,
    /// Bytes of key and value of a usual record. Records eight times as large are not kept, and of
    /// much smaller ones there are no more. By default what the table's sizes say; where these are
    /// limits, a quarter.
    pub record_bytes: Option<usize>,
}

impl Cache {
    /// A cache of so many bytes, of answers that cannot change.
    ///
    /// ```
    /// # use farslot::{Cache, OpenOptions};
    /// let options = OpenOptions {
    ///     cache: Some(Cache::new(64 << 20)),
    ///     ..OpenOptions::default()
    /// };
    /// # let _ = options;
    /// ```
    #[must_use]
    pub const fn new(bytes: u64) -> Self {
        Self {
            bytes,
            stale_for: None,
            record_bytes: None,
        }
    }

    /// The same with answers that may be so old.
    ///
    /// ```
    /// # use farslot::Cache;
    /// # use std::time::Duration;
    /// let cache = Cache::new(64 << 20).stale_for(Duration::from_secs(1));
    /// assert_eq!(cache.stale_for, Some(Duration::from_secs(1)));
    /// ```
    #[must_use]
    pub const fn stale_for(self, at_most: Duration) -> Self {
        Self {
            stale_for: Some(at_most),
            ..self
        }
    }

    /// The same for records of about so many bytes, key and value together.
    ///
    /// ```
    /// # use farslot::Cache;
    /// let cache = Cache::new(64 << 20).records_of(8 + 100);
    /// assert_eq!(cache.record_bytes, Some(108));
    /// ```
    #[must_use]
    pub const fn records_of(self, bytes: usize) -> Self {
        Self {
            record_bytes: Some(bytes),
            ..self
        }
    }

    /// What each of so many partitions has of it.
    pub(crate) fn per_partition(self, partitions: u16) -> Self {
        Self {
            bytes: self.bytes / u64::from(partitions.max(1)),
            ..self
        }
    }

    /// Whether any answer of such a table would be kept.
    pub(crate) const fn is_for(self, scheme: &Scheme) -> bool {
        self.stale_for.is_some() || scheme.buildable()
    }

    /// Keys whose records' places may be remembered unless more are asked for: in a quarter of the
    /// memory.
    pub(crate) fn record_locations(self) -> usize {
        let hints = self.bytes / 4 / HINT_BYTES;
        // A power of two, for they are rounded up to one.
        let hints = hints.checked_ilog2().map_or(0, |log| 1 << log);
        usize::try_from(hints).unwrap_or(usize::MAX)
    }

    /// The same for the index crate, for tables of this scheme.
    pub(crate) fn options(self, scheme: &Scheme) -> CacheOptions {
        let (key, value) = scheme.stored_sizes();
        let record_bytes = self.record_bytes.unwrap_or(usual(key) + usual(value));
        CacheOptions {
            bytes: self.bytes,
            record_bytes,
            freshness: self.stale_for.map_or(Freshness::Exact, |bound| {
                Freshness::Within(u64::try_from(bound.as_nanos()).unwrap_or(u64::MAX))
            }),
        }
    }
}

/// Bytes of a usual key or value of that size.
const fn usual(size: FieldSize) -> usize {
    match size {
        FieldSize::Fixed(bytes) => bytes as usize,
        FieldSize::UpTo(most) => most.div_ceil(4) as usize,
    }
}
