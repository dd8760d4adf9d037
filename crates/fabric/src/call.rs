//! Calls: requests that the owner of a node answers by work in its own memory.
//!
//! A call goes to a region, of which the caller needs [`Rights::CALL`], and completes with the
//! reply. On a NIC both ways are a WRITE with immediate, and the receiver polls one completion
//! queue whatever the number of its senders (paper 003, section 5.2): so [`verbs`](crate::verbs)
//! does it, and the other fabrics say themselves what they make of it. A call that fails may have
//! been executed; a layer above makes retries safe.

use crate::ticket::{LaterAnswer, Ticket};
use crate::{FabricError, Nanos, NodeId, RegionId, RemoteAddr, Result, Rights};
use std::fmt;
use std::ops::Range;

/// What the owner of a node does for calls (`rpc_handler` of paper 003, table 3).
///
/// Calls may come on several threads at a time. Whatever must not run side by side is the handler's
/// to lock.
pub trait Handler: Send + Sync {
    /// Answers a call, or says that its [ticket](Call::later) will.
    ///
    /// It must not wait for other calls, nor for verbs: it runs on a thread that serves other
    /// clients as well.
    fn handle(&self, call: Call<'_>) -> CallAnswer;

    /// Goes on with calls that it answers later, for about as long as it works on one, in the
    /// memory of the node's first region. Returns when it is to be asked next, by the owner's
    /// clock; nothing if that is when it has left another call for later.
    ///
    /// The simulator asks, where nobody else has the memory. Over mapped memory a thread of the
    /// handler's own does it ([`Node::use_memory`](crate::shm::Node::use_memory)).
    fn go_on(&self, memory: &mut dyn OwnerMemory, now: Nanos) -> Option<Nanos> {
        let _ = (memory, now);
        None
    }

    /// Whether the handler itself holds every caller to its rights, by [`Call::caller`]. Else a
    /// caller needs [`Rights::CALL`] for all of the region. Over the simulator, callers need that
    /// in any case.
    fn checks_callers(&self) -> bool {
        false
    }
}

/// How a handler answers a call.
#[derive(Debug)]
pub enum CallAnswer {
    /// So many bytes of [`Call::reply`] are the reply; the fabric takes no more than there are. The
    /// handler must have written all of them: what was there before may be of another client's
    /// reply.
    Now(usize),
    /// A [`Ticket`] brings the reply ([`Call::later`]). A connection's answers keep the order of
    /// its calls: those behind this one wait for it, those of other connections do not. While some
    /// wait, of the connection's verbs only calls are begun, as many of them as its limits allow.
    Later(LaterAnswer),
}

/// A call as its handler gets it. Every byte of the request is the client's word, and may be
/// anything.
pub struct Call<'c> {
    /// The region that was called.
    pub region: RegionId,
    /// The owner's clock, in nanoseconds.
    pub now: Nanos,
    /// The caller's bytes.
    pub request: &'c [u8],
    /// The region's memory.
    pub memory: &'c mut dyn OwnerMemory,
    /// Room for the reply: as much as the caller gave. What it holds is unspecified.
    pub reply: &'c mut [u8],
    /// What the caller may do.
    pub caller: &'c dyn Caller,
}

/// What a caller may do in the region that it calls.
pub trait Caller {
    /// Whether it has these rights to all of these bytes by verbs.
    ///
    /// # Errors
    /// Why it has not.
    fn check(&self, bytes: Range<u64>, needed: Rights) -> Result<()>;

    /// What the keys begin with that it may use in these bytes though it has no rights to the
    /// bytes, and its rights to those keys. A handler that opens them must hold every request to
    /// the prefix.
    fn keys(&self, bytes: Range<u64>) -> Option<(&[u8], Rights)> {
        let _ = bytes;
        None
    }

    /// The handler has refused it a key: that counts as a refused verb does.
    fn refused(&self) {}

    /// The name of the grant that it was admitted under, for the log.
    fn grant(&self) -> Option<&str> {
        None
    }
}

impl<F: Fn(Range<u64>, Rights) -> Result<()>> Caller for F {
    fn check(&self, bytes: Range<u64>, needed: Rights) -> Result<()> {
        self(bytes, needed)
    }
}

