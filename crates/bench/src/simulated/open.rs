//! How clients open tables of each kind.

use super::endpoint::{SortingEndpoint, TableAreas};
use super::memory::TABLE_AT;
use farslot::index::cuckoo::{CuckooLayout, CuckooTable, LookupOrder};
use farslot::index::duo::{DuoLayout, DuoOwner, DuoReader, DuoTable};
use farslot::index::linear::{LinearLayout, LinearTable, ReadPolicy, ReadSizes};
use farslot::index::race::{RaceLayout, RaceTable};
use farslot::index::sealed::{SealedLayout, SealedTable};
use farslot::index::{Index, IndexExt, Result, Value};
use std::rc::Rc;
use std::sync::Arc;

/// What experiments ask of a table: of every index, and of readers that are none.
#[allow(
    async_fn_in_trait,
    reason = "used by one thread, over one endpoint: never Send"
)]
pub trait SimulatedLookup {
    /// The value of a key; of its first record, where it may have several.
    ///
    /// # Errors
    /// What the table says.
    async fn get(&self, key: &[u8]) -> Result<Option<Value>>;

    /// Passes the values of all records of a key; returns how many there are.
    ///
    /// # Errors
    /// What the table says.
    async fn get_all(&self, key: &[u8], found: impl FnMut(&[u8])) -> Result<usize>;

    /// Bytes of this process's memory that the client keeps of the table, so that it need not ask.
    fn client_bytes(&self) -> u64;
}

impl<I: Index> SimulatedLookup for I {
    async fn get(&self, key: &[u8]) -> Result<Option<Value>> {
        Index::get(self, key).await
    }

    async fn get_all(&self, key: &[u8], mut found: impl FnMut(&[u8])) -> Result<usize> {
        let values = IndexExt::get_all(self, key).await?;
        values.iter().for_each(|value| found(value));
        Ok(values.len())
    }

    fn client_bytes(&self) -> u64 {
        self.state().client_bytes
    }
}

/// What a client must know to open a table.
pub trait OpenTable: Clone + 'static {
    /// The table as a client sees it.
    type Table: SimulatedLookup + 'static;

    /// Opens the table at [`TABLE_AT`].
    #[allow(
        async_fn_in_trait,
        reason = "used by one thread, over one endpoint: never Send"
    )]
    async fn open(self, endpoint: Rc<SortingEndpoint>) -> Result<Self::Table>;

    /// Where its parts lie.
    fn areas(&self) -> TableAreas;
}

/// A table that is written.
pub trait OpenWriter: OpenTable {
    /// The table as its writer sees it.
    type Writer: Index;

    /// Bytes of the table.
    fn table_bytes(&self) -> u128;

    /// Opens the table at [`TABLE_AT`], to write it.
    #[allow(
        async_fn_in_trait,
        reason = "used by one thread, over one endpoint: never Send"
    )]
    async fn open_writer(self, endpoint: Rc<SortingEndpoint>) -> Result<Self::Writer>;

    /// Reports what was counted, and lets others be the writer.
    #[allow(
        async_fn_in_trait,
        reason = "used by one thread, over one endpoint: never Send"
    )]
    async fn close(writer: &Self::Writer) -> Result<()> {
        writer.flush().await
    }
}

/// A linear table, and how much of it a READ fetches.
#[derive(Clone, Debug)]
pub struct OpenLinear {
    /// Its layout.
    pub layout: LinearLayout,
    /// The read sizes.
    pub sizes: ReadSizes,
    /// Clusters that each client tracks; 0 for none.
    pub hints: usize,
}

impl OpenTable for OpenLinear {
    type Table = LinearTable<SortingEndpoint>;

    async fn open(self, endpoint: Rc<SortingEndpoint>) -> Result<Self::Table> {
        let opening = LinearTable::open(endpoint, TABLE_AT, self.layout, self.sizes);
        Ok(opening.await?.with_cluster_hints(self.hints))
    }

    fn areas(&self) -> TableAreas {
        let layout = &self.layout;
        let slots = u128::from(layout.slots) * layout.slot_bytes() as u128;
        TableAreas::ending_with_heap(layout.table_bytes(), slots, layout.heap_bytes)
    }
}

impl OpenWriter for OpenLinear {
    type Writer = LinearTable<SortingEndpoint>;

    fn table_bytes(&self) -> u128 {
        self.layout.table_bytes()
    }

    async fn open_writer(self, endpoint: Rc<SortingEndpoint>) -> Result<Self::Writer> {
        LinearTable::open(endpoint, TABLE_AT, self.layout, self.sizes).await
    }
}

/// A cuckoo table, and how its buckets are read.
#[derive(Clone, Debug)]
pub struct OpenCuckoo {
    /// Its layout.
    pub layout: CuckooLayout,
    /// How the buckets of a key are read.
    pub order: LookupOrder,
}

impl OpenTable for OpenCuckoo {
    type Table = CuckooTable<SortingEndpoint>;

    async fn open(self, endpoint: Rc<SortingEndpoint>) -> Result<Self::Table> {
        CuckooTable::open(endpoint, TABLE_AT, self.layout, self.order).await
    }

    fn areas(&self) -> TableAreas {
        let layout = &self.layout;
        let slots = u128::from(layout.buckets) * layout.bucket_bytes() as u128;
        TableAreas::ending_with_heap(layout.table_bytes(), slots, layout.heap_bytes)
    }
}

