//! A client of a table that the owner of the memory writes.

use crate::catalog::record::Scheme;
use crate::lease::Leased;
use crate::{Access, StoreError, TableRecord};
use farslot_fabric::{Endpoint, FabricError, NodeId, RegionId, RemoteAddr, Rights};
use farslot_index::{
    ClientState, Cursor, FieldSize, IndexError, Occupancy, Operation, Outcome, Result,
    SchemeClient, Value, Waits,
};
use farslot_remote::{DENIED, ENDING, NO_OBJECT, ObjectId, PolicyOptions, RemoteError};
use farslot_rpc::{Client, ClientOptions, RpcError};
use farslot_txn::{Database, DatabaseOptions, Kept, KeyChange, Locking, TableId, TxnError};
use std::rc::Rc;

/// How often one that finds or puts may find a key gone that was there, and there that was gone.
const MOST_TURNS: u32 = 1000;

/// A thread's client of all nodes of a store, for tables that their owners write.
pub(crate) fn database(
    endpoint: &Rc<Leased>,
    access: Access,
    seed: u64,
) -> std::result::Result<Database<Leased>, TxnError> {
    let patience = endpoint.core().limits.verb_timeout;
    let options = ClientOptions {
        patience,
        ..ClientOptions::default()
    };
    let nodes = (0..endpoint.node_count() as u16).map(|node| {
        let to = (NodeId(node), RegionId(0));
        Rc::new(Client::new(Rc::clone(endpoint), to, options))
    });
    let options = DatabaseOptions {
        locking: Locking::Commit,
        seed: seed ^ endpoint.now(),
        policy: policy_of(access),
        ..DatabaseOptions::default()
    };
    Database::new(nodes.collect(), options)
}

/// How lookups choose between READs and calls.
pub(super) fn policy_of(access: Access) -> PolicyOptions {
    match access {
        Access::Reads => PolicyOptions::READS,
        Access::Calls => PolicyOptions::CALLS,
        Access::Auto => PolicyOptions::default(),
    }
}

/// A table of one node.
pub(crate) struct OwnedTable {
    endpoint: Rc<Leased>,
    database: Database<Leased>,
    table: TableId,
    at: RemoteAddr,
    key: FieldSize,
    value: FieldSize,
    slots: u64,
    /// Slots of a READ.
    read_size: u64,
}

impl OwnedTable {
    pub(crate) fn open(
        endpoint: &Rc<Leased>,
        access: Access,
        at: RemoteAddr,
        record: &TableRecord,
    ) -> crate::Result<Self> {
        let (key, value) = record.scheme.record_sizes();
        let no_table = || crate::error::bad_option("the scheme", record.scheme.name(), "another");
        let structure = record.scheme.owned_at(at.offset).and_then(Kept::keyed);
        let structure = structure.ok_or_else(no_table)?;
        let database = database(endpoint, access, record.id);
        let database = database.map_err(|error| store_error(error, at))?;
        let table = database.add_table(at.node.0 as u8, ObjectId(record.id), structure);
        let (slots, read_size) = match &record.scheme {
            Scheme::Chained(layout) => (layout.slots(), layout.bucket_slots.into()),
            Scheme::Ordered(layout) => (layout.slots(), layout.leaf_pairs.into()),
            _ => (0, 0),
        };
        Ok(Self {
            endpoint: Rc::clone(endpoint),
            table: table.map_err(|error| store_error(error, at))?,
            database,
            at,
            key,
            value,
            slots,
            read_size,
        })
    }

    fn failed(&self, error: TxnError) -> IndexError {
        txn_error(error, self.at, self.slots)
    }

    async fn change(&self, key: &[u8], change: KeyChange<'_>) -> Result<bool> {
        let changing = self.database.change(self.table, key, change).await;
        changing.map_err(|error| self.failed(error))
    }

    /// The value that was there, or nothing if the key has this one now.
    async fn find_or_put(&self, key: &[u8], value: &[u8]) -> Result<Option<Value>> {
        for _ in 0..MOST_TURNS {
            if let Some(found) = self.find(key).await? {
                return Ok(Some(found));
            }
            if !self.change(key, KeyChange::Insert(value)).await? {
                return Ok(None);
            }
        }
        Err(IndexError::Contended {
            slot: 0,
            attempts: MOST_TURNS,
        })
    }

    /// Changes a key that has this value, in a transaction.
    async fn change_if(&self, key: &[u8], has: &[u8], to: Option<&[u8]>) -> Result<bool> {
        let changing = self.database.run(async |open| {
            if open.read(self.table, key).await?.as_deref() != Some(has) {
                return Ok(false);
            }
            match to {
                Some(value) => open.write(self.table, key, value).await?,
                None => drop(open.remove(self.table, key).await?),
            }
            Ok(true)
        });
        changing.await.map_err(|error| self.failed(error))
    }
}

impl SchemeClient for OwnedTable {
    type Endpoint = Leased;

    const NAME: &'static str = "chained or ordered";

