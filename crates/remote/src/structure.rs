//! What a remote data structure is: three callbacks.

use farslot_fabric::OwnerMemory;
use farslot_rpc::Fault;

/// A data structure in a node's memory, looked up from elsewhere (paper 003, table 3).
///
/// The value itself is the description that both sides share: where the structure lies and how it
/// is laid out. What only the owner knows is in the memory, so that any process which has the
/// memory can be the owner; what a client remembers is its cache, and may be stale or empty.
///
/// READs see words from before and after a change, mixed in any way;
/// [`RemoteStructure::lookup_end`] must notice. The owner runs one handler of a structure at a
/// time.
pub trait RemoteStructure: Send + Sync + 'static {
    /// What is looked up.
    type Key: ?Sized;
    /// What is found.
    type Item;
    /// What a client remembers of where things are.
    type Cache;

    /// Where the key may be: an address to READ, or that there is none to try.
    fn lookup_start(&self, key: &Self::Key, cache: &mut Self::Cache) -> Start;

    /// Judges what was found, and remembers what is worth it.
    fn lookup_end(
        &self,
        key: &Self::Key,
        found: Found<'_>,
        cache: &mut Self::Cache,
    ) -> LookupVerdict<Self::Item>;

    /// The request with which the owner is asked for a key.
    fn lookup_request(&self, key: &Self::Key) -> Vec<u8>;

    /// Most bytes of a reply.
    fn reply_bytes(&self) -> usize;

    /// Answers a request at the owner; returns how many bytes of `reply` it takes. Requests of
    /// lookups change nothing; all others are executed at most once each.
    ///
    /// # Errors
    /// [`Fault`].
    fn rpc_handler(
        &self,
        request: &[u8],
        memory: &mut dyn OwnerMemory,
        reply: &mut [u8],
    ) -> Result<usize, Fault>;
}

/// How a lookup starts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Start {
    /// With a READ.
    Read {
        /// First byte in the region.
        offset: u64,
        /// Bytes.
        bytes: usize,
    },
    /// With a call.
    Call,
}

/// What a lookup has found.
#[derive(Clone, Copy, Debug)]
pub enum Found<'f> {
    /// The words of a READ, perhaps torn.
    Read {
        /// The READ's first byte.
        offset: u64,
        /// What was there.
        words: &'f [u64],
    },
    /// The owner's reply.
    Reply(&'f [u8]),
}

/// What a lookup makes of what was found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LookupVerdict<T> {
    /// The item.
    Found(T),
    /// There is none.
    Absent,
    /// What was READ does not tell: the owner must be called. Of a reply: it makes no sense.
    Unknown,
}
