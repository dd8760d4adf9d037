//! A sealed table as its users see it.

use super::client::Client;
use super::exact::Exact;
use super::layout::SealedLayout;
use crate::Result;
use crate::read_policy::ReadPolicy;
use farslot_fabric::{Endpoint, RemoteAddr};
use std::rc::Rc;

/// A sealed table as one thread's coroutines see it.
pub struct SealedTable<E>(Exact<E>);

impl<E: Endpoint> SealedTable<E> {
    /// Opens the table that lies at `table`, be it built yet or not. If it is not, the operations
    /// look again whether it is. The perfect hash function of a table that has one is fetched and
    /// checked, now or when the table is found built.
    ///
    /// # Errors
    /// [`IndexError::BadOption`](crate::IndexError::BadOption) for a layout that no options give,
    /// or a policy that the model refuses;
    /// [`IndexError::BadFunction`](crate::IndexError::BadFunction); or what the fabric says.
    pub async fn open(
        endpoint: Rc<E>,
        table: RemoteAddr,
        layout: SealedLayout,
        policy: ReadPolicy,
    ) -> Result<Self> {
        let client = Client::open(endpoint, table, layout, policy).await?;
        Ok(Self(Exact(client)))
    }

    /// The table's layout.
    #[must_use]
    pub fn layout(&self) -> &SealedLayout {
        &self.client().layout
    }

    /// The endpoint that the table is reached by.
    #[must_use]
    pub fn endpoint(&self) -> &Rc<E> {
        &self.client().endpoint
    }

    /// Whether this client knows that the table has been built.
    #[must_use]
    pub fn is_built(&self) -> bool {
        self.client().is_built()
    }

    /// Slots that one READ fetches; 0 as long as the table is not known to be built.
    #[must_use]
    pub fn read_size(&self) -> u64 {
        self.client().read_size()
    }

    /// Fills the table with these records and seals it. A record's number, where an error names it,
    /// is its place in the slice. Needs up to 28 bytes of local memory for each record and slot;
    /// with a perfect hash function 20 more for each record, and 17 more with a filter.
    ///
    /// A build that is refused has written nothing. If the fabric fails meanwhile, the table is not
    /// built and never will be: it is to be made anew. Only if the very last word's fate is unknown
    /// [`may_have_taken_effect`](crate::IndexError::may_have_taken_effect) can mean a built table.
    ///
    /// # Errors
    /// [`IndexError::Sealed`](crate::IndexError::Sealed) if it has been built,
    /// [`IndexError::WriterBusy`](crate::IndexError::WriterBusy) if somebody has begun to. A record
    /// that does not fit, [`IndexError::DuplicateKey`](crate::IndexError::DuplicateKey),
    /// [`IndexError::Full`](crate::IndexError::Full) or
    /// [`IndexError::HeapFull`](crate::IndexError::HeapFull) where the layout is too small for
    /// them, [`IndexError::BadOption`](crate::IndexError::BadOption) for inline records with all
    /// keys that there can be; or what the fabric says.
    pub async fn build(&self, records: &[(&[u8], &[u8])]) -> Result<()> {
        self.client().build(records).await
    }

    #[inline]
    pub(super) fn client(&self) -> &Client<E> {
        &self.0.0
    }

    /// The client of a table with one slot for each key.
    #[inline]
    pub(super) fn exact(&self) -> Option<&Exact<E>> {
        self.layout().perfect.is_some().then_some(&self.0)
    }
}
