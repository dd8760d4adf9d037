//! The set-up connection after set-up: it says when the node has gone, when the grant is revoked,
//! and why a verb was refused.

use crate::error::Malformed;
use crate::error::Refusal;
use crate::net::admission::handshake::{REFUSED_WORDS, decode_refused};
use crate::net::socket::{self, Io};
use crate::net::wire::{FAILURE_WORDS, FrameKind, Header, decode_failure};
use crate::verbs::path::{self, RefusedVerb};
use crate::verbs::rooms::{CALLS_WORDS, Half};
use crate::{FabricError, NodeId};
use std::net::{Shutdown, TcpStream};

pub(super) struct Setup {
    stream: TcpStream,
    /// What has come and is no whole frame yet.
    heard: Vec<u8>,
    revoked: bool,
}

/// What the connection says.
pub(super) enum SetupNotice {
    Nothing,
    /// The agent serves this client no more.
    Refused(Refusal),
    /// The answer to the question why a verb was refused.
    Explained(FabricError),
    /// The agent's end of a queue pair for calls; nothing if it has no more of them.
    Called(Option<Half>),
    /// It is over.
    Closed,
    Malformed(Malformed),
}

impl Setup {
    pub(super) fn new(stream: TcpStream) -> Self {
        Self {
            stream,
            heard: Vec::new(),
            revoked: false,
        }
    }

    /// What to poll for news, and what ends with the connection.
    pub(super) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Whether the agent has said that the grant is revoked.
    pub(super) fn is_revoked(&self) -> bool {
        self.revoked
    }

    /// Asks why a verb was refused.
    pub(super) fn ask(&self, verb: &RefusedVerb) {
        self.tell(&path::ask(verb));
    }

    /// Sends a frame.
    pub(super) fn tell(&self, frame: &[u64]) {
        // A connection that takes no word has ended, which is heard next.
        let _ = socket::send(&self.stream, bytemuck::cast_slice(frame));
    }

    /// Listens, without waiting; returns the next thing that was said by `node`.
    pub(super) fn hear(&mut self, node: NodeId) -> SetupNotice {
        loop {
            if let Some(news) = self.next_frame(node) {
                return news;
            }
            let mut bytes = [0; 64];
            match socket::receive(&self.stream, &mut bytes) {
                Io::Moved(count) => self.heard.extend(&bytes[..count]),
                Io::Blocked => return SetupNotice::Nothing,
                Io::Closed => return SetupNotice::Closed,
            }
        }
    }

    fn next_frame(&mut self, node: NodeId) -> Option<SetupNotice> {
        let first = self.heard.first_chunk::<8>()?;
        let header = match Header::decode(u64::from_le_bytes(*first)) {
            Ok(header) => header,
            Err(malformed) => return Some(SetupNotice::Malformed(malformed)),
        };
        let words = match header.kind {
            FrameKind::Refused => REFUSED_WORDS,
            FrameKind::Failure => FAILURE_WORDS,
            FrameKind::Called => CALLS_WORDS,
            kind => {
                return Some(SetupNotice::Malformed(Malformed::Kind {
                    found: kind as u8,
                }));
            }
        };
        if header.words as usize != words {
            return Some(SetupNotice::Malformed(Malformed::Length {
                words: header.words,
                limit: words as u32,
            }));
        }
        if self.heard.len() < words * 8 {
            return None;
        }
        let frame: Vec<u8> = self.heard.drain(..words * 8).collect();
        let words: Vec<u64> = frame
            .chunks_exact(8)
            .map(bytemuck::pod_read_unaligned)
            .collect();
        if header.kind == FrameKind::Called {
            // As long as its kind has to be.
            let frame = words.first_chunk().copied().unwrap_or_default();
            return Some(match Half::decode(frame) {
                Ok(half) => SetupNotice::Called(half),
                Err(malformed) => SetupNotice::Malformed(malformed),
            });
        }
        if let [_, a, b, c, d] = *words {
            return Some(match decode_failure([a, b, c, d], node) {
                Ok(error) => SetupNotice::Explained(error),
                Err(malformed) => SetupNotice::Malformed(malformed),
            });
        }
        Some(match decode_refused(&words) {
            Some(refusal) => {
                self.revoked |= refusal == Refusal::GrantRevoked;
                SetupNotice::Refused(refusal)
            }
            None => SetupNotice::Malformed(Malformed::Handshake {
                reason: "a refusal that is not known",
            }),
        })
    }

    /// Ends the connection: the agent lets the queue pair go.
    pub(super) fn close(&self) {
        // It may have ended already.
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}
