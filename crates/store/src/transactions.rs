//! Transactions over the tables of a store that their owners write (paper 003, section 5.4).
//!
//! Each thread has a client of its own for the transactions of a store: an endpoint, the tables that
//! transactions have named, and what it remembers of them. It keeps that until a transaction meets
//! a table that is gone or a node that has come back; or, of a store that is gone, until its next
//! transaction on another.

use crate::catalog::{TableRecord, table_at};
use crate::lease::Leased;
use crate::owned::table::{database, store_error};
use crate::slot_map::SlotMap;
use crate::spread::{Found, find};
use crate::store::Inner;
use crate::{Result, Store, StoreError};
use farslot_fabric::{Endpoint, Executor, FabricError, NodeId, RegionId, RemoteAddr};
use farslot_index::FieldSize;
use farslot_remote::ObjectId;
use farslot_txn::{Attempts, Database, Locking, TableId, TxnError};
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::{Arc, Weak};

/// How a transaction ends, or what is done for one.
type Ended<T> = std::result::Result<T, Failure>;
type Open<'t> = farslot_txn::Transaction<'t, Leased>;

/// A key and its value.
pub type Pair = (Vec<u8>, Vec<u8>);

/// After so many failures a transaction locks what it reads, and what it writes when it does: so
/// that one that reads much comes to its end beside those that write little.
const LOCKS_AFTER: u32 = 4;
/// The place of a failure before any table was used.
const START: RemoteAddr = RemoteAddr {
    node: NodeId(0),
    region: RegionId(0),
    offset: 0,
};

thread_local! {
    /// This thread's clients, of each store that it runs transactions on.
    static CLIENTS: RefCell<Vec<(Weak<Inner>, Rc<TransactionClient>)>> =
        const { RefCell::new(Vec::new()) };
}

/// A thread's client for the transactions of a store.
struct TransactionClient {
    executor: Executor<Leased>,
    database: Database<Leased>,
    tables: RefCell<HashMap<String, Rc<Known>>>,
}

/// A table that transactions have named.
struct Known {
    /// Which part a key belongs to, of a table over several nodes.
    slots: Option<SlotMap>,
    /// The parts, or why one could not be found.
    parts: Vec<Result<Part>>,
}

#[derive(Clone, Copy)]
struct Part {
    table: TableId,
    at: RemoteAddr,
    key: FieldSize,
    value: FieldSize,
}

impl Known {
    fn part_of(&self, key: &[u8]) -> Ended<Part> {
        let number = self
            .slots
            .as_ref()
            .map_or(0, |slots| slots.partition_of(key));
        let part = self.parts[usize::from(number)].clone();
        let part = part.map_err(Failure::Unfound)?;
        part.key.check_key(key)?;
        Ok(part)
    }
}

