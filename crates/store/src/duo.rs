//! A CuckooDuo table behind a store: one client writes it as its owner, the others read it beside that one.

use farslot_fabric::{Endpoint, NodeId, RemoteAddr};
use farslot_index::duo::{DuoLayout, DuoReader, DuoTable};
use farslot_index::{
    ClientState, Cursor, Occupancy, Result, SchemeClient, SchemeKind, Survey, Value, Waits,
    WriterChange,
};
use std::rc::Rc;

/// A CuckooDuo table as one thread's coroutines see it. A client becomes the owner with its first write; until then it
/// looks keys up as a reader, if the table is made for readers. Else only the owner can look keys up, so that a
/// client becomes it with its first operation.
pub(crate) struct DuoClient<E> {
    owner: DuoTable<E>,
    /// Of a table made for readers. Both have room for an index; what a client does not use is not touched.
    reader: Option<DuoReader<E>>,
}

impl<E: Endpoint> DuoClient<E> {
    pub(crate) fn open(endpoint: Rc<E>, at: RemoteAddr, layout: &DuoLayout) -> Result<Self> {
        let reader = match layout.published {
            true => Some(DuoReader::open(Rc::clone(&endpoint), at, layout.clone())?),
            false => None,
        };
        let owner = DuoTable::open(endpoint, at, layout.clone())?;
        Ok(Self { owner, reader })
    }

    /// The reader, unless this client is the owner: the owner's own index is the newer.
    fn as_reader(&self) -> Option<&DuoReader<E>> {
        self.reader.as_ref().filter(|_| !self.owner.is_owner())
    }
}

impl<E: Endpoint> SchemeClient for DuoClient<E> {
    type Endpoint = E;

    const NAME: &'static str = SchemeKind::Duo.name();

    /// The owner's for those that change the same buckets, or make the index.
    const WAITS: Waits = Waits::All;

    fn endpoint(&self) -> &E {
        self.owner.endpoint()
    }

    fn node(&self) -> NodeId {
        SchemeClient::node(&self.owner)
    }

    async fn find(&self, key: &[u8]) -> Result<Option<Value>> {
        match self.as_reader() {
            Some(reader) => reader.find(key).await,
            None => SchemeClient::find(&self.owner, key).await,
        }
    }

    async fn put_record(&self, key: &[u8], value: &[u8]) -> Result<bool> {
        self.owner.put_record(key, value).await
    }

    async fn find_or_put_record(&self, key: &[u8], value: &[u8]) -> Result<Option<Value>> {
        self.owner.find_or_put_record(key, value).await
    }

    async fn update_record(&self, key: &[u8], value: &[u8]) -> Result<bool> {
        self.owner.update_record(key, value).await
    }

    async fn remove_records(&self, key: &[u8]) -> Result<bool> {
        self.owner.remove_records(key).await
    }

    async fn scan_piece(
        &self,
        cursor: Cursor,
        visit: impl FnMut(&[u8], &[u8]),
    ) -> Result<Option<Cursor>> {
        match self.as_reader() {
            Some(reader) => reader.scan_piece(cursor, visit).await,
            None => SchemeClient::scan_piece(&self.owner, cursor, visit).await,
        }
    }

    async fn read_occupancy(&self) -> Result<Occupancy> {
        self.owner.read_occupancy().await
    }

    async fn report_all(&self) -> Result<()> {
        self.owner.report_all().await
    }

    async fn look_at_slots(&self) -> Result<Survey> {
        self.owner.look_at_slots().await
    }

    async fn current_writer(&self) -> Result<Option<u64>> {
        self.owner.current_writer().await
    }

    async fn become_or_resign(&self, change: WriterChange) -> Result<()> {
        self.owner.become_or_resign(change).await
    }

    fn known(&self) -> ClientState {
        let owner = self.owner.known();
        // Of the two a client uses one at a time.
        let copy = self.reader.as_ref().map_or(0, DuoReader::copy_bytes);
        ClientState {
            client_bytes: owner.client_bytes.max(copy as u64),
            ..owner
        }
    }
}
