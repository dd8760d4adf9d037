//! Which tables this process has put records into that expire: the sweeper visits those soon again.

use super::Expiry;
use crate::Operation;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// By the tables' ids, for as long as a session with the table is open.
#[derive(Default)]
pub(crate) struct Ending(Mutex<HashMap<u64, Weak<AtomicBool>>>);

/// Whether records that expire were put into one table since the sweeper has asked.
#[derive(Clone, Default)]
pub(crate) struct EndingIn(Arc<AtomicBool>);

impl Ending {
    /// That of a table with which a session is opened.
    pub(crate) fn of(&self, table: u64) -> EndingIn {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(flag) = known.get(&table).and_then(Weak::upgrade) {
            return EndingIn(flag);
        }
        known.retain(|_, flag| flag.strong_count() > 0);
        let new = EndingIn::default();
        known.insert(table, Arc::downgrade(&new.0));
        new
    }

    /// Whether there were any in a table since it was asked last.
    pub(super) fn take(&self, table: u64) -> bool {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let flag = known.get(&table).and_then(Weak::upgrade);
        flag.is_some_and(|flag| flag.swap(false, Relaxed))
    }
}

impl EndingIn {
    /// Notes an operation of the table as it is stored.
    #[inline]
    pub(super) fn note(&self, operation: &Operation<'_>) {
        let stored = operation.value().and_then(Expiry::split);
        let ends = stored.is_some_and(|(expiry, _)| expiry != Expiry::NEVER);
        // Most find that it is known.
        if ends && !self.0.load(Relaxed) {
            self.0.store(true, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_told_of_once_after_a_record_that_expires_was_put_into_it() {
        let ending = Ending::default();
        let [one, other] = [1, 2].map(|table| ending.of(table));
        let stored = |expiry: Expiry| [&expiry.to_bytes()[..], b"value"].concat();
        other.note(&Operation::Put(b"key", &stored(Expiry::NEVER)));
        other.note(&Operation::Remove(b"key"));
        assert!(!ending.take(2));
        ending
            .of(1)
            .note(&Operation::Put(b"key", &stored(Expiry::at_millis(7))));
        assert_eq!(
            [1, 2, 1, 3].map(|table| ending.take(table)),
            [true, false, false, false]
        );
        drop(one);
        drop(ending.of(4));
        assert_eq!(
            ending.0.lock().unwrap().len(),
            2,
            "those of tables that are open"
        );
    }
}
