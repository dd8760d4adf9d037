//! What a lookup saw of a key, present or not, and the word that proves later that it still is so.

use super::cache::Cache;
use super::item::Item;
use super::structure::Table;
use crate::{End, Found, Lock, RemoteStructure, Start};
use farslot_fabric::OwnerMemory;
use farslot_rpc::Fault;

/// A word of the table which changes with what was seen (paper 003, section 5.4: validation by READs).
///
/// Of a key that is there, or is absent and locked, it is the check of its slot: over lock, version, and value. Of
/// an absent key it is the stamp of its bucket, which other keys of the bucket change as well.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Witness {
    /// Where the word lies in its region.
    pub at: u64,
    /// The word.
    pub word: u64,
    /// Keys removed from an absent key's bucket, modulo 2^24. While neither this nor `at` changes, a key that
    /// is absent twice was absent in between.
    pub removals: u32,
}

/// What a key had at one moment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Observation {
    /// The key's item; nothing if it was absent.
    pub item: Option<Item>,
    /// Who held the key, present or absent.
    pub lock: Option<Lock>,
    /// What shows whether it changed since.
    pub witness: Witness,
}

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
