//! What a thread keeps for the transactions of a store.

use crate::catalog::record::Scheme;
use crate::catalog::{TableRecord, table_at};
use crate::lease::Leased;
use crate::nodes::StoreNodes;
use crate::owned::table::{database, store_error};
use crate::sharded::{LocatedTable, find};
use crate::slot_map::SlotMap;
use crate::store::StoreInner;
use crate::{Result, Store, StoreError};
use farslot_fabric::{Endpoint, Executor, FabricError, NodeId, RegionId, RemoteAddr};
use farslot_index::FieldSize;
use farslot_remote::ObjectId;
use farslot_txn::{Database, Kept, TableId};
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::{Arc, Weak};

/// The place of a failure before any table was used.
pub(super) const START: RemoteAddr = RemoteAddr {
    node: NodeId(0),
    region: RegionId(0),
    offset: 0,
};

thread_local! {
    /// This thread's clients, of each store that it runs transactions on.
    static CLIENTS: RefCell<Vec<(Weak<StoreInner>, Rc<TransactionClient>)>> =
        const { RefCell::new(Vec::new()) };
}

/// A thread's client for the transactions of a store.
pub(super) struct TransactionClient {
    pub(super) executor: Executor<Leased>,
    pub(super) database: Rc<Database<Leased>>,
    tables: RefCell<HashMap<String, Rc<TransactionTable>>>,
    /// The parts of all tables that were ever named, by their nodes and numbers: a transaction that
    /// finds a table again goes on with the part that it has.
    parts: RefCell<HashMap<(NodeId, u64), Part>>,
}

/// A table that transactions have named.
pub(super) struct TransactionTable {
    /// What tells it from others of its name.
    pub(super) identity: Option<u64>,
    pub(super) is_ordered: bool,
    /// Which part a key belongs to, of a table over several nodes.
    slots: Option<SlotMap>,
    /// The parts, or why one could not be found.
    pub(super) parts: Vec<Result<Part>>,
}

fn is_ordered(record: &TableRecord) -> bool {
    matches!(record.scheme, Scheme::Ordered(_))
}

#[derive(Clone, Copy)]
pub(super) struct Part {
    pub(super) table: TableId,
    pub(super) at: RemoteAddr,
    pub(super) key: FieldSize,
    pub(super) value: FieldSize,
}

impl TransactionTable {
    /// The part to which a key belongs.
    pub(super) fn part_of(&self, key: &[u8]) -> Result<Part> {
        let slots = self.slots.as_ref();
        let number = slots.map_or(0, |slots| slots.partition_of(key));
        self.parts[usize::from(number)].clone()
    }
}

impl Part {
    /// The first key from this one on that the part may have; nothing if there is none.
    pub(super) fn first_from(self, key: &[u8]) -> Option<Vec<u8>> {
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
    /// This thread's client, opened if there is none; and whether it was.
    pub(super) fn transaction_client(&self) -> Result<(Rc<TransactionClient>, bool)> {
        CLIENTS.with_borrow_mut(|clients| {
            clients.retain(|(store, _)| store.strong_count() > 0);
            let known = clients.iter().find(|(store, _)| self.is(store));
            if let Some((_, client)) = known {
                return Ok((Rc::clone(client), false));
            }
            let executor = self.executor()?;
            let access = self.0.sessions.options.access;
            let database = database(executor.endpoint(), access, self.0.seeds.next());
            let database = database.map_err(|error| store_error(error, START))?;
            let client = Rc::new(TransactionClient {
                database: Rc::new(database),
                executor,
                tables: RefCell::default(),
                parts: RefCell::default(),
            });
            clients.push((Arc::downgrade(&self.0), Rc::clone(&client)));
            Ok((client, true))
        })
    }

    /// Closes what the calling thread keeps for transactions of the store: connections, and what
    /// it knows of tables. Its next transaction opens it again.
    pub fn close_transactions(&self) {
        // A thread that ends may close its clients before it drops the store.
        let _ = CLIENTS.try_with(|clients| {
            let mut clients = clients.borrow_mut();
            clients.retain(|(store, _)| !self.is(store));
        });
    }

    /// Forgets, in a process that was forked, what its thread keeps for transactions from the
    /// parent: closed here, connections would send what the parent has queued.
    #[doc(hidden)]
    pub fn forget_transactions() {
        let _ = CLIENTS.try_with(|clients| std::mem::forget(clients.take()));
    }

    fn is(&self, store: &Weak<StoreInner>) -> bool {
        std::ptr::eq(store.as_ptr(), Arc::as_ptr(&self.0))
    }
}

impl TransactionClient {
    /// Has a table found by its name again, when it is named next.
    pub(super) fn forget(&self, name: &str) {
        self.tables.borrow_mut().remove(name);
    }

