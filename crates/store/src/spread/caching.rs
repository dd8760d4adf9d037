//! Clients with a cache of answers, or none, as the store was opened.
//!
//! The cache is the client's own. So it goes when the client is taken away because its node came
//! back empty, with all that the node had; and while that is not known for sure, the client does
//! not answer from it.

use super::opening::Opener;
use crate::cache::Cache;
use crate::lease::Leased;
use crate::{Result, Scheme, StoreError, TableRecord};
use farslot_fabric::{RemoteAddr, shm};
use farslot_index::cache::Cached;
use std::rc::Rc;

/// Opens tables with a cache each.
pub(crate) struct Caching<O> {
    pub(crate) opener: O,
    /// What each client has for it, and for what it keeps besides.
    pub(crate) cache: Option<Cache>,
    /// Bytes that a client may take; half of what the machine has free, if nothing is said.
    pub(crate) client_memory: Option<u64>,
}

/// Clients that take no more than this are not measured against what the machine has.
const LITTLE: u64 = 64 << 20;

impl<O> Caching<O> {
    /// Refuses a table whose client may need more memory than it is given: the sizes in the record
    /// are another's.
    fn check(&self, record: &TableRecord, needed: u64) -> Result<()> {
        let limit = match self.client_memory {
            Some(limit) => limit,
            None if needed <= LITTLE => return Ok(()),
            None => shm::available_memory() / 2,
        };
        if needed <= limit {
            return Ok(());
        }
        Err(StoreError::ClientMemory {
            name: record.name.clone(),
            needed,
            limit,
        })
    }
}

impl<O: Opener> Opener for Caching<O> {
    type Client = Cached<O::Client>;

    async fn open(
        &self,
        endpoint: Rc<Leased>,
        at: RemoteAddr,
        record: &TableRecord,
    ) -> Result<Cached<O::Client>> {
        self.check(record, self.client_bytes(&record.scheme))?;
        let client = self.opener.open(endpoint, at, record).await?;
        let cache = self.cache.filter(|cache| cache.is_for(&record.scheme));
        Ok(match cache {
            Some(cache) => Cached::within(client, cache.options(&record.scheme))?,
            None => Cached::without(client),
        })
    }

    fn client_bytes(&self, scheme: &Scheme) -> u64 {
        self.opener.client_bytes(scheme)
    }
}
