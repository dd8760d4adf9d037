//! The keys that connections watch, and the lock that separates transactions from ticks.
//!
//! A tick holds the lock shared while it executes in memory; a transaction holds it exclusively.
//! Neither holds it across a socket's reads or writes, so a stopped client holds up nobody.
//!
//! While it holds the lock, a tick that writes a watched key counts that in the registry. If no key
//! is watched, this costs one load. Keys enter the registry under the exclusive lock. So a tick
//! took effect before a key was watched, or it finds the key there.

use farslot::Expiry;
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant};

/// Bytes of the keys that one connection watches, with [`A_KEY`] for each.
pub(crate) const MOST_BYTES: usize = 1 << 20;
/// Bytes that a watched key takes besides its own: its places in the registry and in the
/// connection's list.
const A_KEY: usize = 256;

/// What is known of a watched key.
#[derive(Default, Debug)]
struct Mark {
    /// Connections that watch it.
    watchers: usize,
    /// How often it was written since the first of these began.
    touches: u64,
}

/// The watched keys of a database.
type WatchMarks = HashMap<Arc<[u8]>, Mark>;

/// The watched keys of a gateway, and the lock of its ticks.
#[derive(Default, Debug)]
pub(crate) struct WatchRegistry {
    ticks: RwLock<()>,
    /// How many keys there are, over all databases.
    count: AtomicUsize,
    databases: Mutex<HashMap<u8, WatchMarks>>,
    fingerprints: RandomState,
}

impl WatchRegistry {
    /// Excludes transactions while steps of a tick execute; returns how long one was waited for.
    /// The standard library's lock on Linux lets no new reader in while a writer waits, so
    /// transactions do not starve.
    pub(crate) fn shared(&self) -> (RwLockReadGuard<'_, ()>, Duration) {
        if let Ok(guard) = self.ticks.try_read() {
            return (guard, Duration::ZERO);
        }
        let since = Instant::now();
        let guard = self.ticks.read().unwrap_or_else(PoisonError::into_inner);
        (guard, since.elapsed())
    }

    /// Excludes all ticks and other transactions.
    pub(crate) fn exclusive(&self) -> RwLockWriteGuard<'_, ()> {
        self.ticks.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether any key is watched.
    pub(crate) fn any(&self) -> bool {
        self.count.load(Relaxed) > 0
    }

    /// Counts that keys of a database were written. The caller holds the lock.
    pub(crate) fn touch<'k>(&self, database: u8, keys: impl IntoIterator<Item = &'k [u8]>) {
        if !self.any() {
            return;
        }
        let mut databases = self.databases();
        let Some(marks) = databases.get_mut(&database) else {
            return;
        };
        for key in keys {
            if let Some(mark) = marks.get_mut(key) {
                mark.touches += 1;
            }
        }
    }

    /// A number that stands for a value: another one has the same with a chance of one in 2^64,
    /// which clients cannot raise.
    pub(crate) fn fingerprint(&self, value: &[u8]) -> u64 {
        self.fingerprints.hash_one(value)
    }

    fn databases(&self) -> MutexGuard<'_, HashMap<u8, WatchMarks>> {
        self.databases
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a watcher of a key; returns the key as it is kept, and how often it was touched.
    fn add(&self, database: u8, key: &[u8]) -> (Arc<[u8]>, u64) {
        let mut databases = self.databases();
        let marks = databases.entry(database).or_default();
        if let Some((key, mark)) = marks.get_key_value(key) {
            let (key, touches) = (Arc::clone(key), mark.touches);
            if let Some(mark) = marks.get_mut(&key) {
                mark.watchers += 1;
            }
            return (key, touches);
        }
        let key: Arc<[u8]> = key.into();
        let mark = Mark {
            watchers: 1,
            touches: 0,
        };
        marks.insert(Arc::clone(&key), mark);
        self.count.fetch_add(1, Relaxed);
        (key, 0)
    }
}

/// A key that a connection watches.
#[derive(Debug)]
pub(crate) struct WatchedKey {
    pub(crate) database: u8,
    pub(crate) key: Arc<[u8]>,
    /// How often it had been touched when the connection began to watch it.
    touches: u64,
    /// When its record ended then and the fingerprint of its value, if it had one that was alive.
    pub(crate) record: Option<(Expiry, u64)>,
}

/// The keys that a connection watches, until this is dropped.
#[derive(Debug)]
pub(crate) struct WatchList {
    watches: Arc<WatchRegistry>,
    keys: Vec<WatchedKey>,
    /// Bytes of the keys.
    bytes: usize,
}

impl WatchList {
    pub(crate) const fn none(watches: Arc<WatchRegistry>) -> Self {
        Self {
            watches,
            keys: Vec::new(),
            bytes: 0,
        }
    }

    /// Bytes that it keeps, those in the registry included.
    pub(crate) const fn held(&self) -> usize {
        self.bytes
    }

