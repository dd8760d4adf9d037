//! Calls to a node whose memory is mapped, and whose owner is another process.
//!
//! An endpoint's first call to such a node opens a *channel*: memory that its process and the owner
//! share with nobody else, and the Unix socket over which it was handed out. Requests go through
//! one ring of words, replies through another, each in the order of the other; what is longer than
//! a ring goes in pieces. One thread of the owner serves all channels, however many there are, and
//! whether or not the application ever polls.
//!
//! **Sleep.** Each side looks at its ring for a while, then says in the channel that it sleeps, and
//! waits for its socket. Whoever has put something for a sleeper sends it a byte. So neither side
//! uses a processor for long while nothing comes, and no wake-up costs a system call while both are
//! awake.
//!
//! **Death.** The kernel ends the socket with its process, which wakes the other side: calls
//! without a reply fail, and may have been executed.
//!
//! **Malice.** A client may write anything into its own channel, and into no other's. The owner
//! keeps its places in the rings itself, takes a request out before it looks at it, bounds its
//! work for a channel in each round, and drops a channel that makes no sense. A channel holds its
//! two rings, one request and one reply of at most [`LONGEST`] bytes; a node has at most
//! [`MOST_CHANNELS`].
//!
//! **Order.** Calls of an endpoint begin in the order of their posting, each after the one before
//! has ended. Other verbs are the thread's own loads and stores and do not wait for them: what must
//! see a call's effects begins after its reply. After a call was not answered in time no other of
//! its channel begins, and the channel ends; the one that the owner is at may still take effect.

mod answering;
mod asking;
mod channel;
#[cfg(test)]
mod tests;

pub(super) use answering::RingCallService;
pub(super) use asking::{CallChannels, OutgoingCall};
#[cfg(doc)]
use channel::LONGEST;

/// Channels that a node's owner has open at most.
const MOST_CHANNELS: usize = 256;
