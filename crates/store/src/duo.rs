//! A CuckooDuo table behind a store: all threads of a process write it together as its owner; other
//! processes read.
//!
//! Invariant: all tables of a store that lie at the same place share one owner. It resigns when the
//! last of them that writes resigns. If another thread begins to write meanwhile, that write waits
//! and makes the process the owner again.

use farslot_fabric::{Endpoint, NodeId, RemoteAddr};
use farslot_index::duo::{DuoLayout, DuoOwner, DuoReader, DuoTable};
use farslot_index::{
    Answers, AtOnce, ClientState, Cursor, Occupancy, Operation, Outcome, Outcomes, Result,
    SchemeClient, SchemeKind, Survey, Value, Waits, WriterChange, run_side_by_side,
};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// The owners of all CuckooDuo tables that a store's threads have open.
#[derive(Default)]
pub(crate) struct DuoOwners(Mutex<Vec<(TableLocation, Weak<SharedOwner>)>>);

/// Where a table lies: in which node's memory, and where there.
#[derive(Clone, Copy, PartialEq, Eq)]
struct TableLocation {
    incarnation: u64,
    at: RemoteAddr,
    /// The table's id: another may come to lie at the same place.
    id: u64,
}

/// An owner, and how many of its tables write.
struct SharedOwner {
    owner: Arc<DuoOwner>,
    writers: AtomicUsize,
}

impl DuoOwners {
    /// The owner of the table at a place: the one that another thread has, or a new one.
    fn at(&self, place: TableLocation, layout: &DuoLayout) -> Result<Arc<SharedOwner>> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|(_, owner)| owner.strong_count() > 0);
        let mut owners = known.iter().filter(|(of, _)| *of == place);
        if let Some(owner) = owners.find_map(|(_, owner)| owner.upgrade()) {
            return Ok(owner);
        }
        let owner = Arc::new(SharedOwner {
            owner: DuoOwner::new(place.at, layout.clone())?,
            writers: AtomicUsize::new(0),
        });
        known.push((place, Arc::downgrade(&owner)));
        Ok(owner)
    }
}

/// One table's part in the owner.
struct Part {
    of: Arc<SharedOwner>,
    writes: Cell<bool>,
}

