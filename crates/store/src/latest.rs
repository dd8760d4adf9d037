//! The latest of many things.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The latest of many things: the last [`Latest::MOST`].
#[derive(Debug)]
pub struct Latest<T>(Mutex<LatestRing<T>>);

#[derive(Debug)]
struct LatestRing<T> {
    /// How many there were, those that are forgotten included.
    count: u64,
    /// The latest first.
    things: VecDeque<T>,
}

impl<T> Default for Latest<T> {
    fn default() -> Self {
        Self(Mutex::new(LatestRing {
            count: 0,
            things: VecDeque::new(),
        }))
    }
}

impl<T> Latest<T> {
    /// The most that are kept.
    pub const MOST: usize = 128;

    fn kept(&self) -> MutexGuard<'_, LatestRing<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds one, which is made from how many there were before.
    pub fn add(&self, thing: impl FnOnce(u64) -> T) {
        let mut kept = self.kept();
        let thing = thing(kept.count);
        kept.count += 1;
        kept.things.truncate(Self::MOST - 1);
        kept.things.push_front(thing);
    }

    /// What each of the latest comes to, the latest first.
    pub fn map<R>(&self, of: impl FnMut(&T) -> R) -> Vec<R> {
        self.kept().things.iter().map(of).collect()
    }

    /// How many are kept.
    #[must_use]
    pub fn len(&self) -> usize {
        self.kept().things.len()
    }

    /// Whether none is kept.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Forgets all.
    pub fn clear(&self) {
        self.kept().things.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::Latest;

    #[test]
    fn the_latest_are_kept_and_all_are_counted() {
        let latest = Latest::default();
        assert!(latest.is_empty());
        let all = 3 * Latest::<u64>::MOST as u64;
        for _ in 0..all {
            latest.add(|number| number);
        }
        let kept = latest.map(|number| *number);
        assert_eq!((kept[0], kept.len()), (all - 1, Latest::<u64>::MOST));
        assert!(kept.is_sorted_by(|later, earlier| later > earlier));
        latest.clear();
        latest.add(|number| number);
        assert_eq!(latest.map(|number| *number), [all]);
    }
}
