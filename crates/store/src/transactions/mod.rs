//! Transactions over the tables of a store that their owners write (paper 003, section 5.4).
//!
//! Each thread has a client of its own for the transactions of a store (`client.rs`): an endpoint,
//! the tables that transactions have named, and what it remembers of them. It keeps that until a
//! transaction meets a table that is gone or a node that has come back; or, of a store that is
//! gone, until its next transaction on another.

mod client;

use self::client::{Part, START, TransactionClient, TransactionTable};
use crate::lease::Leased;
use crate::owned::table::store_error;
use crate::{Result, Store, StoreError, TableRecord};
use farslot_fabric::{FabricError, RemoteAddr};
use farslot_index::SchemeKind;
use farslot_remote::ordered::{KeyRange, Pair};
use farslot_txn::{Attempts, Locking, TxnError};
use std::rc::Rc;

/// How a transaction ends, or what is done for one.
type TransactionResult<T> = std::result::Result<T, Failure>;
type OpenTransaction = farslot_txn::Transaction<'static, Leased>;

/// After so many failures a transaction locks what it reads, and what it writes when it does: so
/// that one that reads much comes to its end beside those that write little.
const LOCKS_AFTER: u32 = 4;

impl Store {
    /// Runs a transaction over any [chained](crate::TableOptions::chained) and
    /// [ordered](crate::TableOptions::ordered) tables of the store, on any of its nodes: strictly
    /// serializable, all of it or nothing. A `body` that another transaction was in the way of is
    /// run again, after pauses that grow, up to a thousand times: it must do nothing else that
    /// cannot be done twice. One that returns an error, or that has called
    /// [`Transaction::abort`], changes nothing.
    ///
    /// All clients must list the store's nodes in the same order.
    ///
    /// # Errors
    /// That of `body`. [`StoreError::NotTransactional`] of a table of another scheme;
    /// [`Contended`](crate::ErrorKind::Contended) if others were in the way each time; what the
    /// fabric says. [`StoreError::may_have_taken_effect`] says whether it may be committed all the
    /// same, as a whole.
    ///
    /// ```
    /// # use farslot::{FieldSize, Store, TableOptions};
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// # let cents = |bytes: Option<Vec<u8>>| bytes.map_or(0, |bytes| bytes[0]);
    /// let store = Store::embedded()?;
    /// let accounts = TableOptions::new(1_000).values(FieldSize::UpTo(8)).chained();
    /// store.create("accounts", &accounts)?;
    /// store.table("accounts")?.put(b"Ann", &[100])?;
    /// store.transaction(|t| {
    ///     let from = cents(t.get("accounts", b"Ann")?);
    ///     let to = cents(t.get("accounts", b"Bob")?);
    ///     t.put("accounts", b"Ann", &[from - 15])?;
    ///     t.put("accounts", b"Bob", &[to + 15])
    /// })?;
    /// assert_eq!(store.table("accounts")?.get(b"Bob")?.as_deref(), Some(&[15][..]));
    /// # Ok(())
    /// # }
    /// ```
    pub fn transaction<T>(&self, mut body: impl FnMut(&mut Transaction) -> Result<T>) -> Result<T> {
        let (client, is_new) = self.transaction_client()?;
        let mut end = self.run(&client, &mut body);
        if matches!(end, Err(Failure::Unfound(_))) && !is_new {
            // What could not be found once may be there by now.
            let (client, _) = self.transaction_client()?;
            end = self.run(&client, &mut body);
        }
        end.map_err(Failure::error)
    }

