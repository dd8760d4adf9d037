//! Clients with a cache of answers, or none, as the store was opened.
//!
//! The cache is the client's own. So it goes when the client is taken away because its node came back empty, with all
//! that the node had; and while that is not known for sure, the client does not answer from it.

use super::opening::Opener;
use crate::cache::Cache;
use crate::{Result, TableRecord};
use farslot_fabric::{Endpoint, RemoteAddr};
use farslot_index::cache::Cached;
use std::rc::Rc;

/// Opens tables with a cache each.
pub(crate) struct Caching<O> {
    pub(crate) opener: O,
    /// What each client has for it, and for what it keeps besides.
    pub(crate) cache: Option<Cache>,
}

impl<E: Endpoint, O: Opener<E>> Opener<E> for Caching<O> {
    type Client = Cached<O::Client>;

    async fn open(
        &self,
        endpoint: Rc<E>,
        at: RemoteAddr,
        record: &TableRecord,
    ) -> Result<Cached<O::Client>> {
        let client = self.opener.open(endpoint, at, record).await?;
        let cache = self.cache.filter(|cache| cache.is_for(&record.scheme));
        Ok(match cache {
            Some(cache) => Cached::within(client, cache.options(&record.scheme))?,
            None => Cached::without(client),
        })
    }
}
