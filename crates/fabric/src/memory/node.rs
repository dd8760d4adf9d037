//! A node's memory with its regions, as its owner or an attached client holds it.

use super::header::Header;
use super::journal::JournalPlacement;
use super::mailbox;
use super::mapping::Mapping;
use super::owner::{RegionWords, now};
use crate::words::SharedWords;
use crate::{
    Call, CallAnswer, Caller, FabricError, Handler, Inbox, Message, Nanos, NodeId, NodeInfo,
    OwnerMemory, RegionId, RegionInfo, Result, Rights,
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::any::Any;
use std::fmt;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};

/// A region to be registered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RegionSpec {
    /// Its length in bytes; rounded up to a multiple of 8.
    pub len: u64,
    /// What clients may do to it.
    pub rights: Rights,
}

/// Who serves a node's memory within this process, besides what is mapped or attached.
#[derive(Default)]
struct Users {
    /// Agents whose threads execute verbs.
    agents: usize,
    /// Holders of its words, whose processors execute atomics.
    words: usize,
    /// The inbox of the agent whose NIC does.
    nic: Option<Weak<dyn NicInbox>>,
}

/// Where the messages are that a NIC has received.
pub(crate) trait NicInbox: Send + Sync {
    /// The oldest message that was not taken yet.
    fn take_message(&self) -> Option<Message>;
}

/// Says that an agent executes verbs on a node's memory, for as long as it is held.
pub(crate) struct AgentClaim(Node);

impl Drop for AgentClaim {
    fn drop(&mut self) {
        self.0.users().agents -= 1;
    }
}

/// Says that processors of this process use a node's words, for as long as it is held.
pub(crate) struct MapClaim(Node);

impl MapClaim {
    pub(crate) fn node(&self) -> &Node {
        &self.0
    }
}

impl Drop for MapClaim {
    fn drop(&mut self) {
        self.0.users().words -= 1;
    }
}

/// Says that a NIC executes verbs on a node's memory, for as long as it is held, and that no
/// processor of this process may.
pub(crate) struct NicClaim(Node);

impl Drop for NicClaim {
    fn drop(&mut self) {
        let mut users = self.0.users();
        users.nic = None;
        self.0.inner.barred.store(false, Ordering::Release);
    }
}

/// What goes with a node's memory: threads that serve its name, or one that watches its owner.
pub(crate) type Companion = Arc<dyn Any + Send + Sync>;

/// The memory of one node. Cloning shares it; the memory goes when the last holder does.
#[derive(Clone)]
pub struct Node {
    inner: Arc<MappedNode>,
    /// Beside the memory, and not within, so that its own threads can hold that.
    companion: Option<Companion>,
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node")
            .field("info", &self.inner.info)
            .field("is_gone", &self.is_gone())
            .finish_non_exhaustive()
    }
}

/// A node's memory, for who must not keep it.
#[derive(Clone)]
pub struct WeakNode {
    inner: Weak<MappedNode>,
    companion: Option<Weak<dyn Any + Send + Sync>>,
}

impl fmt::Debug for WeakNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("WeakNode").field(&self.upgrade()).finish()
    }
}

impl WeakNode {
    /// The memory, while somebody keeps it.
    #[must_use]
    pub fn upgrade(&self) -> Option<Node> {
        let companion = match &self.companion {
            Some(companion) => Some(companion.upgrade()?),
            None => None,
        };
        let inner = self.inner.upgrade()?;
        Some(Node { inner, companion })
    }
}

struct MappedNode {
    memory: Mapping,
    info: NodeInfo,
    starts: Vec<u64>,
    kept: bool,
    /// Of kept memory of this process's.
    journal: Option<JournalPlacement>,
    /// The processors of this process may not use the memory any more: its owner has ended, or a
    /// NIC serves it.
    barred: Arc<AtomicBool>,
    users: Mutex<Users>,
    /// What answers calls, on whichever thread they come to.
    handler: RwLock<Option<Arc<dyn Handler>>>,
}

impl Node {
    /// A node within this process. Its memory is anonymous: no other process can reach it.
    ///
    /// # Errors
    /// [`Memory`](crate::FabricError::Memory) beyond what the machine has.
    pub fn embedded(regions: &[RegionSpec]) -> Result<Self> {
        let mut header = lay_out(regions)?;
        let memory = Mapping::anonymous(header.bytes)?;
        header.info.page_bytes = memory.page_bytes;
        header.write(SharedWords::new(memory.words()));
        Ok(Self::new(memory, header, Arc::default()))
    }

