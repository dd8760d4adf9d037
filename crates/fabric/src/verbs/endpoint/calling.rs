//! The calls of a peer: when they are sent and taken, and what their end means for its connection.

use super::calls::ChannelFailure;
use super::common::{CompletionCount, PeerContext};
use super::peer::{State, VerbsPeer};
use super::setup::SetupNotice;
use crate::net::peers::NetworkPeer as _;
use crate::verbs::abi::IBV_WC_RETRY_EXC_ERR;
use crate::verbs::rooms::Half;
use crate::{FabricError, Nanos};

impl VerbsPeer {
    /// Sends the calls that there is room for; returns what failed at once.
    pub(super) fn send_calls(
        &mut self,
        common: &PeerContext<'_>,
        now: impl Fn() -> Nanos,
    ) -> CompletionCount {
        if self.is_revoked() {
            let revoked = FabricError::GrantRevoked { node: self.node };
            return self.calls.fail_unsent(&revoked, common);
        }
        let (State::Open, Some(connection)) = (self.state, &self.connection) else {
            return CompletionCount::default();
        };
        let sent = self.calls.send(&connection.made.setup, common, &now);
        self.unless_broken(sent, common)
    }

    /// Takes the replies that have come, and sends the calls that waited for them.
    #[inline]
    pub(super) fn take_replies(
        &mut self,
        common: &PeerContext<'_>,
        now: impl Fn() -> Nanos,
    ) -> CompletionCount {
        if !self.calls.is_waiting() {
            return CompletionCount::default();
        }
        let (mut done, broken) = self.calls.take(self.node, common, &now);
        if let Some(broken) = broken {
            done += self.unless_broken(Err(broken), common);
        } else {
            done += self.send_calls(common, now);
        }
        done
    }

    /// Takes the agent's end of a queue pair for calls, and sends those that waited for it.
    pub(super) fn take_called(
        &mut self,
        half: Option<Half>,
        common: &PeerContext<'_>,
        now: Nanos,
    ) -> CompletionCount {
        let opened = self.calls.opened(half, common, now);
        let mut done = self.unless_broken(opened, common);
        done += self.send_calls(common, || now);
        done
    }

    /// Ends the connection if its calls are at an end.
    fn unless_broken(
        &mut self,
        done: std::result::Result<CompletionCount, ChannelFailure>,
        common: &PeerContext<'_>,
    ) -> CompletionCount {
        let node = self.node;
        let broken = match done {
            Ok(done) => return done,
            Err(broken) => broken,
        };
        let error = match broken {
            ChannelFailure::Status(IBV_WC_RETRY_EXC_ERR, _)
                if matches!(self.hear(), SetupNotice::Nothing) =>
            {
                FabricError::TimedOut {
                    node,
                    after: common.verb_timeout,
                }
            }
            ChannelFailure::Status(status, vendor) => {
                let address = self.address();
                log::warn!("{address}: a call failed with status {status} ({vendor:#x})");
                FabricError::NodeStopped { node, sent: true }
            }
            ChannelFailure::Malformed(reason) => FabricError::Protocol {
                peer: self.address().to_owned(),
                reason,
            },
            ChannelFailure::Failed(error) => {
                log::warn!("{}: {error}", self.address());
                FabricError::NodeStopped { node, sent: true }
            }
        };
        self.break_with(&error, self.later(), common)
    }

    /// Has the channel of completions tell of the next reply, if it would not.
    pub(super) fn arm_calls(&mut self) -> bool {
        self.calls.arm()
    }
}