    /// A table by its name.
    pub(super) fn known(&self, nodes: &StoreNodes, name: &str) -> Result<Rc<TransactionTable>> {
        if let Some(known) = self.tables.borrow().get(name) {
            return Ok(Rc::clone(known));
        }
        let endpoint = self.executor.endpoint();
        let since = endpoint.now();
        let open = |node: NodeId, record: &TableRecord| {
            if let Some(part) = self.parts.borrow().get(&(node, record.id)) {
                return Ok(*part);
            }
            let at = table_at(node, record);
            let kept = record.scheme.owned_at(at.offset);
            let Some(structure) = kept.and_then(Kept::keyed) else {
                return Err(StoreError::NotTransactional {
                    name: name.into(),
                    scheme: record.scheme.name(),
                });
            };
            endpoint.lease_besides(node, record, since);
            let table = self
                .database
                .add_table(node.0 as u8, ObjectId(record.id), structure);
            let table = table.map_err(|error| store_error(error, at))?;
            let (key, value) = record.scheme.record_sizes();
            let part = Part {
                table,
                at,
                key,
                value,
            };
            self.parts.borrow_mut().insert((node, record.id), part);
            Ok(part)
        };
        let finding = find(&**endpoint, nodes, name);
        let known = match self.executor.block_on(finding)? {
            LocatedTable::Whole(node, record) => TransactionTable {
                identity: Some(record.identity()),
                is_ordered: is_ordered(&record),
                slots: None,
                parts: vec![Ok(open(node, &record)?)],
            },
            LocatedTable::Sharded(table) => {
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
                let records = table.places.iter();
                let record = records.filter_map(|place| place.record.as_ref()).next();
                TransactionTable {
                    identity: record.map(TableRecord::identity),
                    is_ordered: record.is_some_and(is_ordered),
                    parts: parts.collect::<Result<_>>()?,
                    slots: Some(table.map.slots),
                }
            }
        };
        let known = Rc::new(known);
        let mut tables = self.tables.borrow_mut();
        tables.insert(name.into(), Rc::clone(&known));
        Ok(known)
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

    /// A store that closes its thread's client when it is dropped, as those of Python do.
    struct Closes(Store);

    impl Drop for Closes {
        fn drop(&mut self) {
            self.0.close_transactions();
        }
    }

    #[test]
    fn a_store_may_be_closed_before_or_behind_the_clients_of_a_thread_that_ends() {
        thread_local! {
            static FIRST: RefCell<Option<Closes>> = const { RefCell::new(None) };
            static LAST: RefCell<Option<Closes>> = const { RefCell::new(None) };
        }
        let store = Store::embedded().unwrap();
        let thread = std::thread::spawn(move || {
            FIRST.set(Some(Closes(store.clone())));
            store.begin().unwrap().commit().unwrap();
            LAST.set(Some(Closes(store)));
        });
        thread.join().unwrap();
    }

    #[test]
    fn a_process_that_was_forked_closes_nothing_of_its_parent() {
        let store = Store::embedded().unwrap();
        let client = Rc::downgrade(&store.transaction_client().unwrap().0);
        Store::forget_transactions();
        store.close_transactions();
        assert!(client.upgrade().is_some(), "its connections are closed");
        assert!(store.transaction_client().unwrap().1, "it is used again");
    }
}
