//! How clients open tables of each kind.

use super::endpoint::{Areas, SortingEndpoint};
use super::memory::TABLE_AT;
use farslot::index::cuckoo::{CuckooLayout, CuckooTable, LookupOrder};
use farslot::index::linear::{LinearLayout, LinearTable, ReadSizes};
use farslot::index::{Index, Result};
use std::rc::Rc;

/// What a client must know to open a table.
pub trait OpenTable: Clone + 'static {
    /// The table as a client sees it.
    type Table: Index + 'static;

    /// Opens the table at [`TABLE_AT`].
    #[allow(
        async_fn_in_trait,
        reason = "used by one thread, over one endpoint: never Send"
    )]
    async fn open(self, endpoint: Rc<SortingEndpoint>) -> Result<Self::Table>;

    /// Where its parts lie.
    fn areas(&self) -> Areas;
}

/// A linear table, and how much of it a READ fetches.
#[derive(Clone, Debug)]
pub struct OpenLinear {
    /// Its layout.
    pub layout: LinearLayout,
    /// The read sizes.
    pub sizes: ReadSizes,
}

impl OpenTable for OpenLinear {
    type Table = LinearTable<SortingEndpoint>;

    async fn open(self, endpoint: Rc<SortingEndpoint>) -> Result<Self::Table> {
        LinearTable::open(endpoint, TABLE_AT, self.layout, self.sizes).await
    }

    fn areas(&self) -> Areas {
        let layout = &self.layout;
        let slots = u128::from(layout.slots) * layout.slot_bytes() as u128;
        Areas::ending_with_heap(layout.table_bytes(), slots, layout.heap_bytes)
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

    fn areas(&self) -> Areas {
        let layout = &self.layout;
        let slots = u128::from(layout.buckets) * layout.bucket_bytes() as u128;
        Areas::ending_with_heap(layout.table_bytes(), slots, layout.heap_bytes)
    }
}
