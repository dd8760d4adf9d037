//! The most recent entries of a log.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A log of the [`RecentLog::MOST`] most recent entries, for threads that share it.
///
/// ```
/// # use farslot::metrics::RecentLog;
/// let slow = RecentLog::default();
/// slow.add(|number| format!("request {number} took 2 s"));
/// assert_eq!(slow.map(String::clone), ["request 0 took 2 s"]);
/// ```
#[derive(Debug)]
pub struct RecentLog<T>(Mutex<RecentEntries<T>>);

#[derive(Debug)]
struct RecentEntries<T> {
    /// How many were added, including those that have been dropped since.
    count: u64,
    /// The latest first.
    entries: VecDeque<T>,
}

impl<T> Default for RecentLog<T> {
    fn default() -> Self {
        Self(Mutex::new(RecentEntries {
            count: 0,
            entries: VecDeque::new(),
        }))
    }
}

impl<T> RecentLog<T> {
    /// Entries at most.
    pub const MOST: usize = 128;

    fn kept(&self) -> MutexGuard<'_, RecentEntries<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an entry, made from its number: how many were added before it. The oldest is dropped if
    /// there are [`RecentLog::MOST`].
    pub fn add(&self, entry: impl FnOnce(u64) -> T) {
        let mut kept = self.kept();
        let entry = entry(kept.count);
        kept.count += 1;
        kept.entries.truncate(Self::MOST - 1);
        kept.entries.push_front(entry);
    }

    /// What `read` makes of each entry, the latest first.
    pub fn map<R>(&self, read: impl FnMut(&T) -> R) -> Vec<R> {
        self.kept().entries.iter().map(read).collect()
    }

    /// Entries that are kept.
    #[must_use]
    pub fn len(&self) -> usize {
        self.kept().entries.len()
    }

    /// Whether no entry is kept.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Drops all entries; the numbers go on.
    pub fn clear(&self) {
        self.kept().entries.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::RecentLog;

    #[test]
    fn the_latest_are_kept_and_all_are_counted() {
        let latest = RecentLog::default();
        assert!(latest.is_empty());
        let all = 3 * RecentLog::<u64>::MOST as u64;
        for _ in 0..all {
            latest.add(|number| number);
        }
        let kept = latest.map(|number| *number);
        assert_eq!((kept[0], kept.len()), (all - 1, RecentLog::<u64>::MOST));
        assert!(kept.is_sorted_by(|later, earlier| later > earlier));
        latest.clear();
        latest.add(|number| number);
        assert_eq!(latest.map(|number| *number), [all]);
    }
}