impl Part {
    /// The first key from this one on that the part may have; nothing if there is none.
    fn first_from(self, key: &[u8]) -> Option<Vec<u8>> {
        if key.len() <= self.key.most() {
            return Some(key.to_vec());
        }
        let longest = &key[..self.key.most()];
        let last = longest.iter().rposition(|byte| *byte < u8::MAX)?;
        let mut next = longest[..=last].to_vec();
        next[last] += 1;
        Some(next)
    }
}

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
    pub fn transaction<T>(
        &self,
        mut body: impl FnMut(&mut Transaction<'_>) -> Result<T>,
    ) -> Result<T> {
        let (client, is_new) = self.transaction_client()?;
        let mut end = self.run(&client, &mut body);
        if matches!(end, Err(Failure::Unfound(_))) && !is_new {
            // What could not be found once may be there by now.
            self.forget_client();
            let (client, _) = self.transaction_client()?;
            end = self.run(&client, &mut body);
        }
        let error = match end {
            Ok(done) => return Ok(done),
            Err(failure) => failure.error(),
        };
        if let StoreError::Node { .. }
        | StoreError::Fabric(
            FabricError::Reclaimed { .. }
            | FabricError::NodeRestarted { .. }
            | FabricError::NodeStopped { .. },
        ) = error
        {
            self.forget_client();
        }
        Err(error)
    }

    /// Runs a transaction until it ends otherwise than by a conflict.
    fn run<T>(
        &self,
        client: &TransactionClient,
        body: &mut impl FnMut(&mut Transaction<'_>) -> Result<T>,
    ) -> Ended<T> {
        let mut attempts = Attempts::new(&client.database);
        loop {
            let mut transaction = Transaction {
                store: self,
                client,
                open: client.database.begin_locking(match attempts.failed() {
                    ..LOCKS_AFTER => Locking::Commit,
                    LOCKS_AFTER.. => Locking::Execution,
                }),
                failed: None,
                touched: None,
            };
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

    /// This thread's client, opened if there is none; and whether it was.
    fn transaction_client(&self) -> Result<(Rc<TransactionClient>, bool)> {
        CLIENTS.with_borrow_mut(|clients| {
            clients.retain(|(store, _)| store.strong_count() > 0);
            let own = clients.iter().find(|(store, _)| self.is(store));
            if let Some((_, client)) = own {
                return Ok((Rc::clone(client), false));
            }
            let executor = self.executor()?;
            let database = database(executor.endpoint(), self.0.seeds.next());
            let client = Rc::new(TransactionClient {
                database: database.map_err(|error| store_error(error, START))?,
                executor,
                tables: RefCell::default(),
            });
            clients.push((Arc::downgrade(&self.0), Rc::clone(&client)));
            Ok((client, true))
        })
    }

    /// Forgets what this thread knows of tables and nodes: one is gone, has come back, or is not
    /// reached.
    fn forget_client(&self) {
        CLIENTS.with_borrow_mut(|clients| clients.retain(|(store, _)| !self.is(store)));
    }

    fn is(&self, store: &Weak<Inner>) -> bool {
        std::ptr::eq(store.as_ptr(), Arc::as_ptr(&self.0))
    }

    /// A table by its name.
    fn known(&self, client: &TransactionClient, name: &str) -> Result<Rc<Known>> {
        if let Some(known) = client.tables.borrow().get(name) {
            return Ok(Rc::clone(known));
        }
        let (endpoint, nodes) = (client.executor.endpoint(), &self.0.sessions.nodes);
        let since = endpoint.now();
        let open = |node: NodeId, record: &TableRecord| {
            let at = table_at(node, record);
            let Some(structure) = record.scheme.owned_at(at.offset) else {
                return Err(StoreError::NotTransactional {
                    name: name.into(),
                    scheme: record.scheme.name(),
                });
            };
            endpoint.lease_besides(node, record, since);
            let table = client
                .database
                .add_table(node.0 as u8, ObjectId(record.id), structure);
            let table = table.map_err(|error| store_error(error, at))?;
            let (key, value) = record.scheme.record_sizes();
            Ok(Part {
                table,
                at,
                key,
                value,
            })
        };
        let finding = find(&**endpoint, nodes, name);
        let known = match client.executor.block_on(finding)? {
            Found::Whole(node, record) => Known {
                slots: None,
                parts: vec![Ok(open(node, &record)?)],
            },
            Found::Spread(table) => {
                let parts = table.places.iter().map(|place| match &place.record {
                    Some(record) => open(place.node, record).map(Ok),
                    None => {
                        let expected = 0;
                        let node = place.node;
                        let lost = FabricError::NodeRestarted { node, expected };
                        let why = place.unreachable.clone().unwrap_or(lost);
                        Ok(Err(nodes.named(node, StoreError::Fabric(why))))
                    }
                });
                Known {
                    parts: parts.collect::<Result<_>>()?,
                    slots: Some(table.map.slots),
                }
            }
        };
        let known = Rc::new(known);
        let mut tables = client.tables.borrow_mut();
        tables.insert(name.into(), Rc::clone(&known));
        Ok(known)
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
}

impl<E: Into<StoreError>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::Other(error.into())
    }
}

/// A transaction under way ([`Store::transaction`]). It sees what it has changed itself; others see
/// nothing of it before it is committed.
pub struct Transaction<'t> {
    store: &'t Store,
    client: &'t TransactionClient,
    open: Open<'t>,
    /// The first failure, whatever the body makes of it.
    failed: Option<Failure>,
    /// The last table that it has used.
    touched: Option<RemoteAddr>,
}

impl std::fmt::Debug for Transaction<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Transaction")
            .field("failed", &self.failed)
            .finish_non_exhaustive()
    }
}

impl<'t> Transaction<'t> {
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

