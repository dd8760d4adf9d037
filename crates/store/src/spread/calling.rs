//! Clients that call the owner of the memory, or do not, as the store was opened.

use super::opening::Opener;
use crate::lease::Leased;
use crate::{Result, Scheme, TableRecord};
use farslot_fabric::RemoteAddr;
use farslot_index::calls::{CallOptions, Calling};
use std::rc::Rc;

/// Which operations are calls.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct CallRule {
    /// Writes too, of schemes that admit any number of writers.
    pub(crate) writes: bool,
    /// Whether a table is not opened where the owner answers no calls.
    pub(crate) is_forced: bool,
}

/// Opens tables that the owner is asked for.
pub(crate) struct ByCalls<O> {
    pub(crate) opener: O,
    /// Nothing for READs alone.
    pub(crate) rule: Option<CallRule>,
}

/// Whether the owner executes lookups in tables of a scheme, and whether writes.
///
/// The one writer of a cuckoo table is the client that writes, as it is by verbs: an owner that
/// wrote for some would keep all others out. A CuckooDuo table is read by an index of it in the
/// reader's memory, which saves what a call would.
pub(crate) const fn executes(scheme: &Scheme) -> (bool, bool) {
    match scheme {
        Scheme::Linear(_) | Scheme::Race(_) => (true, true),
        Scheme::Cuckoo(_) | Scheme::Sealed(_) => (true, false),
        Scheme::Duo(_) => (false, false),
    }
}

impl<O: Opener> Opener for ByCalls<O> {
    type Client = Calling<Leased, O::Client>;

    fn client_bytes(&self, scheme: &Scheme) -> u64 {
        self.opener.client_bytes(scheme)
    }

    async fn open(
        &self,
        endpoint: Rc<Leased>,
        at: RemoteAddr,
        record: &TableRecord,
    ) -> Result<Self::Client> {
        let client = self.opener.open(Rc::clone(&endpoint), at, record).await?;
        let (Some(rule), (true, writes)) = (self.rule, executes(&record.scheme)) else {
            return Ok(Calling::without(client));
        };
        let options = CallOptions {
            table: at,
            id: record.id,
            writes: writes && rule.writes,
            longest_value: record.scheme.stored_sizes().1.most(),
        };
        let calling = Calling::new(client, endpoint, options);
        if rule.is_forced {
            calling.check_owner().await?;
        }
        Ok(calling)
    }
}