    pub(crate) fn keys(&self) -> &[WatchedKey] {
        &self.keys
    }

    pub(crate) fn keys_mut(&mut self) -> &mut [WatchedKey] {
        &mut self.keys
    }

    /// Those keys, each once, that are not watched yet.
    pub(crate) fn new_ones<'k>(&self, database: u8, keys: &[&'k [u8]]) -> Vec<&'k [u8]> {
        let mut new = keys.to_vec();
        new.sort_unstable();
        new.dedup();
        let watched = self.keys.iter().filter(|of| of.database == database);
        let watched: HashSet<&[u8]> = watched.map(|of| &*of.key).collect();
        new.retain(|key| !watched.contains(key));
        new
    }

    /// Bytes that it would keep if it watched these new keys as well.
    pub(crate) fn bytes_with(&self, new: &[&[u8]]) -> usize {
        let more = new.iter().map(|key| key.len() + A_KEY);
        self.bytes + more.sum::<usize>()
    }

    /// Watches new keys of a database. The caller holds the exclusive lock.
    pub(crate) fn add(&mut self, database: u8, new: &[&[u8]]) {
        self.bytes = self.bytes_with(new);
        for key in new {
            let (key, touches) = self.watches.add(database, key);
            self.keys.push(WatchedKey {
                database,
                key,
                touches,
                record: None,
            });
        }
    }

    /// Whether a key was touched since it is watched, or has expired. The caller holds the
    /// exclusive lock.
    pub(crate) fn is_touched(&self, now: u64) -> bool {
        if self.keys.is_empty() {
            return false;
        }
        let databases = self.watches.databases();
        let touches = |of: &WatchedKey| {
            let marks = databases.get(&of.database)?;
            Some(marks.get(&of.key)?.touches)
        };
        let has_expired =
            |of: &WatchedKey| of.record.is_some_and(|(expiry, _)| expiry.is_past(now));
        let mut keys = self.keys.iter();
        keys.any(|of| touches(of) != Some(of.touches) || has_expired(of))
    }

    /// Watches none any more.
    pub(crate) fn clear(&mut self) {
        self.truncate(0);
    }

    /// Watches no more than the first keys, so many.
    pub(crate) fn truncate(&mut self, left: usize) {
        if self.keys.len() <= left {
            return;
        }
        let mut databases = self.watches.databases();
        for of in self.keys.drain(left..) {
            self.bytes -= of.key.len() + A_KEY;
            let Some(marks) = databases.get_mut(&of.database) else {
                continue;
            };
            let Some(mark) = marks.get_mut(&of.key) else {
                continue;
            };
            mark.watchers -= 1;
            if mark.watchers == 0 {
                marks.remove(&of.key);
                if marks.is_empty() {
                    databases.remove(&of.database);
                } else if marks.len() < marks.capacity() / 8 {
                    marks.shrink_to(2 * marks.len());
                }
                self.watches.count.fetch_sub(1, Relaxed);
            }
        }
        drop(databases);
        self.keys.shrink_to(0);
    }
}

impl Drop for WatchList {
    fn drop(&mut self) {
        self.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watching(watches: &Arc<WatchRegistry>, keys: &[&[u8]]) -> WatchList {
        let mut watched = WatchList::none(Arc::clone(watches));
        watched.add(3, &watched.new_ones(3, keys));
        watched
    }

    #[test]
    fn a_touch_is_seen_by_those_who_watched_before_it() {
        let watches = Arc::new(WatchRegistry::default());
        assert!(!watches.any());
        let first = watching(&watches, &[b"a", b"b"]);
        assert!(watches.any());
        watches.touch(3, [&b"c"[..]]);
        watches.touch(2, [&b"a"[..]]);
        assert!(!first.is_touched(0), "another key, another database");
        watches.touch(3, [&b"b"[..]]);
        let second = watching(&watches, &[b"b"]);
        assert!(first.is_touched(0) && !second.is_touched(0));
        drop(first);
        assert!(!second.is_touched(0), "its key stays while it is watched");
        watches.touch(3, [&b"b"[..]]);
        assert!(second.is_touched(0));
        drop(second);
        assert!(!watches.any() && watches.databases().is_empty());
    }

    #[test]
    fn a_key_is_watched_once_and_counted_once() {
        let watches = Arc::new(WatchRegistry::default());
        let mut watched = watching(&watches, &[b"a", b"a", b"bcd"]);
        assert_eq!((watched.keys().len(), watched.held()), (2, 2 * A_KEY + 4));
        assert_eq!(watched.new_ones(3, &[b"a", b"e"]), [b"e"]);
        assert_eq!(watched.new_ones(4, &[b"a"]), [b"a"]);
        watched.clear();
        assert_eq!((watched.keys().len(), watched.held()), (0, 0));
        assert!(!watches.any());
    }
}