    /// Begins a transaction for a program that has no closure to hand over: it ends with
    /// [`Transaction::commit`], and changes nothing if it is dropped before. It is not run again
    /// after a conflict: if a step of it or its commit fails with [`StoreError::Conflict`], begin
    /// anew.
    ///
    /// # Errors
    /// What the fabric says.
    ///
    /// ```
    /// # use farslot::{FieldSize, Store, StoreError, TableOptions};
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// let store = Store::embedded()?;
    /// let counts = TableOptions::new(1_000).values(FieldSize::UpTo(8)).chained();
    /// store.create("counts", &counts)?;
    /// let mut t = store.begin()?;
    /// let visits = t.get("counts", b"visits")?.map_or(0, |bytes| bytes[0]);
    /// t.put("counts", b"visits", &[visits + 1])?;
    /// match t.commit() {
    ///     Err(StoreError::Conflict { .. }) => println!("another was faster"),
    ///     ended => ended?,
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn begin(&self) -> Result<Transaction> {
        let (client, _) = self.transaction_client()?;
        Ok(Transaction::new(self, &client, Locking::Commit))
    }

    /// Runs a transaction until it ends otherwise than by a conflict.
    fn run<T>(
        &self,
        client: &Rc<TransactionClient>,
        body: &mut impl FnMut(&mut Transaction) -> Result<T>,
    ) -> TransactionResult<T> {
        let mut attempts = Attempts::new(&client.database);
        loop {
            let locking = match attempts.failed() {
                ..LOCKS_AFTER => Locking::Commit,
                LOCKS_AFTER.. => Locking::Execution,
            };
            let mut transaction = Transaction::new(self, client, locking);
            let end = body(&mut transaction);
            match transaction.end(end) {
                Err(Failure::Step(error, _)) if attempts.has_another_after(&error) => {
                    log::debug!("a transaction is run again: {error}");
                }
                end => return end,
            }
            client.executor.block_on(attempts.pause());
        }
    }
}

/// Why a transaction changes nothing.
#[derive(Clone, Debug)]
enum Failure {
    /// A step has failed, or the commit, at a table.
    Step(TxnError, RemoteAddr),
    /// A part of a table could not be found.
    Unfound(StoreError),
    /// Any other reason: the body's own, a key that its table does not have, a table that is none
    /// of transactions.
    Other(StoreError),
}

impl Failure {
    fn error(self) -> StoreError {
        match self {
            Self::Step(error, at) => store_error(error, at),
            Self::Unfound(error) | Self::Other(error) => error,
        }
    }

    /// Whether what the client knows is old: a table is gone, a node has come back, or is not
    /// reached.
    fn is_of_old_client(&self) -> bool {
        let error = self.clone().error();
        matches!(self, Self::Unfound(_))
            || matches!(
                error,
                StoreError::Node { .. }
                    | StoreError::Fabric(
                        FabricError::Reclaimed { .. }
                            | FabricError::NodeRestarted { .. }
                            | FabricError::NodeStopped { .. },
                    )
            )
    }
}

impl<E: Into<StoreError>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::Other(error.into())
    }
}

/// A transaction under way ([`Store::transaction`]), of one thread. It sees what it has changed
/// itself; others see nothing of it before it is committed.
pub struct Transaction {
    store: Store,
    client: Rc<TransactionClient>,
    open: OpenTransaction,
    /// The first failure, whatever the body makes of it.
    failed: Option<Failure>,
    /// The last table that it has used.
    touched: Option<RemoteAddr>,
}

impl std::fmt::Debug for Transaction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Transaction")
            .field("failed", &self.failed)
            .finish_non_exhaustive()
    }
}

impl Transaction {
    fn new(store: &Store, client: &Rc<TransactionClient>, locking: Locking) -> Self {
        Self {
            store: store.clone(),
            client: Rc::clone(client),
            open: client.database.begin_shared(locking),
            failed: None,
            touched: None,
        }
    }

    /// The key's value. A key that is read twice has the same value twice.
    ///
    /// # Errors
    /// What the transaction fails with, which its body is to return; so do all that follow.
    pub fn get(&mut self, table: &str, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let part = self.part(table, key, None)?;
        let keys = [(part.table, key)];
        let values = self.step(part, async |open| open.read_for_update(&keys).await);
        Ok(values?.pop().flatten())
    }