    /// Each request of a client takes one of a number of slots that its node keeps for it.
    const WAITS: Waits = Waits::All;

    fn endpoint(&self) -> &Leased {
        &self.endpoint
    }

    fn node(&self) -> NodeId {
        self.at.node
    }

    async fn find(&self, key: &[u8]) -> Result<Option<Value>> {
        self.key.check_key(key)?;
        let found = self.database.get(self.table, key).await;
        let found = found.map_err(|error| self.failed(error))?;
        Ok(found.map(|value| Value::from(&value[..])))
    }

    async fn write(&self, operation: Operation<'_>) -> Result<Outcome> {
        self.key.check_key(operation.key())?;
        Ok(match operation {
            Operation::Put(key, value) => {
                self.value.check_value(value)?;
                Outcome::Changed(!self.change(key, KeyChange::Put(value)).await?)
            }
            Operation::FindOrPut(key, value) => {
                self.value.check_value(value)?;
                Outcome::Value(self.find_or_put(key, value).await?)
            }
            Operation::Update(key, value) => {
                self.value.check_value(value)?;
                Outcome::Changed(self.change(key, KeyChange::Update(value)).await?)
            }
            Operation::Remove(key) => Outcome::Changed(self.change(key, KeyChange::Remove).await?),
            Operation::Replace(key, has, value) => {
                self.value.check_value(value)?;
                Outcome::Changed(self.change_if(key, has, Some(value)).await?)
            }
            Operation::RemoveIf(key, has) => {
                Outcome::Changed(self.change_if(key, has, None).await?)
            }
            Operation::Get(key) => Outcome::Value(self.find(key).await?),
            Operation::GetAll(key) => Outcome::Values(self.find_all(key).await?),
        })
    }

    async fn scan_piece(
        &self,
        cursor: Cursor,
        _most: u64,
        visit: impl FnMut(&[u8], &[u8]),
    ) -> Result<Option<Cursor>> {
        let from = (cursor.0 != 0).then_some(cursor.0);
        let visiting = self.database.visit(self.table, from, visit).await;
        let next = visiting.map_err(|error| self.failed(error))?;
        Ok(next.map(Cursor))
    }

    async fn read_occupancy(&self) -> Result<Occupancy> {
        let count = self.database.count(self.table).await;
        let entries = count.map_err(|error| self.failed(error))?;
        Ok(Occupancy {
            entries,
            used_slots: entries,
            slots: self.slots,
            ..Occupancy::default()
        })
    }

    /// The owner has counted.
    async fn report_all(&self) -> Result<()> {
        Ok(())
    }

    fn known(&self) -> ClientState {
        ClientState {
            read_size: self.read_size,
            ..ClientState::default()
        }
    }
}

/// What a transaction, or an operation of one key, has failed with, in terms of tables.
fn txn_error(error: TxnError, at: RemoteAddr, slots: u64) -> IndexError {
    let reason = error.to_string();
    let at_owner = |in_doubt| IndexError::AtOwner { reason, in_doubt };
    match error {
        TxnError::Remote(error) => index_error(error, at, slots),
        error if error.is_retryable() => IndexError::Contended {
            slot: 0,
            attempts: DatabaseOptions::default().attempts,
        },
        TxnError::InDoubt { .. } | TxnError::Closed => at_owner(true),
        _ => at_owner(false),
    }
}

/// What an operation on a remote structure has failed with, in terms of tables.
pub(super) fn index_error(error: RemoteError, at: RemoteAddr, slots: u64) -> IndexError {
    match error {
        RemoteError::Fabric(error) => IndexError::Fabric(error),
        RemoteError::Full => IndexError::Full {
            probed: slots,
            slots,
        },
        RemoteError::Rpc(RpcError::Refused { reason, .. })
            if let Some(error) = refused(reason, at) =>
        {
            IndexError::Fabric(error)
        }
        error => IndexError::AtOwner {
            reason: error.to_string(),
            in_doubt: error.may_have_taken_effect(),
        },
    }
}

/// Why an owner refuses, for the reasons that it gives by number.
fn refused(reason: u32, at: RemoteAddr) -> Option<FabricError> {
    match reason {
        NO_OBJECT => Some(FabricError::Reclaimed { at }),
        ENDING => Some(FabricError::Ending { node: at.node }),
        DENIED => Some(FabricError::AccessDenied {
            at,
            needed: Rights::ALL,
            granted: Rights::NONE,
        }),
        _ => None,
    }
}

/// What a transaction has failed with.
pub(crate) fn store_error(error: TxnError, at: RemoteAddr) -> StoreError {
    if let TxnError::TooLarge { bytes, limit, .. } = error {
        return StoreError::TransactionTooLarge { bytes, limit };
    }
    if error.is_retryable() || matches!(error, TxnError::OtherPlace { .. }) {
        return StoreError::Conflict {
            reason: error.to_string(),
        };
    }
    txn_error(error, at, 0).into()
}
