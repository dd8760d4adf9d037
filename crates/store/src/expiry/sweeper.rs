//! What the sweeper does: it removes records that have expired and that nobody asks for.

use super::thread::Sweeper;
use crate::{Cursor, ErrorKind, Result, Store, StoreError, Table, TableRecord};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

/// How often it goes on.
const TICK: Duration = Duration::from_millis(100);
/// How long it works then, in all tables together.
const WORK: Duration = Duration::from_millis(5);
/// How long a table that was visited whole is left alone, and how often it looks which there are.
const REST: Duration = Duration::from_millis(500);
/// And a table in which nothing expires, as far as this process knows: so many times as long as the
/// visit took, so that a small one is visited again soon.
const RESTS: u32 = 100;
/// For no longer than this.
const LONG_REST: Duration = Duration::from_secs(5);

impl Store {
    /// The thread that removes records that have expired from all tables of this store, for as long
    /// as somebody holds it: there is one for the store and its clones. A [`Server`](crate::Server)
    /// holds one for its memory, so that its clients need none; a store in this process's own
    /// memory wants one if its records expire without being put anew.
    ///
    /// # Errors
    /// [`StoreError::Thread`].
    ///
    /// ```
    /// # use farslot::{Store, TableOptions};
    /// # use std::time::Duration;
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// let store = Store::embedded()?;
    /// store.create("codes", &TableOptions::default())?;
    /// let sweeper = store.sweeper()?;
    /// store.table("codes")?.put_for(b"ada", b"314159", Duration::from_millis(1))?;
    /// while sweeper.removed() == 0 {
    ///     std::thread::yield_now();
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn sweeper(&self) -> Result<Arc<Sweeper>> {
        let mut current = self
            .0
            .sweeper
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(sweeper) = current.upgrade() {
            return Ok(sweeper);
        }
        let store = self.clone();
        let sweeper = Sweeper::start(move |removed, ended| run(&store, removed, ended));
        let sweeper = sweeper.map_err(|error| StoreError::Thread {
            reason: error.to_string(),
        })?;
        let sweeper = Arc::new(sweeper);
        *current = Arc::downgrade(&sweeper);
        Ok(sweeper)
    }
}

/// How far it has come in a table.
struct SweepPosition {
    table: Table,
    cursor: Cursor,
    /// Not before then.
    from: Instant,
    /// Whether this visit has met a record that expires, or one was put meanwhile.
    some_expire: bool,
    /// How long this visit has taken so far.
    took: Duration,
}

impl SweepPosition {
    fn of(table: Table) -> Self {
        Self {
            table,
            cursor: Cursor::default(),
            from: Instant::now(),
            some_expire: false,
            took: Duration::ZERO,
        }
    }

    /// Sweeps a piece of the table; returns how many records it has removed.
    fn sweep(&mut self) -> Result<u64> {
        let since = Instant::now();
        let swept = self.table.sweep(self.cursor)?;
        self.took += since.elapsed();
        self.some_expire |= swept.some_expire;
        self.cursor = swept.next.unwrap_or_default();
        if swept.next.is_none() {
            self.from = Instant::now() + rest_after(self.some_expire, self.took);
            (self.some_expire, self.took) = (false, Duration::ZERO);
        }
        Ok(swept.removed)
    }
}

/// How long a table is left alone after a visit that took so long.
fn rest_after(some_expire: bool, took: Duration) -> Duration {
    match some_expire {
        true => REST,
        false => took.saturating_mul(RESTS).clamp(REST, LONG_REST),
    }
}

