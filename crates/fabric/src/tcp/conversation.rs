//! A conversation between a client and an agent in memory, for fuzzing.

use super::executing::Executing;
use super::options::AgentOptions;
use crate::Result;
use crate::error::Malformed;
use crate::memory::Node;
use crate::net::Reports;
use crate::net::agent::{AgentCore, Dialogue, DisconnectReason, ExecutionPause, Quota, Warn};
use crate::net::stream::{Inbound, Outbound};
use crate::net::wire::FrameKind;
use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::task::Waker;

/// What an [`Agent`](super::Agent) does with one connection, without a connection and without
/// threads: bytes in, bytes out. It is the same code, so that fuzzing it in memory is fuzzing an
/// agent.
pub struct Conversation {
    shared: AgentCore,
    dialogue: Dialogue,
    input: Inbound,
    out: Outbound,
    reports: Reports,
    is_over: bool,
}

impl fmt::Debug for Conversation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Conversation")
            .field("is_over", &self.is_over)
            .finish_non_exhaustive()
    }
}

impl Conversation {
    /// A new conversation with an agent of this node, with these limits and grants.
    ///
    /// # Errors
    /// [`FabricError::BadOption`](crate::FabricError::BadOption); as
    /// [`Agent::grant`](super::Agent::grant).
    pub fn new(node: Node, options: &AgentOptions) -> Result<Self> {
        let service = Executing::new(&node)?;
        let workers = options.workers();
        let shared = AgentCore::new(
            node,
            &options.serve,
            &workers,
            Vec::new(),
            Box::new(service),
        )?;
        for grant in &options.serve.grants {
            let node = shared.served.node.info();
            shared.grants.issue(grant, node, shared.room_of_a_grant)?;
        }
        Ok(Self {
            shared,
            dialogue: Dialogue::new(None),
            input: Inbound::default(),
            out: Outbound::default(),
            reports: Reports::new(None),
            is_over: false,
        })
    }

    /// What the agent answers to these bytes and to what was not whole before them. A message that
    /// waits for its receiver waits for the next call, and so does a call that is answered later.
    ///
    /// # Errors
    /// [`Malformed`]: an agent would close the connection, and log this. Nothing is answered from
    /// then on.
    pub fn hear(&mut self, bytes: &[u8]) -> std::result::Result<Vec<u8>, Malformed> {
        let mut answers = Vec::new();
        if self.is_over {
            return Ok(answers);
        }
        self.input.push(bytes);
        loop {
            let warn = Warn {
                peer: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
                certificate: None,
                reports: &mut self.reports,
                bell: Waker::noop(),
            };
            let mut quota = Quota {
                work: Quota::TURN,
                unsent: self.shared.served.unsent_bytes,
                at_once: self.shared.served.unsent_bytes,
                verbs: usize::MAX,
            };
            let (input, out) = (&mut self.input, &mut self.out);
            let gone_on = self
                .dialogue
                .go_on(input, out, &self.shared, &mut quota, warn);
            self.out.take_bytes(FrameKind::Completions, &mut answers);
            match gone_on {
                Ok((ExecutionPause::Full | ExecutionPause::Spent | ExecutionPause::Resting, _)) => {
                }
                // Refused or cut it is never here: the dialogue has told so already.
                Ok((
                    ExecutionPause::Hungry(_)
                    | ExecutionPause::Stalled
                    | ExecutionPause::Unanswered
                    | ExecutionPause::Refused(_)
                    | ExecutionPause::Cut,
                    _,
                )) => {
                    return Ok(answers);
                }
                Err(end) => {
                    self.is_over = true;
                    return match end {
                        DisconnectReason::Malformed(reason) => Err(reason),
                        DisconnectReason::Closed
                        | DisconnectReason::Replaced
                        | DisconnectReason::Revoked => Ok(answers),
                    };
                }
            }
        }
    }
}