impl OpenWriter for OpenCuckoo {
    type Writer = CuckooTable<SortingEndpoint>;

    fn table_bytes(&self) -> u128 {
        self.layout.table_bytes()
    }

    async fn open_writer(self, endpoint: Rc<SortingEndpoint>) -> Result<Self::Writer> {
        CuckooTable::open(endpoint, TABLE_AT, self.layout, self.order).await
    }

    async fn close(writer: &Self::Writer) -> Result<()> {
        writer.flush().await?;
        writer.resign().await
    }
}

/// A sealed table, and how much of it a READ fetches.
#[derive(Clone, Debug)]
pub struct OpenSealed {
    /// Its layout.
    pub layout: SealedLayout,
    /// Slots of a READ.
    pub read_size: u32,
}

impl OpenTable for OpenSealed {
    type Table = SealedTable<SortingEndpoint>;

    async fn open(self, endpoint: Rc<SortingEndpoint>) -> Result<Self::Table> {
        let policy = ReadPolicy::Fixed(self.read_size);
        SealedTable::open(endpoint, TABLE_AT, self.layout, policy).await
    }

    fn areas(&self) -> TableAreas {
        let layout = &self.layout;
        let slots = u128::from(layout.slots) * layout.slot_bytes() as u128;
        // The perfect hash function, if there is one, lies behind the heap.
        let with_heap = layout.table_bytes() - u128::from(layout.client_bytes());
        TableAreas::ending_with_heap(with_heap, slots, layout.heap_bytes)
    }
}

/// A RACE table.
#[derive(Clone, Debug)]
pub struct OpenRace {
    /// Its layout.
    pub layout: RaceLayout,
}

impl OpenTable for OpenRace {
    type Table = RaceTable<SortingEndpoint>;

    async fn open(self, endpoint: Rc<SortingEndpoint>) -> Result<Self::Table> {
        self.open_writer(endpoint).await
    }

    fn areas(&self) -> TableAreas {
        let layout = &self.layout;
        let slots = u128::from(layout.most_slots()) * 8;
        TableAreas::ending_with_heap(layout.table_bytes(), slots, layout.heap_bytes)
    }
}

impl OpenWriter for OpenRace {
    type Writer = RaceTable<SortingEndpoint>;

    fn table_bytes(&self) -> u128 {
        self.layout.table_bytes()
    }

    async fn open_writer(self, endpoint: Rc<SortingEndpoint>) -> Result<Self::Writer> {
        RaceTable::open(endpoint, TABLE_AT, self.layout).await
    }
}

/// A CuckooDuo table: its clients are readers beside its writer, who have read its index.
#[derive(Clone, Debug)]
pub struct OpenDuo {
    /// Its layout, of a published index.
    pub layout: DuoLayout,
}

/// A reader of a CuckooDuo table.
pub struct DuoReaderTable(DuoReader<SortingEndpoint>);

impl SimulatedLookup for DuoReaderTable {
    async fn get(&self, key: &[u8]) -> Result<Option<Value>> {
        self.0.get(key).await
    }

    async fn get_all(&self, key: &[u8], mut found: impl FnMut(&[u8])) -> Result<usize> {
        let value = self.0.get(key).await?;
        value.iter().for_each(|value| found(value));
        Ok(usize::from(value.is_some()))
    }

    fn client_bytes(&self) -> u64 {
        self.0.copy_bytes() as u64
    }
}

impl OpenTable for OpenDuo {
    type Table = DuoReaderTable;

    async fn open(self, endpoint: Rc<SortingEndpoint>) -> Result<Self::Table> {
        let reader = DuoReader::open(endpoint, TABLE_AT, self.layout)?;
        reader.refresh().await?;
        Ok(DuoReaderTable(reader))
    }

    fn areas(&self) -> TableAreas {
        duo_areas(&self.layout)
    }
}

impl OpenWriter for OpenDuo {
    type Writer = DuoTable<SortingEndpoint>;

    fn table_bytes(&self) -> u128 {
        self.layout.table_bytes()
    }

    async fn open_writer(self, endpoint: Rc<SortingEndpoint>) -> Result<Self::Writer> {
        DuoTable::open(endpoint, TABLE_AT, self.layout)
    }

    async fn close(writer: &Self::Writer) -> Result<()> {
        writer.resign().await
    }
}

/// A CuckooDuo table of one client, whose threads are all of its clients here. It is opened by the
/// threads of one experiment.
#[derive(Clone)]
pub struct OpenDuoAlone {
    owner: Arc<DuoOwner>,
}

impl OpenDuoAlone {
    /// The client of a table with this layout.
    ///
    /// # Errors
    /// For a layout that no table has.
    pub fn new(layout: DuoLayout) -> Result<Self> {
        let owner = DuoOwner::new(TABLE_AT, layout)?;
        Ok(Self { owner })
    }
}

impl OpenTable for OpenDuoAlone {
    type Table = DuoTable<SortingEndpoint>;

    async fn open(self, endpoint: Rc<SortingEndpoint>) -> Result<Self::Table> {
        let table = self.owner.table(endpoint);
        table.start().await?;
        Ok(table)
    }

    fn areas(&self) -> TableAreas {
        duo_areas(self.owner.layout())
    }
}

fn duo_areas(layout: &DuoLayout) -> TableAreas {
    let (slots, heap) = (layout.arrays(), layout.heap());
    TableAreas { slots, heap }
}