    /// The values of keys, of any tables, read side by side.
    ///
    /// # Errors
    /// See [`Transaction::get`].
    pub fn get_many(&mut self, keys: &[(&str, &[u8])]) -> Result<Vec<Option<Vec<u8>>>> {
        let parts = keys.iter().map(|(table, key)| self.part(table, key, None));
        let parts = parts.collect::<Result<Vec<_>>>()?;
        let Some(first) = parts.first().copied() else {
            return Ok(Vec::new());
        };
        let keys = parts
            .iter()
            .zip(keys)
            .map(|(part, (_, key))| (part.table, *key));
        let keys: Vec<_> = keys.collect();
        self.step(first, async |open| open.read_for_update(&keys).await)
    }

    /// Sets the key's value, whether it is there or not.
    ///
    /// # Errors
    /// See [`Transaction::get`].
    pub fn put(&mut self, table: &str, key: &[u8], value: &[u8]) -> Result<()> {
        let part = self.part(table, key, Some(value))?;
        self.step(part, async |open| open.write(part.table, key, value).await)
    }

    /// Sets the value of an absent key. Returns `false`, and changes nothing, if the key is there.
    ///
    /// # Errors
    /// See [`Transaction::get`].
    pub fn insert(&mut self, table: &str, key: &[u8], value: &[u8]) -> Result<bool> {
        let part = self.part(table, key, Some(value))?;
        self.step(part, async |open| open.insert(part.table, key, value).await)
    }

    /// Removes the key. Returns `false` if it was absent.
    ///
    /// # Errors
    /// See [`Transaction::get`].
    pub fn remove(&mut self, table: &str, key: &[u8]) -> Result<bool> {
        let part = self.part(table, key, None)?;
        self.step(part, async |open| open.remove(part.table, key).await)
    }

