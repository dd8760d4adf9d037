//! The errors of verbs, connections and registrations.

use super::malformed::Malformed;
use super::refusal::Refusal;
use super::tls_failure::TlsFailure;
use crate::ByteCount;
use crate::addr::{NodeId, RegionId, RemoteAddr, Rights};
use crate::timer::{InWords, Nanos};

/// The result of anything that a fabric does.
pub type Result<T> = std::result::Result<T, FabricError>;

/// A failed verb, connection or registration. Each names the value and the limit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FabricError {
    /// The endpoint was never connected to that node.
    #[error("node {} is unknown to this endpoint, which is connected to {connected}", .node.0)]
    UnknownNode {
        /// The node asked for.
        node: NodeId,
        /// How many nodes the endpoint is connected to.
        connected: usize,
    },
    /// The node has no such region.
    #[error("node {} has no region {}; it has {regions}", .node.0, .region.0)]
    UnknownRegion {
        /// The node asked.
        node: NodeId,
        /// The region asked for.
        region: RegionId,
        /// How many regions the node has.
        regions: usize,
    },
    /// A gather whose pieces are not all of one node.
    #[error("a gather has pieces of node {} and of node {}: it goes to one node", .node.0, .other.0)]
    SeveralNodes {
        /// The node of the first piece.
        node: NodeId,
        /// Another one.
        other: NodeId,
    },
    /// A verb reaches past the end of its region.
    #[error("{} at {at}: the region ends at {region_len:#x}", ByteCount(*len))]
    OutOfBounds {
        /// First byte of the access.
        at: RemoteAddr,
        /// Bytes of the access.
        len: u64,
        /// Bytes of the region.
        region_len: u64,
    },
    /// An atomic on an address that is no multiple of 8.
    #[error("an atomic at {at} is not aligned to 8 bytes")]
    Misaligned {
        /// The address of the atomic.
        at: RemoteAddr,
    },
    /// The region does not grant that verb.
    #[error("{at} needs the right to {needed}, but grants {granted}")]
    AccessDenied {
        /// The address of the verb.
        at: RemoteAddr,
        /// What the verb needs.
        needed: Rights,
        /// What the region grants this endpoint.
        granted: Rights,
    },
    /// The grant opens keys with a prefix, and a key begins otherwise; or it gives fewer rights to
    /// these than the operation needs.
    #[error("node {}: the grant opens keys with a prefix, and not this operation on this key", .node.0)]
    KeyRefused {
        /// The node.
        node: NodeId,
    },
    /// A verb needs a larger buffer than the endpoint allows.
    #[error("a buffer of {requested} bytes is over the limit of {limit}")]
    BufferTooLarge {
        /// Bytes asked for.
        requested: usize,
        /// Most bytes of one buffer.
        limit: usize,
    },
    /// The endpoint's budget for buffers is used up.
    #[error("{requested} more bytes of registered buffers would pass the budget of {budget}")]
    BuffersExhausted {
        /// Bytes asked for.
        requested: usize,
        /// Most bytes that the endpoint may register.
        budget: usize,
    },
    /// The peer has stopped, or the connection to it was lost and is not made again yet.
    #[error("node {} has stopped, or is out of reach", .node.0)]
    NodeStopped {
        /// The peer.
        node: NodeId,
        /// Whether the verb, or one of the same operation, may have been sent, and so may have
        /// taken effect: no if the peer was known to have stopped before.
        sent: bool,
    },
    /// The peer restarted with empty memory: whatever was known of it is void.
    #[error("node {} came back empty: its incarnation is no longer {expected:#x}", .node.0)]
    NodeRestarted {
        /// The peer.
        node: NodeId,
        /// The incarnation that this endpoint was connected to.
        expected: u64,
    },
    /// The peer did not answer in time. The verb may or may not have taken effect.
    #[error("node {} did not answer within {}", .node.0, InWords(*.after))]
    TimedOut {
        /// The peer.
        node: NodeId,
        /// How long the verb was waited for, in nanoseconds.
        after: Nanos,
    },
    /// The receiver's queue stayed full.
    #[error("node {} has {capacity} messages waiting and takes no more", .node.0)]
    ReceiverNotReady {
        /// The receiver.
        node: NodeId,
        /// Messages that its queue holds.
        capacity: usize,
    },
    /// The owner of the region answers no calls.
    #[error("region {} of node {} answers no calls", .region.0, .node.0)]
    NoHandler {
        /// The node called.
        node: NodeId,
        /// The region called.
        region: RegionId,
    },
    /// The owner of the region took the call, and let it go without an answer. It may or may not
    /// have taken effect.
    #[error("region {} of node {} took a call and gave it up without an answer", .region.0, .node.0)]
    Unanswered {
        /// The node called.
        node: NodeId,
        /// The region called.
        region: RegionId,
    },
    /// The fabric carries no calls.
    #[error("calls are not carried over {fabric}")]
    CallsUnsupported {
        /// The fabric.
        fabric: &'static str,
    },
    /// No running process serves that name.
    #[error("no process serves the region {name:?}")]
    NoSuchRegion {
        /// The name asked for.
        name: String,
    },
    /// A running process already serves that name.
    #[error(
        "the region name {name:?} is taken by a running process{}",
        .owner.map_or_else(String::new, |user| format!(" of user {user}"))
    )]
    NameTaken {
        /// The name asked for.
        name: String,
        /// The user that serves it, if that could be learnt.
        owner: Option<u32>,
    },
    /// An invalid region name.
    #[error("the region name {name:?} is not usable: {reason}")]
    BadName {
        /// The name asked for.
        name: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The other side belongs to another user.
    #[error("the region {name:?} belongs to user {owner}, not to user {user}")]
    WrongUser {
        /// The name asked for.
        name: String,
        /// The user that serves it.
        owner: u32,
        /// The user that asks.
        user: u32,
    },
    /// The memory is not a Farslot region.
    #[error(
        "{subject} is not a Farslot region: it starts with {found:#018x}, not {expected:#018x}"
    )]
    NotFarslot {
        /// What was looked at.
        subject: String,
        /// The first word found.
        found: u64,
        /// The first word of every Farslot region.
        expected: u64,
    },
    /// The memory is a Farslot region of another format version.
    #[error("{subject} has format version {found}; this build reads version {supported}")]
    FormatVersion {
        /// What was looked at.
        subject: String,
        /// The version found.
        found: u64,
        /// The version that this build reads and writes.
        supported: u64,
    },
    /// The region's header is inconsistent with itself or with its memory.
    #[error("{subject} has a damaged header: {reason}")]
    DamagedHeader {
        /// What was looked at.
        subject: String,
        /// What does not fit.
        reason: String,
    },
    /// The memory is that of a node whose process runs.
    #[error("{subject} is in use: the node that has it still runs")]
    MemoryInUse {
        /// What was asked for.
        subject: String,
    },
    /// A directory in which others than this user could reach what is for it alone.
    #[error("the directory {path} cannot be used: {reason}")]
    UnsafeDirectory {
        /// The directory.
        path: String,
        /// What is wrong with it.
        reason: String,
    },
    /// More memory than the machine can give.
    #[error("{requested} bytes of memory were asked for; the limit is {limit}")]
    Memory {
        /// Bytes asked for.
        requested: u64,
        /// Bytes available.
        limit: u64,
    },
    /// The memory is no longer that of the table which the client has open: another client dropped,
    /// cleared or renamed it. Nothing was posted.
    #[error("the table at {at} was dropped, cleared or renamed by another client: open it again")]
    Reclaimed {
        /// The address of the verb.
        at: RemoteAddr,
    },
    /// The node makes its tables anew from snapshots, and has none for clients before they are
    /// whole. Nothing was posted.
    #[error("node {} restores its tables: try again", .node.0)]
    Restoring {
        /// The node.
        node: NodeId,
    },
    /// The node ends, and takes no writes any more, so that its last snapshots have all that was
    /// acknowledged. This one was not posted.
    #[error("node {} ends, and takes no writes any more: try again when it is back", .node.0)]
    Ending {
        /// The node.
        node: NodeId,
    },
    /// Another client has taken the table over, whose only writer this one was. The verb was not
    /// executed.
    #[error(
        "another client has taken over from this one, which was the writer of the table at {at}"
    )]
    Deposed {
        /// The address of the verb.
        at: RemoteAddr,
        /// Whether other verbs of the same operation were sent before.
        sent: bool,
    },
    /// Every round trip to the node takes longer than the limit: it cannot be known in time whether
    /// a table is still there. Nothing was posted.
    #[error(
        "a round trip to node {} took {}; tables can be used over links of less than {}",
        .node.0, InWords(*.round_trip), InWords(*.limit)
    )]
    SlowLink {
        /// The peer.
        node: NodeId,
        /// What the last round trip took, in nanoseconds.
        round_trip: Nanos,
        /// What a round trip may take, in nanoseconds.
        limit: Nanos,
    },
    /// The verb's key is not that of the region under the connection's grant.
    #[error("{at} was asked for with a key that is not the grant's")]
    WrongKey {
        /// The address of the verb.
        at: RemoteAddr,
    },
    /// The connection's grant was revoked.
    #[error("the grant of this connection to node {} was revoked", .node.0)]
    GrantRevoked {
        /// The peer.
        node: NodeId,
    },
    /// The node refuses this client, or failed to prove that it knows the secret.
    #[error("no admission to {address}: {reason}")]
    NotAdmitted {
        /// The node's address.
        address: String,
        /// Why.
        reason: Refusal,
    },
    /// The other side violates the protocol.
    #[error("{peer} does not speak the protocol: {reason}")]
    Protocol {
        /// Who: its address.
        peer: String,
        /// What is wrong.
        reason: Malformed,
    },
    /// There can be no TLS session with the node.
    #[error("no TLS with {address}: {failure}")]
    Tls {
        /// The node's address.
        address: String,
        /// Why.
        failure: TlsFailure,
    },
    /// A certificate, a key or an authority that cannot be used for TLS.
    #[error("{subject} cannot be used for TLS: {reason}")]
    BadTls {
        /// What cannot be used.
        subject: &'static str,
        /// Why not.
        reason: String,
    },
    /// TLS is asked of a build without the cargo feature `tls`.
    #[error("this program was built without TLS (the cargo feature `tls`)")]
    NoTls,
    /// What a fabric cannot do for a grant, since the owner's processor takes no part in verbs.
    #[error("the grant {grant:?} cannot be served here: {reason}")]
    NotEnforceable {
        /// The grant.
        grant: String,
        /// What cannot be done.
        reason: &'static str,
    },
    /// A secret too short to be safe from guessing.
    #[error("a secret of {} is too short: at least {least}", ByteCount(*bytes))]
    SecretTooShort {
        /// Its bytes.
        bytes: usize,
        /// The fewest.
        least: usize,
    },
    /// A grant without a secret or certificates would be served at an address that other machines
    /// can reach, while no network is trusted and `insecure` is not set.
    #[error(
        "{address} can be reached from other machines, and the grant {grant:?} needs neither a \
         secret nor a certificate: give it one, or name the networks that are trusted"
    )]
    Insecure {
        /// The address.
        address: String,
        /// The grant without a secret.
        grant: String,
    },
    /// An address that is malformed or whose name is unknown.
    #[error("the address {address:?} cannot be resolved: {error}")]
    Unresolvable {
        /// The address.
        address: String,
        /// Why not.
        error: String,
    },
    /// Two addresses of the same node. Data meant for two nodes would end up on one.
    #[error("{address} and {other} are the same node, of incarnation {incarnation:#x}")]
    DuplicateNode {
        /// The second of the two addresses.
        address: String,
        /// The first.
        other: String,
        /// The incarnation that both reported.
        incarnation: u64,
    },
    /// Nothing listens at the address.
    #[error("{address} refused the connection: nothing listens there")]
    ConnectionRefused {
        /// The address.
        address: String,
    },
    /// Connecting took longer than the connect timeout.
    #[error("no connection to {address} within {}", InWords(*.after))]
    ConnectTimedOut {
        /// The address.
        address: String,
        /// The time it was given, in nanoseconds.
        after: Nanos,
    },
    /// Connecting failed.
    #[error("no connection to {address}: {error}")]
    Connect {
        /// The address.
        address: String,
        /// The system's error.
        error: String,
    },
    /// The address is already in use.
    #[error("the address {address} is in use")]
    AddressInUse {
        /// The address.
        address: String,
    },
    /// The address is not this machine's, or this user may not listen at it.
    #[error("nothing can be served at {address}: {error}")]
    CannotListen {
        /// The address.
        address: String,
        /// The system's error.
        error: String,
    },
    /// An option outside its limits.
    #[error("{option} is {value}: it must be {limit}")]
    BadOption {
        /// The option.
        option: &'static str,
        /// Its value.
        value: u64,
        /// The values allowed.
        limit: &'static str,
    },
    /// No usable RDMA device, or no library for it.
    #[error("no RDMA device: {reason}")]
    NoRdmaDevice {
        /// The reason, and what to install if something is missing.
        reason: String,
    },
    /// The process may not lock as much memory as the NIC needs.
    #[error(
        "a NIC needs {needed} bytes of memory to be locked, {locked} are locked already, and the limit of \
         locked memory (RLIMIT_MEMLOCK) is {limit}: raise it by `ulimit -l unlimited`, by a line \
         `* - memlock unlimited` in /etc/security/limits.conf, or by `LimitMEMLOCK=infinity` in the \
         service's unit"
    )]
    LockedMemory {
        /// Bytes to be registered.
        needed: u64,
        /// Bytes that the process had locked before.
        locked: u64,
        /// The limit, in bytes.
        limit: u64,
    },
    /// The RDMA device has no free queue pair.
    #[error(
        "the RDMA device {device} gives no more queue pairs (it says that it has {limit}): {error}"
    )]
    NoQueuePair {
        /// The device.
        device: String,
        /// How many it reports; other processes use them as well.
        limit: u32,
        /// The system's error.
        error: String,
    },
    /// A gather with more pieces than the send queue holds requests.
    #[error(
        "a gather of {pieces} pieces takes as many requests: the send queue has {limit} places"
    )]
    TooManyPieces {
        /// Its pieces.
        pieces: usize,
        /// Requests that the send queue holds.
        limit: usize,
    },
    /// Memory that both a NIC and processors would use.
    #[error(
        "the memory is {used} and so cannot be {wanted}: a NIC's atomics are not atomic against a \
         processor's"
    )]
    NicAndProcessor {
        /// How it is used.
        used: &'static str,
        /// The second use that was asked for.
        wanted: &'static str,
    },
    /// The operating system refused a call.
    #[error("{call} failed: {error}")]
    Os {
        /// The call.
        call: &'static str,
        /// The system's error.
        error: String,
    },
}

