//! Records that live for a while, in a table whose records may have a time to live.

use super::Table;
use super::batches::OPERATIONS_A_CHUNK;
use crate::error::bad_option;
use crate::failed_operations::FailedOperations;
use crate::session::{MOST_ATTEMPTS, Session, SessionRequest, contended};
use crate::{BatchError, Cursor, Expiry, Operation, Record, Result, StoreError};
use farslot_index::Admin;
use std::time::Duration;

/// Slots that are swept together: records that have expired are held in memory until they are
/// removed, and the sweeper's turns are short.
const SWEPT: u64 = 1024;

/// What comes of sweeping a piece of a table.
pub(crate) struct Swept {
    /// Where the next piece starts.
    pub(crate) next: Option<Cursor>,
    /// Records that were removed.
    pub(crate) removed: u64,
    /// Whether any record has a time to live.
    pub(crate) some_expire: bool,
}

impl Table {
    /// Makes the key have this value for so long, from when this is called: from then on it is
    /// absent. If the call itself takes longer, the value is there for an instant before it
    /// returns. True if there was no record of the key; one that has expired and was not removed
    /// yet is one. A later [`Table::put`] gives it a value that stays; [`Table::update`],
    /// [`Table::compare_and_set`] and [`Table::increment`] leave it as long to live as it had.
    ///
    /// # Errors
    /// As [`Table::put`]; [`StoreError::NotExpiring`] if records have no time to live;
    /// [`BadOption`](farslot_index::IndexError::BadOption) for one over [`Expiry::LONGEST`].
    ///
    /// ```
    /// # use farslot::{Store, TableOptions};
    /// # use std::time::Duration;
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// let store = Store::embedded()?;
    /// store.create("sessions", &TableOptions::default())?;
    /// let sessions = store.table("sessions")?;
    /// sessions.put_for(b"ada", b"logged in", Duration::from_secs(1_800))?;
    /// let (value, left) = sessions.get_with_time_to_live(b"ada")?.unwrap();
    /// assert_eq!(value, b"logged in");
    /// assert!(left.unwrap() <= Duration::from_secs(1_800));
    ///
    /// sessions.set_time_to_live(b"ada", Some(Duration::ZERO))?;
    /// assert!(!sessions.contains_key(b"ada")?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn put_for(&self, key: &[u8], value: &[u8], time_to_live: Duration) -> Result<bool> {
        self.check_expiring()?;
        self.counted(Operation::Put(key, value), |session| {
            self.check_value(value)?;
            let stored = ends_after(time_to_live, self.now_millis())?.stored(value);
            Ok(session.run(Operation::Put(key, &stored))?.is_changed())
        })
    }

    /// Puts many records for so long, side by side. Of several with the same key, which one stays
    /// is not said.
    ///
    /// # Errors
    /// [`BatchError`] of the records that failed, each as of [`Table::put_for`].
    ///
    /// ```
    /// # use farslot::{Store, TableOptions};
    /// # use std::time::Duration;
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// # let store = Store::embedded()?;
    /// # store.create("sessions", &TableOptions::default())?;
    /// # let sessions = store.table("sessions")?;
    /// let all: [(&[u8], &[u8]); 2] = [(b"ada", b"in"), (b"bob", b"in")];
    /// sessions.put_many_for(&all, Duration::from_secs(1_800), |at, added| {
    ///     assert!(added, "record {at} has a new key");
    /// })?;
    /// assert!(sessions.contains_key(b"bob")?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn put_many_for(
        &self,
        records: &[Record<'_>],
        time_to_live: Duration,
        done: impl FnMut(usize, bool),
    ) -> Result<(), BatchError> {
        in_chunks(records, done, |records, done| {
            let records = records.iter().map(|record| (*record, time_to_live));
            self.put_each_for(records, done);
        })
    }

    /// Puts many records side by side, each until it expires, or for ever ([`Expiry::NEVER`]). Of
    /// several with the same key, which one stays is not said.
    ///
    /// # Errors
    /// As [`Table::put_many_for`].
    ///
    /// ```
    /// # use farslot::{Expiry, Record, Store, TableOptions};
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// # let store = Store::embedded()?;
    /// # store.create("sessions", &TableOptions::default())?;
    /// # let sessions = store.table("sessions")?;
    /// let all: [(Record<'_>, Expiry); 2] = [
    ///     ((b"ada", b"in"), Expiry::NEVER),
    ///     ((b"bob", b"in"), Expiry::at_millis(1)),
    /// ];
    /// sessions.put_many_until(&all, |at, added| {
    ///     assert!(added, "record {at} has a new key");
    /// })?;
    /// assert!(sessions.contains_key(b"ada")?);
    /// assert!(!sessions.contains_key(b"bob")?, "it expired in 1970");
    /// # Ok(())
    /// # }
    /// ```
    pub fn put_many_until(
        &self,
        records: &[(Record<'_>, Expiry)],
        done: impl FnMut(usize, bool),
    ) -> Result<(), BatchError> {
        in_chunks(records, done, |records, done| {
            self.put_stored(records.iter().copied(), done);
        })
    }

    /// Puts records for as long as each shall live, from now on.
    pub(crate) fn put_each_for<'r>(
        &self,
        records: impl Iterator<Item = (Record<'r>, Duration)>,
        mut done: impl FnMut(usize, Result<bool>),
    ) {
        let (now, mut numbers, mut ending) = (self.now_millis(), Vec::new(), Vec::new());
        for (number, (record, span)) in records.enumerate() {
            match ends_after(span, now) {
                Ok(expiry) => {
                    numbers.push(number);
                    ending.push((record, expiry));
                }
                Err(error) => done(number, Err(error)),
            }
        }
        self.put_stored(ending.into_iter(), |at, put| done(numbers[at], put));
    }

    /// Puts records with the moments at which they expire, all at once.
    fn put_stored<'r>(
        &self,
        records: impl Iterator<Item = (Record<'r>, Expiry)>,
        mut done: impl FnMut(usize, Result<bool>),
    ) {
        if let Err(error) = self.check_expiring() {
            return (0..records.count()).for_each(|number| done(number, Err(error.clone())));
        }
        let (mut all, mut stored) = (0, Vec::new());
        let since = self.session.now();
        let mut done = |number: usize, key: &[u8], put: Result<bool>| {
            let put = put.inspect_err(|error| self.session.failed(error));
            done(number, put.map_err(|error| self.explained(error, key)));
        };
        for (number, ((key, value), expiry)) in records.enumerate() {
            all += 1;
            match self.check_value(value) {
                Ok(()) => stored.push((number, key, expiry.stored(value))),
                Err(error) => done(number, key, Err(error)),
            }
        }
        let _under_way = self.session.begun(&SessionRequest::Puts(all));
        let puts = stored.iter();
        let puts: Vec<_> = puts
            .map(|(_, key, stored)| Operation::Put(key, stored))
            .collect();
        self.stored().run_many(None, &puts, &mut |outcomes| {
            outcomes.each_of(&puts, |at, outcome| {
                let (number, key, _) = &stored[at];
                done(*number, key, outcome.map(|outcome| outcome.is_changed()));
            });
        });
        self.session.did(SessionRequest::Puts(all), since);
    }

    /// The key's value, and how long it still has: nothing in place of a time if it does not
    /// expire.
    ///
    /// # Errors
    /// As [`Table::get`]. A table whose records have no time to live has values that do not expire.
    ///
    /// ```
    /// # use farslot::{Store, TableOptions};
    /// # use std::time::Duration;
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// # let store = Store::embedded()?;
    /// # store.create("sessions", &TableOptions::default())?;
    /// # let sessions = store.table("sessions")?;
    /// sessions.put(b"root", b"stays")?;
    /// let (value, left) = sessions.get_with_time_to_live(b"root")?.unwrap();
    /// assert_eq!((&value[..], left), (&b"stays"[..], None));
    /// # Ok(())
    /// # }
    /// ```
    pub fn get_with_time_to_live(&self, key: &[u8]) -> Result<Option<(Vec<u8>, Option<Duration>)>> {
        if !self.scheme().is_expiring() {
            return Ok(self.get(key)?.map(|value| (value, None)));
        }
        self.counted(Operation::Get(key), |session| {
            let now = self.now_millis();
            let found = session.get(key)?;
            let living = found
                .as_deref()
                .and_then(|found| Expiry::living(found, now));
            Ok(living.map(|(expiry, value)| (value.to_vec(), expiry.left(now))))
        })
    }

    /// Lets the key live so long from now on, or for ever, with the value that it has; false if it
    /// is absent. A key whose time ends before this has taken effect stays absent. To live longer
    /// than it would costs a round trip more than to live shorter.
    ///
    /// # Errors
    /// As [`Table::compare_and_set`] and [`Table::put_for`].
    ///
    /// ```
    /// # use farslot::{Store, TableOptions};
    /// # use std::time::Duration;
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// # let store = Store::embedded()?;
    /// # store.create("sessions", &TableOptions::default())?;
    /// # let sessions = store.table("sessions")?;
    /// sessions.put_for(b"ada", b"in", Duration::from_secs(60))?;
    /// assert!(sessions.set_time_to_live(b"ada", None)?, "it stays now");
    /// assert!(!sessions.set_time_to_live(b"bob", None)?, "there is none");
    /// # Ok(())
    /// # }
    /// ```
    pub fn set_time_to_live(&self, key: &[u8], time_to_live: Option<Duration>) -> Result<bool> {
        self.check_expiring()?;
        self.counted(Operation::Update(key, b""), |session| {
            let begun = self.now_millis();
            let expiry = time_to_live.map_or(Ok(Expiry::NEVER), |span| ends_after(span, begun))?;
            for _ in 0..MOST_ATTEMPTS {
                let now = self.now_millis();
                let found = session.get(key)?.map(Vec::from);
                let living = found
                    .as_deref()
                    .and_then(|found| Expiry::living(found, now));
                let (Some(found), Some((_, value))) = (&found, living) else {
                    return Ok(false);
                };
                let stored = expiry.stored(value);
                let replaced = session.run(Operation::Replace(key, found, &stored))?;
                if replaced.is_changed() {
                    return Ok(true);
                }
            }
            Err(contended())
        })
    }

    /// Removes all records that have expired, and returns how many these were. The memory's own
    /// process does so by itself ([`Store::sweeper`](crate::Store::sweeper)); what has expired is
    /// absent in any case.
    ///
    /// # Errors
    /// As [`Table::compare_and_remove`].
    ///
    /// ```
    /// # use farslot::{Store, TableOptions};
    /// # use std::time::Duration;
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// # let store = Store::embedded()?;
    /// # store.create("sessions", &TableOptions::default())?;
    /// # let sessions = store.table("sessions")?;
    /// sessions.put_for(b"ada", b"in", Duration::ZERO)?;
    /// sessions.put(b"root", b"stays")?;
    /// assert_eq!(sessions.remove_expired()?, 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn remove_expired(&self) -> Result<u64> {
        let (mut removed, mut cursor) = (0, Some(Cursor::default()));
        if !self.scheme().is_expiring() {
            return Ok(0);
        }
        while let Some(from) = cursor {
            let swept = self.sweep(from)?;
            (cursor, removed) = (swept.next, removed + swept.removed);
        }
        Ok(removed)
    }

    /// Removes the records of a short piece that have expired.
    pub(crate) fn sweep(&self, cursor: Cursor) -> Result<Swept> {
        let (session, now) = (self.stored(), self.now_millis());
        let (mut dead, mut some_expire) = (Vec::new(), false);
        let next = session.scan(cursor, SWEPT, &mut |key, stored| {
            let Some((expiry, _)) = Expiry::split(stored) else {
                return;
            };
            some_expire |= expiry != Expiry::NEVER;
            if expiry.is_past(now) {
                dead.push((key.to_vec(), stored.to_vec()));
            }
        })?;
        // A record that another has replaced meanwhile stays.
        let removals = dead.iter();
        let removals: Vec<_> = removals
            .map(|(key, stored)| Operation::RemoveIf(key, stored))
            .collect();
        let (mut removed, mut failed) = (0, None);
        session.run_many(None, &removals, &mut |outcomes| {
            outcomes.each_of(&removals, |_, outcome| match outcome {
                Ok(outcome) => removed += u64::from(outcome.is_changed()),
                Err(error) => failed = Some(error),
            });
        });
        if let Some(error) = failed {
            return Err(error);
        }
        if removed > 0 {
            session.client().admin(Admin::Flush)?;
        }
        Ok(Swept {
            next,
            removed,
            some_expire,
        })
    }

    /// Does what was asked for with the table as it is stored, so that it counts as this operation.
    fn counted<T>(
        &self,
        operation: Operation<'_>,
        does: impl FnOnce(&dyn Session) -> Result<T>,
    ) -> Result<T> {
        let (since, asked) = (self.session.now(), SessionRequest::One(operation));
        let _under_way = self.session.begun(&asked);
        let done = does(self.stored());
        self.session.did(asked, since);
        let explain = |error| self.explained(error, operation.key());
        self.noted(done).map_err(explain)
    }

    /// The session with the table as it is stored.
    fn stored(&self) -> &dyn Session {
        self.session.beneath().unwrap_or(&*self.session)
    }

    /// Milliseconds by the clock that records expire by.
    fn now_millis(&self) -> u64 {
        self.clock.now(|| self.session.now())
    }

    fn check_expiring(&self) -> Result<()> {
        match self.scheme().is_expiring() {
            true => Ok(()),
            false => Err(StoreError::NotExpiring {
                name: self.name().into(),
            }),
        }
    }

    /// Refuses a value that does not fit, with the size that the table was made for.
    fn check_value(&self, value: &[u8]) -> Result<()> {
        let (_, allowed) = self.scheme().record_sizes();
        Ok(allowed.check_value(value)?)
    }
}

/// Puts a batch by `put`, so many records at a time; `done` is told of those that did not fail.
fn in_chunks<'r, R>(
    records: &'r [R],
    mut done: impl FnMut(usize, bool),
    put: impl Fn(&'r [R], &mut dyn FnMut(usize, Result<bool>)),
) -> Result<(), BatchError> {
    let mut failed = FailedOperations::default();
    for (chunk, records) in records.chunks(OPERATIONS_A_CHUNK).enumerate() {
        put(records, &mut |number, put| {
            let number = chunk * OPERATIONS_A_CHUNK + number;
            if let Some(is_new) = failed.noted(number, put) {
                done(number, is_new);
            }
        });
    }
    failed.of(records.len())
}

/// The end of a record that lives so long from a moment on.
fn ends_after(time_to_live: Duration, now: u64) -> Result<Expiry> {
    if time_to_live <= Expiry::LONGEST {
        return Ok(Expiry::after(time_to_live, now));
    }
    let days = Expiry::LONGEST.as_secs() / 86_400;
    let limit = format!("at most {days} days");
    Err(bad_option(
        "time to live",
        format!("{time_to_live:?}"),
        limit,
    ))
}