impl Call<'_> {
    /// Has the call answered later, by the ticket, from any thread: the handler returns the other
    /// as [`CallAnswer::Later`].
    ///
    /// The caller waits as long as for any verb. It may be gone by then, and have had other calls
    /// answered over another connection: what a ticket stands for may take effect late.
    #[must_use]
    pub fn later(&self) -> (Ticket, LaterAnswer) {
        Ticket::open(self.reply.len())
    }

    /// The same call for somebody else to answer; afterwards this one's reply is there again.
    pub fn reborrow(&mut self) -> Call<'_> {
        Call {
            memory: &mut *self.memory,
            reply: &mut *self.reply,
            ..*self
        }
    }
}

impl fmt::Debug for Call<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call")
            .field("region", &self.region)
            .field("now", &self.now)
            .field("request", &self.request.len())
            .field("reply", &self.reply.len())
            .finish_non_exhaustive()
    }
}

/// A region as its owner's processors use it, while clients may read and write it one-sidedly.
///
/// Stores become visible to clients in the order in which they were made, word by word. A client's
/// READ may see any mix of the words from before and after; what is published must let it notice.
pub trait OwnerMemory {
    /// The region's length in bytes.
    fn bytes(&self) -> u64;

    /// The owner's clock, where it goes on while a handler works: [`Call::now`] is when the handler
    /// began. `None` where handlers take no time.
    fn now(&self) -> Option<Nanos> {
        None
    }

    /// The word at byte `offset`.
    ///
    /// # Errors
    /// [`FabricError::OutOfBounds`] and [`FabricError::Misaligned`]; so do all that follow.
    fn load(&self, offset: u64) -> Result<u64>;

    /// Replaces the word at byte `offset`.
    ///
    /// # Errors
    /// As [`OwnerMemory::load`].
    fn store(&mut self, offset: u64, value: u64) -> Result<()>;

    /// Replaces the word at byte `offset` by `new` if it is `expected`; returns what it was. Atomic
    /// against the atomics of clients, except where a NIC executes those.
    ///
    /// # Errors
    /// As [`OwnerMemory::load`].
    fn compare_swap(&mut self, offset: u64, expected: u64, new: u64) -> Result<u64>;

    /// Loads words from byte `offset` on.
    ///
    /// # Errors
    /// As [`OwnerMemory::load`].
    fn copy_out(&self, offset: u64, into: &mut [u64]) -> Result<()>;

    /// Stores words from byte `offset` on, the first one first.
    ///
    /// # Errors
    /// As [`OwnerMemory::load`].
    fn copy_in(&mut self, offset: u64, words: &[u64]) -> Result<()>;

    /// Begins a turn: what is stored until [`OwnerMemory::end_turn`] happens as a whole or not at
    /// all, should the owner's process be killed meanwhile and its memory be
    /// [kept](crate::keep). Clients see nothing of it before its end. No other turn may be under
    /// way in the region. Other memory does at once what it is told: it ends with its process.
    fn begin_turn(&mut self) {}

    /// Does what was stored in this turn.
    ///
    /// # Errors
    /// [`FabricError::BufferTooLarge`] of a turn that is too large, of which nothing was done.
    fn end_turn(&mut self) -> Result<()> {
        Ok(())
    }

    /// Whether this turn has stored half of what a turn may at most.
    fn is_turn_long(&self) -> bool {
        false
    }

    /// Bytes that may be noted before [`OwnerMemory::note_anew`] has to be; nothing where notes are
    /// of no use.
    fn room_for_notes(&self) -> Option<usize> {
        None
    }

    /// Notes something for the owner after this one, within a turn and as a part of it.
    fn note(&mut self, note: &[u8]) {
        let _ = note;
    }

    /// Forgets all notes, as a part of this turn.
    fn note_anew(&mut self) {}

    /// What was noted, in its order, by turns that have ended.
    fn notes(&self) -> Vec<Vec<u8>> {
        Vec::new()
    }
}

/// Checks that `words` words from byte `offset` on lie in a region of `bytes` bytes; returns the
/// number of the first.
///
/// # Errors
/// [`FabricError::OutOfBounds`] and [`FabricError::Misaligned`].
#[inline]
pub(crate) fn check_words(
    region: RegionId,
    offset: u64,
    words: usize,
    bytes: u64,
) -> Result<usize> {
    let len = words as u64 * 8;
    let at = RemoteAddr {
        node: NodeId(0),
        region,
        offset,
    };
    if !offset.is_multiple_of(8) {
        return Err(FabricError::Misaligned { at });
    }
    match offset.checked_add(len) {
        Some(end) if end <= bytes => Ok((offset / 8) as usize),
        _ => Err(FabricError::OutOfBounds {
            at,
            len,
            region_len: bytes,
        }),
    }
}
