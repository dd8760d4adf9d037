//! What a reader keeps.

use super::copy::IndexCopy;
use crate::Result;
use crate::client::locks::BucketLocks;
use crate::duo::bytes::DuoLayout;
use crate::heap::{Heap, record_bytes};
use crate::slot::bad_option;
use farslot_fabric::{Endpoint, Nanos, RemoteAddr};
use std::cell::RefCell;
use std::rc::Rc;

/// What a reader's answer "absent" means. That a key is found, and its value, is linearizable
/// always.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ReaderPromise {
    /// The key was absent at a moment of the lookup: absent keys cost a round trip.
    #[default]
    Linearizable,
    /// The key was absent at a moment of the lookup, or at one of the last so many nanoseconds
    /// before it: absent keys cost nothing while [`DuoReader::refresh`] is called at least that
    /// often, but for those whose segment of the index has changed of late.
    BoundedStaleness {
        /// How old an answer may be.
        most: Nanos,
    },
}

/// A CuckooDuo table as the coroutines of one thread see it that is not its owner's: they look keys
/// up, and write nothing, in the memory either. It follows a table that grows by itself; what it is
/// to read there, on the table's node, it needs the right to read.
pub struct DuoReader<E> {
    pub(super) endpoint: Rc<E>,
    pub(super) layout: DuoLayout,
    pub(super) table: RemoteAddr,
    pub(super) promise: ReaderPromise,
    pub(super) copy: RefCell<IndexCopy>,
    /// If the records are there.
    pub(super) heap: Option<Heap<E>>,
    /// Held by who refreshes the copy.
    pub(super) refreshing: BucketLocks,
}

impl<E: Endpoint> DuoReader<E> {
    /// Opens the table that lies at `table`, for lookups only. This asks nothing of it yet: the
    /// copy of the index is filled by the lookups, or by [`DuoReader::refresh`].
    ///
    /// # Errors
    /// [`IndexError::BadOption`](crate::IndexError::BadOption) for a layout that no options give,
    /// or whose index is not [published](DuoLayout::published).
    pub fn open(endpoint: Rc<E>, table: RemoteAddr, layout: DuoLayout) -> Result<Self> {
        layout.check()?;
        if !layout.published {
            let limit = "the table was made for its owner alone";
            return Err(bad_option("published", false, limit));
        }
        let place = layout.heap_place(table);
        let longest = record_bytes(layout.key.most(), layout.value.most());
        let heap = || Heap::new(Rc::clone(&endpoint), place, longest);
        Ok(Self {
            copy: RefCell::new(IndexCopy::new(table, layout.clone())),
            promise: ReaderPromise::default(),
            refreshing: BucketLocks::default(),
            heap: layout.has_heap().then(heap),
            endpoint,
            layout,
            table,
        })
    }

    /// The same reader with another promise.
    #[must_use]
    pub const fn promising(mut self, promise: ReaderPromise) -> Self {
        self.promise = promise;
        self
    }

    /// The table's layout.
    #[must_use]
    pub const fn layout(&self) -> &DuoLayout {
        &self.layout
    }

    /// The endpoint that the table is reached by.
    #[must_use]
    pub const fn endpoint(&self) -> &Rc<E> {
        &self.endpoint
    }

    /// Slots of both arrays, those that the table is growing to included: as far as this reader
    /// knows.
    #[must_use]
    pub fn slots(&self) -> u64 {
        self.copy.borrow().slots()
    }

    /// Bytes of memory of the copy of the index.
    #[must_use]
    pub fn copy_bytes(&self) -> usize {
        self.copy.borrow().bytes()
    }
}
