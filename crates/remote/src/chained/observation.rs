//! Lookups that observe keys, present or not.

use super::cache::Cache;
use super::structure::Table;
use super::witness::Observation;
use crate::{End, Found, RemoteStructure, Start};
use farslot_fabric::OwnerMemory;
use farslot_rpc::Fault;

/// The table, looked up for observations: absent keys are found as well.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Observed(pub Table);

impl RemoteStructure for Observed {
    type Key = [u8];
    type Item = Observation;
    type Cache = Cache;

    fn lookup_start(&self, key: &[u8], cache: &mut Cache) -> Start {
        self.0.lookup_start(key, cache)
    }

    fn lookup_end(&self, key: &[u8], found: Found<'_>, cache: &mut Cache) -> End<Observation> {
        self.0
            .observe(key, found, cache)
            .map_or(End::Unknown, End::Found)
    }

    fn lookup_request(&self, key: &[u8]) -> Vec<u8> {
        self.0.lookup_request(key)
    }

    fn reply_bytes(&self) -> usize {
        self.0.reply_bytes()
    }

    fn rpc_handler(
        &self,
        request: &[u8],
        memory: &mut dyn OwnerMemory,
        reply: &mut [u8],
    ) -> Result<usize, Fault> {
        self.0.rpc_handler(request, memory, reply)
    }
}