fn run(store: &Store, removed: &AtomicU64, end: &Receiver<()>) {
    let mut places: HashMap<u64, SweepPosition> = HashMap::new();
    let (mut look_at, mut reclaim_at) = (Instant::now(), Instant::now());
    while end.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
        if Instant::now() >= look_at {
            look_at = Instant::now() + REST;
            if let Err(error) = look(store, &mut places) {
                log::debug!("which tables are to be swept is not known: {error}");
            }
        }
        sweep_round(store, &mut places, removed);
        if store.is_mapped() && Instant::now() >= reclaim_at {
            // A node's own: callers whose operations the owner executes cannot wait for that.
            let since = Instant::now();
            if let Err(error) = store.reclaim_if_full() {
                log::debug!("memory that tables do not need is not taken back: {error}");
            }
            reclaim_at = Instant::now() + (since.elapsed() * RESTS).clamp(REST, LONG_REST);
        }
    }
}

/// Goes on in tables that were left alone for long enough.
fn sweep_round(store: &Store, places: &mut HashMap<u64, SweepPosition>, removed: &AtomicU64) {
    let since = Instant::now();
    places.retain(|id, place| {
        if store.0.sessions.ending.take(*id) {
            // Perhaps behind what this visit has seen already.
            place.some_expire = true;
            place.from = place.from.min(since + REST);
        }
        while since.elapsed() < WORK && place.from <= Instant::now() {
            match place.sweep() {
                Ok(number) => drop(removed.fetch_add(number, Relaxed)),
                Err(error) => {
                    log::debug!("table {:?} is not swept: {error}", place.table.name());
                    place.cursor = Cursor::default();
                    place.from = Instant::now() + LONG_REST;
                    return error.kind() != ErrorKind::TableGone;
                }
            }
        }
        true
    });
}

/// Opens the tables that are new, and forgets those that are gone.
fn look(store: &Store, places: &mut HashMap<u64, SweepPosition>) -> Result<()> {
    let tables = store.tables()?;
    let expiring = |table: &&TableRecord| table.scheme.is_expiring();
    let expiring: Vec<_> = tables.iter().filter(expiring).collect();
    places.retain(|id, _| expiring.iter().any(|table| table.id == *id));
    for table in expiring {
        if places.contains_key(&table.id) {
            continue;
        }
        let opened = match store.node_count() {
            1 => store.own_part(table),
            _ => store.stored_table(&table.name),
        };
        match opened {
            Ok(opened) => drop(places.insert(table.id, SweepPosition::of(opened))),
            Err(error) => log::debug!("table {:?} is not swept: {error}", table.name),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A large table in which nothing expired is left alone for long, but not once this process has
    /// put something into it that does.
    #[test]
    fn a_table_is_visited_soon_after_a_record_that_expires_was_put_into_it() {
        let store = Store::embedded_with(64 << 20, crate::OpenOptions::default()).unwrap();
        store.create("t", &crate::TableOptions::default()).unwrap();
        let table = store.table("t").unwrap();
        let (mut places, removed) = (HashMap::new(), AtomicU64::new(0));
        look(&store, &mut places).unwrap();
        let rests_until = Instant::now() + Duration::from_secs(3_600);
        places
            .values_mut()
            .for_each(|place| place.from = rests_until);
        table.put(b"stays", b"value").unwrap();
        sweep_round(&store, &mut places, &removed);
        assert!(places.values().all(|place| place.from == rests_until));
        table
            .put_for(b"ends", b"value", Duration::from_millis(1))
            .unwrap();
        sweep_round(&store, &mut places, &removed);
        assert!(
            places
                .values()
                .all(|place| place.from <= Instant::now() + REST)
        );
        std::thread::sleep(REST);
        // A visit may take several turns.
        for _ in 0..1_000 {
            sweep_round(&store, &mut places, &removed);
        }
        assert_eq!(removed.load(Relaxed), 1);
    }

    /// Records that expire may come into a table that had none: in a small one they are met soon.
    #[test]
    fn a_small_table_in_which_nothing_expires_is_visited_soon_again() {
        let rest = |took| rest_after(false, Duration::from_millis(took));
        assert_eq!(rest(1), REST);
        assert_eq!(rest(20), Duration::from_secs(2));
        assert_eq!(rest(1_000), LONG_REST);
        assert_eq!(rest_after(true, Duration::from_secs(1)), REST);
    }
}