    /// The first `most` pairs of an ordered table from a key on, in order. The key need not be one
    /// that the table can have: to go on behind a pair, scan from its key with a byte of 0 behind
    /// it. Nothing comes into the range, or leaves it, before the transaction is committed: such a
    /// change is a conflict.
    ///
    /// # Errors
    /// See [`Transaction::get`]; that the table has no order.
    pub fn scan(&mut self, table: &str, from: &[u8], most: usize) -> Result<Vec<Pair>> {
        let parts = self.noted(|client, store| {
            let known = store.known(client, table)?;
            let parts = known.parts.iter().cloned();
            parts.collect::<Result<Vec<_>>>().map_err(Failure::Unfound)
        })?;
        let mut found = Vec::new();
        for part in &parts {
            let Some(first) = part.first_from(from) else {
                continue;
            };
            let work = async |open: &mut Open<'t>| open.scan(part.table, &first, most).await;
            found.extend(self.step(*part, work)?);
        }
        if parts.len() > 1 {
            found.sort_unstable();
            found.truncate(most);
        }
        Ok(found)
    }

    /// Gives up all that it has changed: what its body returns then is returned without a commit.
    pub fn abort(&mut self) {
        self.client.executor.block_on(self.open.abort());
    }

    /// What is done before a step, unless the transaction has failed: a failure is one of all of
    /// it.
    fn noted<T>(&mut self, work: impl FnOnce(&TransactionClient, &Store) -> Ended<T>) -> Result<T> {
        let done = match &self.failed {
            None => work(self.client, self.store),
            Some(failed) => return Err(failed.clone().error()),
        };
        done.map_err(|failure| self.failed.insert(failure).clone().error())
    }

    /// The part of a table to which a key belongs, which admits the key and a new value of it.
    fn part(&mut self, table: &str, key: &[u8], value: Option<&[u8]>) -> Result<Part> {
        self.noted(|client, store| {
            let part = store.known(client, table)?.part_of(key)?;
            value.map_or(Ok(()), |value| part.value.check_value(value))?;
            Ok(part)
        })
    }

    fn step<T>(
        &mut self,
        part: Part,
        work: impl AsyncFnOnce(&mut Open<'t>) -> std::result::Result<T, TxnError>,
    ) -> Result<T> {
        self.touched = Some(part.at);
        let done = self.client.executor.block_on(work(&mut self.open));
        done.map_err(|error| {
            let failure = Failure::Step(error, part.at);
            self.failed.insert(failure).clone().error()
        })
    }

    fn end<T>(mut self, end: Result<T>) -> Ended<T> {
        let executor = &self.client.executor;
        let is_aborted = self.open.is_ended();
        // Whatever the body made of a failure.
        let end = match self.failed.take() {
            Some(failure) => Err(failure),
            None => end.map_err(Failure::Other),
        };
        match end {
            Ok(done) if is_aborted => Ok(done),
            Ok(done) => match executor.block_on(self.open.commit()) {
                Ok(()) => Ok(done),
                Err(error) => Err(Failure::Step(error, self.touched.unwrap_or(START))),
            },
            Err(failure) => {
                if !is_aborted {
                    executor.block_on(self.open.abort());
                }
                Err(failure)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scan_goes_on_behind_the_longest_keys() {
        let part = Part {
            table: TableId(0),
            at: START,
            key: FieldSize::UpTo(2),
            value: FieldSize::UpTo(0),
        };
        for (from, first) in [
            (&b""[..], Some(&b""[..])),
            (b"ab", Some(b"ab")),
            (b"ab\0", Some(b"ac")),
            (b"a\xff\0", Some(b"b")),
            (b"\xff\xff", Some(b"\xff\xff")),
            (b"\xff\xff\0", None),
        ] {
            assert_eq!(part.first_from(from).as_deref(), first, "{from:?}");
        }
    }

    #[test]
    fn nothing_is_kept_of_a_table_that_is_gone() {
        let store = Store::embedded().unwrap();
        let options = crate::TableOptions::new(10).chained();
        let kept = || CLIENTS.with_borrow(|clients| clients.iter().any(|(of, _)| store.is(of)));
        let put = || store.transaction(|t| t.put("t", b"a", b"1"));
        store.create("t", &options).unwrap();
        put().unwrap();
        assert!(kept());
        store.drop_table("t").unwrap();
        store.create("t", &options).unwrap();
        assert_eq!(put().unwrap_err().kind(), crate::ErrorKind::TableGone);
        assert!(!kept());
        put().unwrap();
    }
}
