//! Commands that concern a whole database, or several keys together. Each runs by itself, behind
//! all steps that came before it.

use crate::commands::DatabaseCommand;
use crate::databases::{DATABASES, Databases};
use crate::failure::Failure;
use crate::glob::Glob;
use crate::record::{Bytes, Entry, is_dead};
use crate::reply::{OK, Reply};
use crate::watch::WatchRegistry;
use farslot::{BatchError, Cursor, Table};
use rand::RngExt;

/// Pieces of a table that a SCAN visits at the most, however few keys they have: the other clients
/// of the thread wait meanwhile.
const SCANNED: u32 = 128;
/// Slots of a table that are emptied together, so that the memory for their keys is bounded.
const FLUSHED: u64 = 1024;

/// Bytes that it takes to set these: their records, and their places in a map.
fn weight(pairs: &[(&[u8], &[u8])]) -> usize {
    let bytes = pairs.iter().map(|(_, value)| value.len() + 256);
    bytes.sum()
}

/// Runs it on a database, at a moment; it takes at most so many bytes, those of its reply included.
/// The caller holds the lock of ticks.
pub(crate) fn run(
    databases: &mut Databases,
    database: u8,
    command: &DatabaseCommand<'_>,
    now: u64,
    room: usize,
    watches: &WatchRegistry,
) -> Result<Reply<'static>, Failure> {
    let done = match command {
        DatabaseCommand::SetAbsent(pairs) if room < weight(pairs) => {
            Err(DatabaseFailure::Client(Failure::LongReply { limit: room }))
        }
        DatabaseCommand::SetAbsent(pairs) => set_absent(databases, database, pairs, now, watches),
        DatabaseCommand::Flush { all: false } => flush(databases, database, now, watches),
        DatabaseCommand::Flush { all: true } => (0..DATABASES)
            .try_for_each(|number| flush(databases, number, now, watches).map(|_| ()))
            .map(|()| OK),
        lookup => {
            let reading = Reading { now, room };
            match databases.existing(database) {
                Ok(Some(table)) => reading.run(table, lookup),
                Ok(None) => Ok(nothing(lookup)),
                Err(error) => Err(error.into()),
            }
        }
    };
    match done {
        Err(DatabaseFailure::Store(error)) => {
            databases.is_gone(database, &error);
            Err(error.into())
        }
        Err(DatabaseFailure::Client(failure)) => Err(failure),
        Ok(reply) => Ok(reply),
    }
}

/// Why a command on a database was not done.
enum DatabaseFailure {
    Store(farslot::StoreError),
    Client(Failure),
}

impl From<farslot::StoreError> for DatabaseFailure {
    fn from(error: farslot::StoreError) -> Self {
        Self::Store(error)
    }
}

/// What a lookup finds in a database without a table.
fn nothing(lookup: &DatabaseCommand<'_>) -> Reply<'static> {
    match lookup {
        DatabaseCommand::Size => Reply::Integer(0),
        DatabaseCommand::Scan { .. } => scanned(None, Keys::default()),
        DatabaseCommand::Keys(_) => Reply::Array(Vec::new()),
        _ => Reply::Null,
    }
}

fn scanned(next: Option<Cursor>, keys: Keys) -> Reply<'static> {
    let next = next.map_or(0, Cursor::to_number);
    Reply::Array(vec![Reply::text(next.to_string()), keys.into()])
}

/// Keys of a reply, as they are sent: tens of thousands would take several times as much in
/// memory of their own.
#[derive(Default)]
struct Keys {
    count: usize,
    encoded: Vec<u8>,
}

impl From<Keys> for Reply<'static> {
    fn from(Keys { count, encoded }: Keys) -> Self {
        Self::Bulks { count, encoded }
    }
}

/// One that reads a table, at a moment.
struct Reading {
    now: u64,
    room: usize,
}