    /// The first `most` pairs of a range of an ordered table's keys, in its direction. Its bounds
    /// need not be keys that the table can have: to go on behind a pair, scan from its key with a
    /// byte of 0 behind it; to go on below one, scan up to its key. Nothing comes into the range,
    /// or leaves it, before the transaction is committed: such a change is a conflict.
    ///
    /// # Errors
    /// See [`Transaction::get`]; [`StoreError::NotOrdered`] of a table of another scheme.
    ///
    /// ```
    /// # use farslot::{KeyRange, Store, TableOptions};
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// let store = Store::embedded()?;
    /// store.create("ledger", &TableOptions::new(1_000).ordered())?;
    /// let ledger = store.table("ledger")?;
    /// for day in [b"2026-10-31", b"2026-11-01", b"2026-11-29", b"2026-12-01"] {
    ///     ledger.put(day, b"")?;
    /// }
    /// let november = KeyRange::from(b"2026-11").to(b"2026-12");
    /// let last = store.transaction(|t| t.scan("ledger", november.reversed(), 1))?;
    /// assert_eq!(last[0].0, b"2026-11-29");
    /// assert_eq!(store.transaction(|t| t.scan("ledger", b"2026-11", 100))?.len(), 3);
    /// # Ok(())
    /// # }
    /// ```
    pub fn scan<'k>(
        &mut self,
        table: &str,
        range: impl Into<KeyRange<'k>>,
        most: usize,
    ) -> Result<Vec<Pair>> {
        let range = range.into();
        let parts = self.noted(table, |known| {
            let parts = known.parts.iter().cloned();
            let parts = parts.collect::<Result<Vec<_>>>();
            let parts = parts.map_err(Failure::Unfound)?;
            match known.is_ordered {
                true => Ok(parts),
                false => Err(StoreError::NotOrdered { name: table.into() }.into()),
            }
        });
        let parts = parts.map_err(|error| match error {
            // A copy that takes part in transactions would have no order either; a queue has no
            // keys.
            StoreError::NotTransactional { name, scheme } if scheme != SchemeKind::Queue.name() => {
                self.fail(StoreError::NotOrdered { name }.into())
            }
            error => error,
        })?;
        let mut found = Vec::new();
        for part in &parts {
            let Some(from) = part.first_from(range.from) else {
                continue;
            };
            let to = range.to.and_then(|to| part.first_from(to));
            let range = KeyRange {
                from: &from,
                to: to.as_deref(),
                ..range
            };
            let work = async |open: &mut OpenTransaction| open.scan(part.table, range, most).await;
            found.extend(self.step(*part, work)?);
        }
        if parts.len() > 1 {
            found.sort_unstable();
            if range.is_reversed {
                found.reverse();
            }
            found.truncate(most);
        }
        Ok(found)
    }

    /// Whether the table of a record's name is the one that the record tells of, and not one that
    /// was made under its name since.
    ///
    /// # Errors
    /// See [`Transaction::get`].
    pub fn is_table_of(&mut self, record: &TableRecord) -> Result<bool> {
        let is_same = |known: &TransactionTable| Ok(known.identity == Some(record.identity()));
        if self.noted(&record.name, is_same)? {
            return Ok(true);
        }
        // The one that this thread knows may be gone.
        self.client.forget(&record.name);
        self.noted(&record.name, is_same)
    }

    /// Commits. Once this returns, all that begins later sees every change; of one that was aborted
    /// there is none. [`Store::transaction`] does it itself.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] if another transaction was in the way, and what a step has failed
    /// with: nothing is changed. All others: see [`Store::transaction`].
    pub fn commit(self) -> Result<()> {
        self.end(Ok(())).map_err(Failure::error)
    }

    /// Gives up all that it has changed: what its body returns then is returned without a commit.
    pub fn abort(&mut self) {
        self.client.executor.block_on(self.open.abort());
    }

    /// Does something with a table, unless the transaction has failed: a failure is one of all of
    /// it.
    fn noted<T>(
        &mut self,
        table: &str,
        work: impl FnOnce(&TransactionTable) -> TransactionResult<T>,
    ) -> Result<T> {
        if let Some(failed) = &self.failed {
            return Err(failed.clone().error());
        }
        let known = self.client.known(&self.store.0.sessions.nodes, table);
        let done = known.map_err(Failure::Other);
        let done = done.and_then(|known| work(&known));
        done.map_err(|failure| self.fail(failure))
    }

    /// Notes a failure.
    fn fail(&mut self, failure: Failure) -> StoreError {
        if failure.is_of_old_client() {
            self.store.close_transactions();
        }
        self.failed.insert(failure).clone().error()
    }

    /// The part of a table to which a key belongs, which admits the key and a new value of it.
    fn part(&mut self, table: &str, key: &[u8], value: Option<&[u8]>) -> Result<Part> {
        self.noted(table, |known| {
            let part = known.part_of(key).map_err(Failure::Unfound)?;
            part.key.check_key(key)?;
            value.map_or(Ok(()), |value| part.value.check_value(value))?;
            Ok(part)
        })
    }

    fn step<T>(
        &mut self,
        part: Part,
        work: impl AsyncFnOnce(&mut OpenTransaction) -> std::result::Result<T, TxnError>,
    ) -> Result<T> {
        self.touched = Some(part.at);
        let done = self.client.executor.block_on(work(&mut self.open));
        done.map_err(|error| self.fail(Failure::Step(error, part.at)))
    }

    fn end<T>(mut self, end: Result<T>) -> TransactionResult<T> {
        let client = Rc::clone(&self.client);
        let is_aborted = self.open.is_ended();
        // Whatever the body made of a failure.
        let end = match self.failed.take() {
            Some(failure) => Err(failure),
            None => end.map_err(Failure::Other),
        };
        match end {
            Ok(done) if is_aborted => Ok(done),
            Ok(done) => match client.executor.block_on(self.open.commit()) {
                Ok(()) => Ok(done),
                Err(error) => {
                    let failure = Failure::Step(error, self.touched.unwrap_or(START));
                    if failure.is_of_old_client() {
                        self.store.close_transactions();
                    }
                    Err(failure)
                }
            },
            Err(failure) => {
                if !is_aborted {
                    client.executor.block_on(self.open.abort());
                }
                Err(failure)
            }
        }
    }
}