impl Part {
    /// Is one of those that write.
    fn join(&self) {
        if !self.writes.replace(true) {
            self.of.writers.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Is none of them any longer; whether it was the last.
    fn leave(&self) -> bool {
        self.writes.replace(false) && self.of.writers.fetch_sub(1, Ordering::AcqRel) == 1
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        self.leave();
    }
}

/// A CuckooDuo table as one thread's coroutines see it. With its first write a client joins the
/// process's owner. Until then it looks keys up as a reader, if the table is made for readers.
/// Otherwise only the owner can look keys up, so the client joins with its first operation.
pub(crate) struct DuoClient<E> {
    table: DuoTable<E>,
    part: Part,
    /// Of a table made for readers. Both have room for an index; what a client does not use is not
    /// touched.
    reader: Option<DuoReader<E>>,
}

impl<E: Endpoint> DuoClient<E> {
    pub(crate) fn open(
        endpoint: Rc<E>,
        at: RemoteAddr,
        id: u64,
        layout: &DuoLayout,
        owners: &DuoOwners,
    ) -> Result<Self> {
        let reader = match layout.published {
            true => Some(DuoReader::open(Rc::clone(&endpoint), at, layout.clone())?),
            false => None,
        };
        let incarnation = endpoint.node(at.node)?.incarnation;
        let of = owners.at(
            TableLocation {
                incarnation,
                at,
                id,
            },
            layout,
        )?;
        let table = of.owner.table(endpoint);
        let writes = Cell::new(false);
        let part = Part { of, writes };
        Ok(Self {
            table,
            part,
            reader,
        })
    }

    /// The reader, unless this client is one of the owner's threads: the owner's own index is the
    /// newer.
    fn as_reader(&self) -> Option<&DuoReader<E>> {
        let owns = self.part.writes.get() && self.table.is_owner();
        self.reader.as_ref().filter(|_| !owns)
    }

    /// Has a reader's copy of the index read, whole.
    #[cfg(feature = "unstable")]
    pub(crate) async fn read_index(&self) -> Result<()> {
        match &self.reader {
            Some(reader) => reader.refresh().await,
            None => Ok(()),
        }
    }

    /// The table, as one of the owner's threads.
    fn as_owner(&self) -> &DuoTable<E> {
        self.part.join();
        &self.table
    }
}

impl<E: Endpoint> SchemeClient for DuoClient<E> {
    type Endpoint = E;

    const NAME: &'static str = SchemeKind::Duo.name();

    /// The owner's for those that change the same buckets, or make the index.
    const WAITS: Waits = Waits::All;

    fn endpoint(&self) -> &E {
        self.table.endpoint()
    }

    fn node(&self) -> NodeId {
        SchemeClient::node(&self.table)
    }

    async fn find(&self, key: &[u8]) -> Result<Option<Value>> {
        match self.as_reader() {
            Some(reader) => reader.find(key).await,
            None => SchemeClient::find(self.as_owner(), key).await,
        }
    }

    async fn find_many(&self, keys: &[&[u8]], done: &mut dyn FnMut(Answers<'_>)) {
        match self.as_reader() {
            Some(reader) => reader.look_up(keys, done).await,
            None => SchemeClient::find_many(self.as_owner(), keys, done).await,
        }
    }

    fn write_at_once<'s>(&'s self, write: Operation<'s>) -> AtOnce<'s, Result<Outcome>> {
        self.as_owner().write_at_once(write)
    }

    async fn write_many(&self, writes: &[Operation<'_>], done: &mut dyn FnMut(Outcomes<'_>)) {
        if writes.iter().any(Operation::is_lookup) {
            // A reader looks up without being the owner.
            return run_side_by_side(self, writes, done).await;
        }
        SchemeClient::write_many(self.as_owner(), writes, done).await;
    }

    async fn write(&self, operation: Operation<'_>) -> Result<Outcome> {
        SchemeClient::write(self.as_owner(), operation).await
    }

    async fn scan_piece(
        &self,
        cursor: Cursor,
        most: u64,
        visit: impl FnMut(&[u8], &[u8]),
    ) -> Result<Option<Cursor>> {
        match self.as_reader() {
            Some(reader) => reader.scan_piece(cursor, most, visit).await,
            None => SchemeClient::scan_piece(self.as_owner(), cursor, most, visit).await,
        }
    }

    async fn read_occupancy(&self) -> Result<Occupancy> {
        self.table.read_occupancy().await
    }

    async fn report_all(&self) -> Result<()> {
        self.table.report_all().await
    }

    async fn look_at_slots(&self) -> Result<Survey> {
        self.table.look_at_slots().await
    }

    async fn current_writer(&self) -> Result<Option<u64>> {
        self.table.current_writer().await
    }

    async fn become_or_resign(&self, change: WriterChange) -> Result<()> {
        match change {
            // The others go on.
            WriterChange::Resign if !self.part.leave() => self.table.report_all().await,
            WriterChange::Resign => {
                let resigned = self.table.resign().await;
                if resigned.is_err() {
                    // To be tried again.
                    self.part.join();
                }
                resigned
            }
            WriterChange::Start | WriterChange::TakeOver | WriterChange::ForceTakeOver => {
                self.as_owner().become_or_resign(change).await
            }
        }
    }

    async fn count_of_moves(&self) -> Result<u64> {
        self.as_owner().count_of_moves().await
    }

    fn known(&self) -> ClientState {
        let owner = self.table.known();
        // Of the two a client uses one at a time.
        let copy = self.reader.as_ref().map_or(0, DuoReader::copy_bytes);
        ClientState {
            client_bytes: owner.client_bytes.max(copy as u64),
            ..owner
        }
    }
}