impl Reading {
    fn run(
        mut self,
        table: &Table,
        lookup: &DatabaseCommand<'_>,
    ) -> Result<Reply<'static>, DatabaseFailure> {
        Ok(match lookup {
            DatabaseCommand::Size => {
                table.flush()?;
                let entries = table.occupancy()?.entries;
                Reply::Integer(i64::try_from(entries).unwrap_or(i64::MAX))
            }
            DatabaseCommand::Keys(pattern) => {
                let mut keys = Keys::default();
                let mut next = Some(Cursor::default());
                let pattern = Glob::new(pattern);
                while let Some(cursor) = next {
                    let piece = (cursor, u64::MAX);
                    next = self.piece(table, piece, Some(&pattern), &mut keys)?.0;
                }
                keys.into()
            }
            DatabaseCommand::Scan {
                cursor,
                count,
                pattern,
                strings,
            } => {
                let mut keys = Keys::default();
                let (mut next, mut seen) = (Some(Cursor::from_number(*cursor)), 0);
                let pattern = pattern.map(Glob::new);
                let pattern = pattern.as_ref();
                // Pieces that double find the keys of a sparse table in few round trips, and visit
                // not much more of a full one than was asked for.
                let mut most = *count;
                for _ in 0..SCANNED {
                    let Some(cursor) = next.filter(|_| seen < *count) else {
                        break;
                    };
                    let (behind, met) = self.piece(table, (cursor, most), pattern, &mut keys)?;
                    (next, seen) = (behind, seen + met);
                    most = most.saturating_mul(2);
                }
                if !strings {
                    keys = Keys::default();
                }
                scanned(next, keys)
            }
            DatabaseCommand::RandomKey => self.random_key(table)?,
            DatabaseCommand::SetAbsent(_) | DatabaseCommand::Flush { .. } => Reply::Null,
        })
    }

    /// Visits a piece from a cursor on, of at most so many slots, and takes the keys that match;
    /// returns where the next one starts, and how many records were met.
    fn piece(
        &mut self,
        table: &Table,
        (cursor, most): (Cursor, u64),
        pattern: Option<&Glob>,
        keys: &mut Keys,
    ) -> Result<(Option<Cursor>, u64), DatabaseFailure> {
        let (limit, now) = (self.room, self.now);
        let (mut met, mut is_full) = (0, false);
        let next = table.scan(cursor, most, |key, record| {
            met += 1;
            let wanted =
                !is_dead(record, now) && pattern.is_none_or(|pattern| pattern.matches(key));
            // With its head.
            let bytes = key.len() + 32;
            if wanted && !is_full {
                match self.room.checked_sub(bytes) {
                    Some(left) => {
                        self.room = left;
                        keys.count += 1;
                        Reply::append(&mut keys.encoded, key);
                    }
                    None => is_full = true,
                }
            }
        })?;
        if is_full {
            return Err(DatabaseFailure::Client(Failure::LongReply { limit }));
        }
        Ok((next, met))
    }

    /// Any key with the same chance: all are visited.
    fn random_key(&self, table: &Table) -> Result<Reply<'static>, DatabaseFailure> {
        let (mut chosen, mut met) = (None, 0_u64);
        let mut random = rand::rng();
        table.for_each(|key, record| {
            if !is_dead(record, self.now) {
                met += 1;
                if random.random_range(0..met) == 0 {
                    chosen = Some(Bytes::copied(key));
                }
            }
        })?;
        Ok(chosen.map_or(Reply::Null, Reply::Bulk))
    }
}

/// Removes all keys, a piece of the table at a time: those that others set meanwhile may stay.
fn flush(
    databases: &mut Databases,
    database: u8,
    now: u64,
    watches: &WatchRegistry,
) -> Result<Reply<'static>, DatabaseFailure> {
    let Some(table) = databases.existing(database)? else {
        return Ok(OK);
    };
    let mut next = Some(Cursor::default());
    while let Some(cursor) = next {
        let (mut keys, mut dead) = (Vec::new(), Vec::new());
        next = table.scan(cursor, FLUSHED, |key, record| {
            keys.push(key.to_vec());
            dead.push(is_dead(record, now));
        })?;
        let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
        let removed = table.remove_many(&keys, |_, _| ());
        let alive = keys.iter().zip(dead).filter(|(_, is_dead)| !is_dead);
        watches.touch(database, alive.map(|(key, _)| *key));
        removed.map_err(BatchError::into_first)?;
    }
    Ok(OK)
}

/// Sets all values, or none if a key is there. Keys are put one after the other, and taken back if
/// one is found: clients that do not come through this gateway may see some of them meanwhile. The
/// caller holds the lock of ticks exclusively.
fn set_absent(
    databases: &mut Databases,
    database: u8,
    pairs: &[(&[u8], &[u8])],
    now: u64,
    watches: &WatchRegistry,
) -> Result<Reply<'static>, DatabaseFailure> {
    let table = databases.made(database)?;
    // The last value of a key that is named twice.
    let mut last = std::collections::BTreeMap::new();
    for (key, value) in pairs {
        let value = Bytes::Given(value);
        last.insert(*key, Entry { value, expiry: 0 }.record());
    }
    let mut put: Vec<(&[u8], &[u8])> = Vec::new();
    for (key, record) in &last {
        match put_absent(table, key, record, now) {
            Ok(true) => put.push((key, record)),
            other => {
                for (key, record) in put {
                    table.compare_and_remove(key, record)?;
                }
                return Ok(Reply::flag(other?));
            }
        }
    }
    watches.touch(database, last.keys().copied());
    Ok(Reply::flag(true))
}

/// Puts a record if the key is absent, or the one that it has is dead.
fn put_absent(table: &Table, key: &[u8], record: &[u8], now: u64) -> farslot::Result<bool> {
    loop {
        let Some(existing) = table.find_or_put(key, record)? else {
            return Ok(true);
        };
        if !is_dead(&existing, now) {
            return Ok(false);
        }
        if table.compare_and_set(key, Some(&existing), record)? {
            return Ok(true);
        }
    }
}