impl FabricError {
    /// Whether the failed verb may have taken effect.
    #[must_use]
    pub const fn may_have_taken_effect(&self) -> bool {
        matches!(
            self,
            Self::NodeStopped { sent: true, .. }
                | Self::Deposed { sent: true, .. }
                | Self::NodeRestarted { .. }
                | Self::TimedOut { .. }
                | Self::Unanswered { .. }
                | Self::Protocol { .. }
                // The bytes of a message are written before the message.
                | Self::ReceiverNotReady { .. }
        )
    }

    /// The same error of something of which other parts may have been sent.
    #[must_use]
    pub fn in_doubt(self) -> Self {
        self.of_unsent(true)
    }

    /// The error of a verb that was refused as it was posted: so it was not sent, and its operation
    /// has taken effect only if others of its verbs were.
    pub(crate) fn of_unsent(mut self, others_were_sent: bool) -> Self {
        if let Self::NodeStopped { sent, .. } | Self::Deposed { sent, .. } = &mut self {
            *sent = others_were_sent;
        }
        self
    }

    /// Whether connecting may succeed later without a change of address, secret or program: the
    /// node is down, unreachable or overloaded, restores its tables, or ends.
    #[must_use]
    pub const fn is_outage(&self) -> bool {
        match self {
            Self::NodeStopped { .. }
            | Self::TimedOut { .. }
            | Self::ConnectionRefused { .. }
            | Self::ConnectTimedOut { .. }
            | Self::Connect { .. }
            | Self::Restoring { .. }
            | Self::Ending { .. } => true,
            Self::NotAdmitted { reason, .. } => reason.is_passing(),
            _ => false,
        }
    }
}

/// Turns the error of a system call into [`FabricError::Os`].
pub(crate) fn os<E: std::fmt::Display>(call: &'static str) -> impl Fn(E) -> FabricError {
    move |error| FabricError::Os {
        call,
        error: error.to_string(),
    }
}