    /// A node without a companion.
    pub(crate) fn new(memory: Mapping, header: Header, barred: Arc<AtomicBool>) -> Self {
        let inner = MappedNode {
            journal: header.journal(),
            memory,
            info: header.info,
            starts: header.starts,
            kept: header.kept,
            barred,
            users: Mutex::default(),
            handler: RwLock::default(),
        };
        Self {
            inner: Arc::new(inner),
            companion: None,
        }
    }

    /// The same memory with what is dropped when the last holder of both is.
    pub(crate) fn with_companion(self, companion: Companion) -> Self {
        Self {
            companion: Some(companion),
            ..self
        }
    }

    /// What goes with the memory, if it is one of these.
    pub(crate) fn companion<C: Any>(&self) -> Option<&C> {
        self.companion.as_ref()?.downcast_ref()
    }

    /// The same memory, without keeping it: what its own handler holds.
    #[must_use]
    pub fn downgrade(&self) -> WeakNode {
        WeakNode {
            inner: Arc::downgrade(&self.inner),
            companion: self.companion.as_ref().map(Arc::downgrade),
        }
    }

    /// Has calls to the node answered by a handler, in place of the one before. It runs on the
    /// threads that calls come to: those of the agents that serve the memory, and those of clients
    /// in this process.
    pub fn serve_calls(&self, handler: Arc<dyn Handler>) {
        let place = self.inner.handler.write();
        *place.unwrap_or_else(PoisonError::into_inner) = Some(handler);
    }

    /// What answers calls to one of the regions.
    pub(crate) fn handler(&self, node: NodeId, region: RegionId) -> Result<Arc<dyn Handler>> {
        let handler = self
            .inner
            .handler
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        handler
            .clone()
            .ok_or(FabricError::NoHandler { node, region })
    }

    /// Has a handler answer a call to a region that there is, in no more bytes than there is room
    /// for.
    pub(crate) fn answer_call(
        &self,
        handler: &dyn Handler,
        region: RegionId,
        request: &[u8],
        reply: &mut [u8],
        caller: &dyn Caller,
    ) -> CallAnswer {
        let mut memory = self.owner_memory(region);
        let room = reply.len();
        let call = Call {
            region,
            now: now(),
            request,
            memory: &mut memory,
            reply,
            caller,
        };
        match handler.handle(call) {
            CallAnswer::Now(bytes) => CallAnswer::Now(bytes.min(room)),
            CallAnswer::Later(later) => CallAnswer::Later(later.within(room)),
        }
    }

