//! Verbs that take several turns: a message that waits for its receiver, and large READs and
//! WRITEs, which are moved in pieces, so that the agent needs no memory of their size.
//!
//! A piece ends at a word, and only what starts at a word is moved so: every aligned word is still
//! read and written whole. Rights and bounds were checked when the verb began. A grant that is
//! revoked meanwhile ends the verb where it is.

use crate::memory::mailbox;
use crate::net::admission::Issued;
use crate::net::agent::{ExecutionPause, Quota, ServedNode};
use crate::net::stream::Outbound;
use crate::net::wire::{FrameKind, READ_WORDS, Span, WirePieces, words_of};
use crate::{FabricError, Message, NodeId, Result, Rights};
use std::time::Instant;

/// What has begun and is not done.
pub(super) enum Begun {
    /// A message that its receiver has no room for; its bytes are written.
    Stalled { message: Message, until: Instant },
    /// So many bytes of a WRITE are to come, and go to that byte of the node's memory; then its
    /// message is put.
    Placing {
        byte: u64,
        bytes: u32,
        message: Option<Message>,
    },
    /// So many words of a verb that was refused are to come.
    Skipping { words: usize },
    /// So many bytes from that byte of the node's memory on are to be sent, in a frame that has
    /// begun; and then so many pieces, which lie in the input.
    Copying {
        byte: u64,
        bytes: u32,
        pieces: usize,
    },
}

/// What came of going on.
pub(super) enum PartProgress {
    /// It is done, and so are so many words of the input; a message is to be put.
    Done(usize, Option<Message>),
    /// So many words of the input are done, and this is left of it.
    Waits(usize, Begun, ExecutionPause),
    /// So many words of the input are done, and it failed; so many more are to be skipped.
    Failed(usize, FabricError, usize),
    /// It failed, and nothing can be told any more.
    Cut,
}

/// What going on needs to know.
pub(super) struct PartContext<'s> {
    pub(super) served: &'s ServedNode,
    pub(super) grant: &'s Issued,
    /// The byte of the node's memory at which a piece of a gather starts.
    pub(super) locate: &'s dyn Fn(Span) -> Result<u64>,
    /// Whether bytes of the memory are opened to the client still.
    pub(super) is_open: &'s dyn Fn(u64, u64, Rights) -> bool,
}

impl Begun {
    /// Goes on with it, as far as the input and the quota reach.
    pub(super) fn go_on(
        self,
        input: &[u64],
        out: &mut Outbound,
        around: &PartContext<'_>,
        quota: &mut Quota,
    ) -> PartProgress {
        let revoked = around.grant.is_revoked();
        let gone = FabricError::GrantRevoked { node: NodeId(0) };
        let memory = around.served.node.words();
        match self {
            Self::Stalled { message, until } => {
                if !revoked && mailbox::put(memory, message) {
                    PartProgress::Done(0, None)
                } else if revoked || Instant::now() >= until {
                    // Its bytes are written, whatever becomes of the message: no other error says
                    // so.
                    let error = FabricError::ReceiverNotReady {
                        node: NodeId(0),
                        capacity: mailbox::CAPACITY as usize,
                    };
                    PartProgress::Failed(0, error, 0)
                } else {
                    PartProgress::Waits(
                        0,
                        Self::Stalled { message, until },
                        ExecutionPause::Stalled,
                    )
                }
            }
            Self::Placing { byte, bytes, .. }
                if revoked || !(around.is_open)(byte, bytes.into(), Rights::WRITE) =>
            {
                PartProgress::Failed(0, gone, words_of(bytes))
            }
            Self::Placing {
                byte,
                bytes,
                message,
            } => {
                let words = input.len().min(words_of(bytes));
                let placed = bytes.min(u32::try_from(words * 8).unwrap_or(u32::MAX));
                memory.copy_in(byte, placed as usize, &input[..words]);
                quota.spend(words * 8);
                if placed == bytes {
                    return PartProgress::Done(words, message);
                }
                let rest = Self::Placing {
                    byte: byte + u64::from(placed),
                    bytes: bytes - placed,
                    message,
                };
                PartProgress::Waits(words, rest, ExecutionPause::Hungry(1))
            }
            Self::Skipping { words } => {
                let here = input.len().min(words);
                quota.spend(here);
                if here == words {
                    return PartProgress::Done(here, None);
                }
                let words = words - here;
                PartProgress::Waits(here, Self::Skipping { words }, ExecutionPause::Hungry(1))
            }
            Self::Copying { byte, bytes, .. }
                if revoked || !(around.is_open)(byte, bytes.into(), Rights::READ) =>
            {
                PartProgress::Cut
            }
            Self::Copying {
                byte,
                bytes,
                pieces,
            } => copy(byte, bytes, pieces, input, out, around, quota),
        }
    }
}

/// Copies as much of an answer as may wait to be sent.
fn copy(
    mut byte: u64,
    mut bytes: u32,
    mut pieces: usize,
    input: &[u64],
    out: &mut Outbound,
    around: &PartContext<'_>,
    quota: &mut Quota,
) -> PartProgress {
    let memory = around.served.node.words();
    let mut all = WirePieces::new(input, pieces);
    let mut used = 0;
    loop {
        let room = quota.unsent.saturating_sub(out.unsent()).min(quota.work);
        let aligned = u32::try_from(room / 8 * 8).unwrap_or(u32::MAX - 7);
        let copied = bytes.min(aligned);
        memory.append_to(byte, copied as usize, out.end());
        quota.spend(copied as usize);
        byte += u64::from(copied);
        bytes -= copied;
        if bytes > 0 || pieces > 0 && quota.work == 0 {
            let rest = Begun::Copying {
                byte,
                bytes,
                pieces,
            };
            let pause = if quota.work < 8 {
                quota.work = 0;
                ExecutionPause::Spent
            } else {
                ExecutionPause::Full
            };
            return PartProgress::Waits(used, rest, pause);
        }
        let Some(piece) = all.next() else {
            return PartProgress::Done(used, None);
        };
        used += READ_WORDS;
        pieces -= 1;
        quota.spend(Quota::VERB);
        match (around.locate)(piece) {
            Ok(at) => (byte, bytes) = (at, piece.len),
            // It was granted when the verb began.
            Err(_) => return PartProgress::Cut,
        }
    }
}

/// Begins the answer to a READ or a gather of so many words in all, whose pieces begin at words.
pub(super) fn begin_copying(
    words: usize,
    (byte, bytes): (u64, u32),
    pieces: usize,
    out: &mut Outbound,
) -> Begun {
    out.begin(FrameKind::Completions, words);
    Begun::Copying {
        byte,
        bytes,
        pieces,
    }
}
