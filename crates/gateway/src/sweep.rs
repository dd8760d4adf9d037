//! The sweep: a thread that removes records of keys that have expired and that nobody asks for.

use crate::databases::{DATABASES, Databases};
use crate::record::{self, expiry_of, is_dead};
use crate::shared::Shared;
use farslot::{Cursor, Operation, Result, Store};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// How often it goes on.
const TICK: Duration = Duration::from_millis(100);
/// How long it works then, in all databases together.
const WORK: Duration = Duration::from_millis(5);
/// How long a database that was visited whole is left alone.
const REST: Duration = Duration::from_millis(500);
/// And one in which nothing expires.
const LONG_REST: Duration = Duration::from_secs(5);

/// How far it has come in a database.
struct Place {
    cursor: Cursor,
    /// Not before then.
    from: Instant,
    /// Whether this visit has met a key that expires.
    some_expire: bool,
}

/// Sweeps until the gateway ends, which drops the sender.
pub(crate) fn run(shared: &Shared, store: Store, end: &Receiver<()>) {
    let mut databases = Databases::new(store);
    let mut places: Vec<Place> = (0..DATABASES)
        .map(|_| Place {
            cursor: Cursor::default(),
            from: Instant::now(),
            some_expire: false,
        })
        .collect();
    while end.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
        let since = Instant::now();
        for (number, place) in (0..).zip(&mut places) {
            while since.elapsed() < WORK && place.from <= Instant::now() {
                match piece(&mut databases, number, place) {
                    Ok(removed) => {
                        shared.counts.expired.fetch_add(removed, Relaxed);
                    }
                    Err(error) => {
                        databases.is_gone(number, &error);
                        log::debug!("database {number} is not swept: {error}");
                        place.cursor = Cursor::default();
                        place.from = Instant::now() + LONG_REST;
                    }
                }
            }
        }
    }
}

/// Sweeps a piece of a database; returns how many records it has removed.
fn piece(databases: &mut Databases, number: u8, place: &mut Place) -> Result<u64> {
    let Some(table) = databases.existing(number)? else {
        place.from = Instant::now() + REST;
        return Ok(0);
    };
    let now = record::now();
    let mut dead = Vec::new();
    let next = table.scan(place.cursor, |key, record| {
        place.some_expire |= expiry_of(record).is_some_and(|expiry| expiry != 0);
        if is_dead(record, now) {
            dead.push((key.to_vec(), record.to_vec()));
        }
    })?;
    // A record that another has replaced meanwhile stays.
    let removals = dead
        .iter()
        .map(|(key, record)| Operation::RemoveIf(key, record));
    let removals: Vec<_> = removals.collect();
    let (mut removed, mut failed) = (0, None);
    table.run_many(&removals, |_, outcome| match outcome {
        Ok(outcome) => removed += u64::from(outcome.is_changed()),
        Err(error) => failed = Some(error),
    });
    if let Some(error) = failed {
        return Err(error);
    }
    if removed > 0 {
        table.flush()?;
    }
    place.cursor = next.unwrap_or_default();
    if next.is_none() {
        let rest = if place.some_expire { REST } else { LONG_REST };
        place.from = Instant::now() + rest;
        place.some_expire = false;
    }
    Ok(removed)
}