    /// A region that there is, for the owner's processors.
    fn owner_memory(&self, region: RegionId) -> RegionWords<'_> {
        let index = usize::from(region.0);
        RegionWords {
            words: self.words(),
            region,
            start: self.start_of(index),
            bytes: self.inner.info.regions[index].len,
            journal: self.inner.journal.filter(|_| index == 0),
            entry: None,
        }
    }

    /// Uses the memory of a region as a handler of the node does that is called now, by the owner's
    /// clock. For threads of the handler's own, which [go on](Handler::go_on) with what it answers
    /// later.
    ///
    /// # Errors
    /// [`FabricError::UnknownRegion`].
    pub fn use_memory<T>(
        &self,
        region: RegionId,
        use_it: impl FnOnce(&mut dyn OwnerMemory, Nanos) -> T,
    ) -> Result<T> {
        let regions = self.inner.info.regions.len();
        if usize::from(region.0) >= regions {
            return Err(FabricError::UnknownRegion {
                node: NodeId(0),
                region,
                regions,
            });
        }
        Ok(use_it(&mut self.owner_memory(region), now()))
    }

    /// The node's incarnation and regions.
    #[must_use]
    pub fn info(&self) -> &NodeInfo {
        &self.inner.info
    }

    /// Whether another process holds the memory too, so that it outlives the owner's.
    #[must_use]
    pub fn is_kept(&self) -> bool {
        self.inner.kept
    }

    /// Whether the owner's process has ended.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.is_barred() && self.users().nic.is_none()
    }

    /// Whether no verbs may be executed by this process's processors.
    #[inline]
    pub(crate) fn is_barred(&self) -> bool {
        self.inner.barred.load(Ordering::Relaxed)
    }

    /// Why the node, which the endpoint knows as `node`, is [barred](Self::is_barred).
    #[cold]
    pub(crate) fn why_barred(&self, node: NodeId) -> FabricError {
        match self.users().nic {
            Some(_) => FabricError::NicAndProcessor {
                used: "served over RDMA verbs",
                wanted: "used over shared memory",
            },
            None => FabricError::NodeStopped { node, sent: true },
        }
    }

    fn users(&self) -> MutexGuard<'_, Users> {
        self.inner
            .users
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Claims the memory for an agent whose threads execute verbs on it.
    ///
    /// # Errors
    /// [`FabricError::NicAndProcessor`] if a NIC serves it.
    pub(crate) fn claim_for_agent(&self) -> Result<AgentClaim> {
        let mut users = self.users();
        if users.nic.is_some() {
            return Err(FabricError::NicAndProcessor {
                used: "served over RDMA verbs",
                wanted: "served over TCP",
            });
        }
        users.agents += 1;
        Ok(AgentClaim(self.clone()))
    }

    /// Claims the memory for processors of this process.
    ///
    /// # Errors
    /// [`FabricError::NicAndProcessor`] if a NIC serves it.
    pub(crate) fn claim_for_words(&self) -> Result<MapClaim> {
        let mut users = self.users();
        if users.nic.is_some() {
            return Err(FabricError::NicAndProcessor {
                used: "served over RDMA verbs",
                wanted: "used by this process's processors",
            });
        }
        users.words += 1;
        Ok(MapClaim(self.clone()))
    }

    /// Claims the memory for a NIC, whose atomics are not atomic against a processor's: endpoints
    /// of shared memory fail from now on.
    ///
    /// # Errors
    /// [`FabricError::NicAndProcessor`] if an agent serves it, other processes can attach to it,
    /// this process's processors use its words, or a NIC serves it already.
    pub(crate) fn claim_for_nic(&self, inbox: Weak<dyn NicInbox>) -> Result<NicClaim> {
        let mut users = self.users();
        let used = if self.companion.is_some() {
            "served over shared memory"
        } else if users.agents > 0 {
            "served over TCP"
        } else if users.words > 0 {
            "used by this process's processors"
        } else if users.nic.is_some() {
            "served over RDMA verbs already"
        } else {
            users.nic = Some(inbox);
            self.inner.barred.store(true, Ordering::Release);
            return Ok(NicClaim(self.clone()));
        };
        Err(FabricError::NicAndProcessor {
            used,
            wanted: "served over RDMA verbs",
        })
    }

    /// Where a region lies in this process.
    pub(crate) fn memory_of(&self, region: usize) -> (NonNull<AtomicU64>, usize) {
        let words = self.slice_of(region);
        (NonNull::from(words).cast(), words.len() * 8)
    }

    #[inline]
    fn slice_of(&self, region: usize) -> &[AtomicU64] {
        let len = self.inner.info.regions[region].len as usize;
        let first = (self.start_of(region) / 8) as usize;
        &self.inner.memory.words()[first..first + len / 8]
    }

    /// The words of a region.
    #[inline]
    pub(crate) fn words_of(&self, region: usize) -> SharedWords<'_> {
        SharedWords::new(self.slice_of(region))
    }

    #[inline]
    pub(crate) fn words(&self) -> SharedWords<'_> {
        SharedWords::new(self.inner.memory.words())
    }

    /// The byte of the memory at which a region starts.
    #[inline]
    pub(crate) fn start_of(&self, region: usize) -> u64 {
        self.inner.starts[region]
    }

    #[inline]
    pub(crate) fn region(&self, region: usize) -> Option<&RegionInfo> {
        self.inner.info.regions.get(region)
    }
}

impl Inbox for Node {
    fn take_message(&self) -> Option<Message> {
        if self.is_barred() {
            let nic = self.users().nic.clone();
            if let Some(nic) = nic {
                return nic.upgrade()?.take_message();
            }
        }
        // A client that may only read has no messages to take, and could not take one.
        let writable = self.inner.memory.writable;
        writable.then(|| mailbox::take(self.words())).flatten()
    }
}

/// Lets this process open as many files as it may; a refusal leaves it at what it has.
pub(crate) fn raise_file_limit() {
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(
        Resource::Nofile,
        Rlimit {
            current: limit.maximum,
            ..limit
        },
    );
}

/// The header of a new node with these regions.
pub(crate) fn lay_out(regions: &[RegionSpec]) -> Result<Header> {
    let regions = regions
        .iter()
        .map(|spec| RegionInfo {
            len: spec.len.checked_next_multiple_of(8).unwrap_or(u64::MAX),
            rights: spec.rights,
        })
        .collect();
    Header::lay_out(rand::random(), regions)
}
