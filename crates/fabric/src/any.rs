//! An endpoint of any fabric, so that code above is compiled once for all of them.
//!
//! It costs one branch a verb, which is negligible beside a system call or a NIC. Over shared
//! memory, where a verb is a few loads, batches ask for the memory [in place](Endpoint::in_place).

use crate::shm::ShmEndpoint;
use crate::sim::SimEndpoint;
use crate::tcp::TcpEndpoint;
use crate::verbs::VerbsEndpoint;
use crate::{
    Buffer, Completion, Endpoint, EndpointCore, InPlace, Nanos, NodeId, NodeInfo, NodeState,
    OwnerEndpoint, PostError, RemoteAddr, Result, Rights, Verb,
};
use std::rc::Rc;
use std::task::{Context, Poll};

/// An endpoint of one of the fabrics. It forwards every call.
#[allow(missing_docs, reason = "each is named after its fabric")]
#[derive(Debug)]
pub enum AnyEndpoint {
    Sim(Rc<SimEndpoint>),
    Shm(ShmEndpoint),
    Tcp(TcpEndpoint),
    Verbs(VerbsEndpoint),
    Owner(Rc<OwnerEndpoint>),
}

/// A verb that one of them has posted.
#[allow(missing_docs, reason = "each is named after its fabric")]
#[derive(Debug)]
pub enum AnyPosted {
    Sim(<SimEndpoint as Endpoint>::Posted),
    Shm(<ShmEndpoint as Endpoint>::Posted),
    Tcp(<TcpEndpoint as Endpoint>::Posted),
    Verbs(<VerbsEndpoint as Endpoint>::Posted),
    Owner(<OwnerEndpoint as Endpoint>::Posted),
}

/// Asks the endpoint, whichever it is.
macro_rules! ask {
    ($any:expr, $endpoint:ident => $question:expr) => {
        match $any {
            AnyEndpoint::Sim($endpoint) => $question,
            AnyEndpoint::Shm($endpoint) => $question,
            AnyEndpoint::Tcp($endpoint) => $question,
            AnyEndpoint::Verbs($endpoint) => $question,
            AnyEndpoint::Owner($endpoint) => $question,
        }
    };
}

/// Posts with the endpoint, whichever it is.
macro_rules! post {
    ($any:expr, $endpoint:ident => $posting:expr) => {
        match $any {
            AnyEndpoint::Sim($endpoint) => $posting.map(AnyPosted::Sim),
            AnyEndpoint::Shm($endpoint) => $posting.map(AnyPosted::Shm),
            AnyEndpoint::Tcp($endpoint) => $posting.map(AnyPosted::Tcp),
            AnyEndpoint::Verbs($endpoint) => $posting.map(AnyPosted::Verbs),
            AnyEndpoint::Owner($endpoint) => $posting.map(AnyPosted::Owner),
        }
    };
}

/// Asks the endpoint for what it has posted.
macro_rules! poll {
    ($any:expr, $all:expr, $endpoint:ident, $posted:ident => $poll:expr) => {
        match ($any, $all) {
            (AnyEndpoint::Sim($endpoint), AnyPosted::Sim($posted)) => $poll,
            (AnyEndpoint::Shm($endpoint), AnyPosted::Shm($posted)) => $poll,
            (AnyEndpoint::Tcp($endpoint), AnyPosted::Tcp($posted)) => $poll,
            (AnyEndpoint::Verbs($endpoint), AnyPosted::Verbs($posted)) => $poll,
            (AnyEndpoint::Owner($endpoint), AnyPosted::Owner($posted)) => $poll,
            _ => unreachable!("an endpoint is asked for what it has posted itself"),
        }
    };
}

impl Endpoint for AnyEndpoint {
    type Posted = AnyPosted;

    fn core(&self) -> &EndpointCore {
        ask!(self, endpoint => endpoint.core())
    }

    fn node_count(&self) -> usize {
        ask!(self, endpoint => endpoint.node_count())
    }

    fn node(&self, node: NodeId) -> Result<NodeInfo> {
        ask!(self, endpoint => endpoint.node(node))
    }

    fn node_state(&self, node: NodeId) -> Result<NodeState> {
        ask!(self, endpoint => endpoint.node_state(node))
    }

    fn adopt(&self, node: NodeId) -> Result<NodeInfo> {
        ask!(self, endpoint => endpoint.adopt(node))
    }

    fn post(&self, verb: Verb) -> std::result::Result<AnyPosted, PostError> {
        post!(self, endpoint => endpoint.post(verb))
    }

    fn post_read(
        &self,
        from: RemoteAddr,
        into: Buffer,
    ) -> std::result::Result<AnyPosted, PostError> {
        post!(self, endpoint => endpoint.post_read(from, into))
    }

    #[inline]
    fn in_place(&self, at: RemoteAddr, needed: Rights) -> Option<InPlace<'_>> {
        match self {
            Self::Shm(endpoint) => endpoint.in_place(at, needed),
            Self::Sim(_) | Self::Tcp(_) | Self::Verbs(_) | Self::Owner(_) => None,
        }
    }

    fn fence(&self, word: RemoteAddr, holds: u64) -> bool {
        ask!(self, endpoint => endpoint.fence(word, holds))
    }

    fn fence_lasts(&self) -> Nanos {
        ask!(self, endpoint => endpoint.fence_lasts())
    }

    fn call_cost(&self) -> f64 {
        ask!(self, endpoint => endpoint.call_cost())
    }

    fn poll_posted(
        &self,
        posted: &mut AnyPosted,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Completion>> {
        poll!(self, posted, endpoint, posted => endpoint.poll_posted(posted, cx))
    }

    fn poll_read(&self, posted: &mut AnyPosted, cx: &mut Context<'_>) -> Poll<Result<Buffer>> {
        poll!(self, posted, endpoint, posted => endpoint.poll_read(posted, cx))
    }

    fn ring_doorbell(&self) {
        ask!(self, endpoint => endpoint.ring_doorbell());
    }

    fn poll_completions(&self) -> usize {
        ask!(self, endpoint => endpoint.poll_completions())
    }

    fn now(&self) -> Nanos {
        ask!(self, endpoint => endpoint.now())
    }

    fn wait(&self, deadline: Option<Nanos>, idle_turns: u32) {
        ask!(self, endpoint => endpoint.wait(deadline, idle_turns));
    }
}
