//! The objects of a device. Each frees itself, and keeps alive those that it depends on.

use super::abi::{
    IBV_ACCESS_LOCAL_WRITE, IBV_ACCESS_REMOTE_ATOMIC, IBV_ACCESS_REMOTE_READ,
    IBV_ACCESS_REMOTE_WRITE, IBV_QPT_RC, ibv_comp_channel, ibv_cq, ibv_mr, ibv_pd, ibv_qp,
    ibv_qp_attr, ibv_qp_cap, ibv_qp_init_attr, ibv_recv_wr, ibv_send_wr, ibv_srq, ibv_srq_attr,
    ibv_srq_init_attr, ibv_wc,
};
use super::device::{Device, last_error, os_error};
use crate::{FabricError, Result, Rights};
use rustix::process::{Resource, getrlimit};
use std::ffi::{c_int, c_void};
use std::os::fd::{AsFd, BorrowedFd};
use std::ptr::{NonNull, null_mut};
use std::sync::Arc;

/// Makes the error of a call that the system refused.
pub(super) fn refused(call: &'static str, error: impl std::fmt::Display) -> FabricError {
    FabricError::Os {
        call,
        error: error.to_string(),
    }
}

fn made<T>(raw: *mut T, call: &'static str) -> Result<NonNull<T>> {
    NonNull::new(raw).ok_or_else(|| refused(call, last_error()))
}

/// Says that a handle of libibverbs may be used from any thread, which is so of all of them.
macro_rules! thread_safe {
    ($($name:ident)*) => {$(
        // SAFETY: libibverbs locks its objects itself: each may be used from any thread, and freed
        // by any, once nobody else uses it, which the borrow of a drop says.
        unsafe impl Send for $name {}
        // SAFETY: as above.
        unsafe impl Sync for $name {}
    )*};
}
thread_safe! { ProtectionDomain MemoryRegion CompletionChannel CompletionQueue SharedReceiveQueue QueuePair }

/// What may be used together: a queue pair reaches only memory of its own domain.
pub(super) struct ProtectionDomain {
    raw: NonNull<ibv_pd>,
    pub(super) device: Arc<Device>,
}

impl ProtectionDomain {
    pub(super) fn new(device: &Arc<Device>) -> Result<Arc<Self>> {
        // SAFETY: the context is open.
        let raw = unsafe { (device.library.alloc_pd)(device.context()) };
        Ok(Arc::new(Self {
            raw: made(raw, "ibv_alloc_pd")?,
            device: Arc::clone(device),
        }))
    }
}

impl Drop for ProtectionDomain {
    fn drop(&mut self) {
        // SAFETY: all that was made of the domain holds it, so that nothing of it is left.
        unsafe { (self.device.library.dealloc_pd)(self.raw.as_ptr()) };
    }
}

/// Memory that the NIC may use.
pub(super) struct MemoryRegion {
    raw: NonNull<ibv_mr>,
    domain: Arc<ProtectionDomain>,
}

/// The NIC's access flags for what peers may do.
pub(super) fn access_flags(rights: Rights) -> u32 {
    let mut flags = 0;
    if rights.allow(Rights::READ) {
        flags |= IBV_ACCESS_REMOTE_READ;
    }
    // Whatever a peer may change, the NIC itself must be allowed to.
    if rights.allow(Rights::WRITE) {
        flags |= IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_LOCAL_WRITE;
    }
    if rights.allow(Rights::ATOMIC) {
        flags |= IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_LOCAL_WRITE;
    }
    flags
}

impl MemoryRegion {
    /// Registers memory for this NIC's own use alone: what READs and atomics bring, what WRITEs
    /// take.
    ///
    /// # Safety
    /// As [`MemoryRegion::register`].
    pub(super) unsafe fn local(
        domain: &Arc<ProtectionDomain>,
        start: NonNull<u64>,
        bytes: usize,
    ) -> Result<Self> {
        // SAFETY: as the caller promises.
        unsafe { Self::register(domain, start, bytes, IBV_ACCESS_LOCAL_WRITE) }
    }

    /// Registers memory.
    ///
    /// # Safety
    /// The memory stays mapped for as long as the region lives, and no Rust reference to plain
    /// integers of it exists while the NIC may write there: with remote access ever, without it
    /// from the posting of a verb to its completion.
    ///
    /// # Errors
    /// [`FabricError::LockedMemory`] where the process may not lock so much; what the system says.
    pub(super) unsafe fn register(
        domain: &Arc<ProtectionDomain>,
        start: NonNull<u64>,
        bytes: usize,
        access: u32,
    ) -> Result<Self> {
        let library = domain.device.library;
        let start = start.as_ptr().cast::<c_void>();
        // SAFETY: the domain is live, and the memory is as the caller promises.
        let raw = unsafe { (library.reg_mr)(domain.raw.as_ptr(), start, bytes, access) };
        match NonNull::new(raw) {
            Some(raw) => Ok(Self {
                raw,
                domain: Arc::clone(domain),
            }),
            None => Err(registration_error(bytes as u64, last_error())),
        }
    }

    /// The key of this NIC's own verbs.
    pub(super) fn local_key(&self) -> u32 {
        // SAFETY: the region is live, and nobody changes its keys.
        unsafe { self.raw.as_ref() }.lkey
    }

    /// The key of the verbs of peers.
    pub(super) fn remote_key(&self) -> u32 {
        // SAFETY: as above.
        unsafe { self.raw.as_ref() }.rkey
    }
}

impl Drop for MemoryRegion {
    fn drop(&mut self) {
        // SAFETY: the region is freed once. It cannot fail: there are no memory windows on it.
        unsafe { (self.domain.device.library.dereg_mr)(self.raw.as_ptr()) };
    }
}

/// Tells a registration over the limit of locked memory from others that failed.
fn registration_error(needed: u64, error: std::io::Error) -> FabricError {
    let limit = getrlimit(Resource::Memlock).current;
    let locked = locked_memory();
    match limit {
        Some(limit) if locked.saturating_add(needed) > limit => FabricError::LockedMemory {
            needed,
            locked,
            limit,
        },
        _ => refused("ibv_reg_mr", error),
    }
}

/// Bytes that this process has locked and pinned already.
fn locked_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kib = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()
    };
    let both = kib("VmLck:").unwrap_or(0) + kib("VmPin:").unwrap_or(0);
    both.saturating_mul(1024)
}

/// Where a thread sleeps until a completion comes.
pub(super) struct CompletionChannel {
    raw: NonNull<ibv_comp_channel>,
    device: Arc<Device>,
}

impl CompletionChannel {
    pub(super) fn new(device: &Arc<Device>) -> Result<Arc<Self>> {
        // SAFETY: the context is open.
        let raw = unsafe { (device.library.create_comp_channel)(device.context()) };
        let channel = Self {
            raw: made(raw, "ibv_create_comp_channel")?,
            device: Arc::clone(device),
        };
        rustix::io::ioctl_fionbio(&channel, true)
            .map_err(|errno| refused("ioctl(FIONBIO)", errno))?;
        Ok(Arc::new(channel))
    }

    /// Takes the events that have come.
    pub(super) fn clear(&self) {
        let (mut queue, mut context) = (null_mut(), null_mut());
        // SAFETY: the channel is live and does not block; an event is acknowledged to the queue it
        // names, which holds the channel and is held by whoever waits on it.
        unsafe {
            while (self.device.library.get_cq_event)(self.raw.as_ptr(), &mut queue, &mut context)
                == 0
            {
                (self.device.library.ack_cq_events)(queue, 1);
            }
        }
    }
}

impl AsFd for CompletionChannel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the file is open for as long as the channel lives.
        unsafe { BorrowedFd::borrow_raw(self.raw.as_ref().fd) }
    }
}

impl Drop for CompletionChannel {
    fn drop(&mut self) {
        // SAFETY: queues hold their channel, so that none of it is left.
        unsafe { (self.device.library.destroy_comp_channel)(self.raw.as_ptr()) };
    }
}

/// Where completions arrive.
pub(super) struct CompletionQueue {
    raw: NonNull<ibv_cq>,
    device: Arc<Device>,
    _channel: Option<Arc<CompletionChannel>>,
}

impl CompletionQueue {
    /// A queue that holds at least `capacity` completions.
    pub(super) fn new(
        device: &Arc<Device>,
        capacity: u32,
        channel: Option<Arc<CompletionChannel>>,
    ) -> Result<Arc<Self>> {
        let events = channel
            .as_ref()
            .map_or(null_mut(), |channel| channel.raw.as_ptr());
        // SAFETY: the context is open, and the channel, if there is one, is live and of it.
        let raw = unsafe {
            (device.library.create_cq)(device.context(), capacity as c_int, null_mut(), events, 0)
        };
        Ok(Arc::new(Self {
            raw: made(raw, "ibv_create_cq")?,
            device: Arc::clone(device),
            _channel: channel,
        }))
    }

    /// Takes completions that have arrived, as many as fit; returns how many.
    ///
    /// # Errors
    /// What the system says; the queue cannot be used any more then.
    #[inline]
    pub(super) fn poll(&self, into: &mut [ibv_wc]) -> Result<usize> {
        let queue = self.raw.as_ptr();
        // SAFETY: the queue and its context are live; the function fills at most as many as there
        // is room for.
        let count = unsafe {
            ((*(*queue).context).ops.poll_cq)(queue, into.len() as c_int, into.as_mut_ptr())
        };
        usize::try_from(count).map_err(|_| refused("ibv_poll_cq", os_error(count)))
    }

    /// Has the channel tell of the next completion.
    pub(super) fn arm(&self) -> Result<()> {
        let queue = self.raw.as_ptr();
        // SAFETY: the queue and its context are live.
        match unsafe { ((*(*queue).context).ops.req_notify_cq)(queue, 0) } {
            0 => Ok(()),
            errno => Err(refused("ibv_req_notify_cq", os_error(errno))),
        }
    }
}

impl Drop for CompletionQueue {
    fn drop(&mut self) {
        // SAFETY: queue pairs hold their completion queue, and every event was acknowledged when it
        // was taken.
        unsafe { (self.device.library.destroy_cq)(self.raw.as_ptr()) };
    }
}

/// Room for a message that brings its number and no bytes of its own.
fn nothing_but_a_number(id: u64) -> ibv_recv_wr {
    ibv_recv_wr {
        wr_id: id,
        next: null_mut(),
        sg_list: null_mut(),
        num_sge: 0,
    }
}

/// The room for messages that all queue pairs of a node share.
pub(super) struct SharedReceiveQueue {
    raw: NonNull<ibv_srq>,
    domain: Arc<ProtectionDomain>,
}

impl SharedReceiveQueue {
    pub(super) fn new(domain: &Arc<ProtectionDomain>, capacity: u32) -> Result<Arc<Self>> {
        let mut wanted = ibv_srq_init_attr {
            srq_context: null_mut(),
            attr: ibv_srq_attr {
                max_wr: capacity,
                max_sge: 1,
                srq_limit: 0,
            },
        };
        // SAFETY: the domain is live, and the structure is as the header declares it.
        let raw = unsafe { (domain.device.library.create_srq)(domain.raw.as_ptr(), &mut wanted) };
        Ok(Arc::new(Self {
            raw: made(raw, "ibv_create_srq")?,
            domain: Arc::clone(domain),
        }))
    }

    /// Makes room for one message more. It brings its number and nothing else: its bytes are
    /// written to where its sender says.
    pub(super) fn post(&self) -> Result<()> {
        let mut room = nothing_but_a_number(0);
        let mut bad = null_mut();
        let queue = self.raw.as_ptr();
        // SAFETY: the queue and its context are live; the request has no memory of its own, and is
        // copied before the call returns.
        match unsafe { ((*(*queue).context).ops.post_srq_recv)(queue, &mut room, &mut bad) } {
            0 => Ok(()),
            errno => Err(refused("ibv_post_srq_recv", os_error(errno))),
        }
    }
}

impl Drop for SharedReceiveQueue {
    fn drop(&mut self) {
        // SAFETY: queue pairs hold their receive queue, so that none uses it any more.
        unsafe { (self.domain.device.library.destroy_srq)(self.raw.as_ptr()) };
    }
}

/// What a queue pair holds.
#[derive(Clone, Copy)]
pub(super) struct QueuePairCapacity {
    /// Requests on their way.
    pub(super) sends: u32,
    /// Pieces of local memory that one request writes from.
    pub(super) pieces: u32,
    /// Messages of its own, where it has no shared receive queue.
    pub(super) receives: u32,
    /// Payloads up to so many bytes go inline, where the device can do that.
    pub(super) inline_bytes: u32,
}

/// One end of a reliable connection.
pub(super) struct QueuePair {
    raw: NonNull<ibv_qp>,
    domain: Arc<ProtectionDomain>,
    _completions: Arc<CompletionQueue>,
    _receives: Option<Arc<SharedReceiveQueue>>,
    /// Payloads up to so many bytes may go inline.
    pub(super) inline_bytes: u32,
}

impl QueuePair {
    /// A queue pair in its first state: connected to nothing. Both sides' completions go to one
    /// queue.
    ///
    /// # Errors
    /// [`FabricError::NoQueuePair`] where the device gives none.
    pub(super) fn new(
        domain: &Arc<ProtectionDomain>,
        completions: &Arc<CompletionQueue>,
        receives: Option<Arc<SharedReceiveQueue>>,
        capacity: QueuePairCapacity,
    ) -> Result<Self> {
        let device = &domain.device;
        let make = |inline_bytes| {
            let mut wanted = ibv_qp_init_attr {
                qp_context: null_mut(),
                send_cq: completions.raw.as_ptr(),
                recv_cq: completions.raw.as_ptr(),
                srq: receives
                    .as_ref()
                    .map_or(null_mut(), |queue| queue.raw.as_ptr()),
                cap: ibv_qp_cap {
                    max_send_wr: capacity.sends,
                    max_recv_wr: capacity.receives,
                    max_send_sge: capacity.pieces,
                    max_recv_sge: capacity.receives.min(1),
                    max_inline_data: inline_bytes,
                },
                qp_type: IBV_QPT_RC,
                sq_sig_all: 0,
            };
            // SAFETY: all parts are live and of one device; the structure is as the header declares
            // it.
            let raw = unsafe { (device.library.create_qp)(domain.raw.as_ptr(), &mut wanted) };
            // What it got may be more than what it asked for.
            NonNull::new(raw).map(|raw| (raw, wanted.cap.max_inline_data))
        };
        // A device that cannot send so much inline may do without.
        let made = make(capacity.inline_bytes).or_else(|| make(0));
        let (raw, inline_bytes) = made.ok_or_else(|| FabricError::NoQueuePair {
            device: device.name.clone(),
            limit: u32::try_from(device.attributes.max_qp).unwrap_or(0),
            error: last_error().to_string(),
        })?;
        Ok(Self {
            raw,
            domain: Arc::clone(domain),
            _completions: Arc::clone(completions),
            _receives: receives,
            inline_bytes,
        })
    }

    /// Its number, of 24 bits.
    pub(super) fn number(&self) -> u32 {
        // SAFETY: the queue pair is live, and nobody changes its number.
        unsafe { self.raw.as_ref() }.qp_num
    }

    /// Changes the members of `attributes` that `mask` names.
    pub(super) fn modify(
        &self,
        attributes: &mut ibv_qp_attr,
        mask: u32,
        call: &'static str,
    ) -> Result<()> {
        // SAFETY: the queue pair is live, and the structure is as the header declares it.
        let failed = unsafe {
            (self.domain.device.library.modify_qp)(self.raw.as_ptr(), attributes, mask as c_int)
        };
        match failed {
            0 => Ok(()),
            errno => Err(refused(call, os_error(errno))),
        }
    }

    /// Makes room for one message more of its own, whose completion says `id`. It brings its number
    /// and nothing else.
    pub(super) fn post_receive(&self, id: u64) -> Result<()> {
        let mut room = nothing_but_a_number(id);
        let mut bad = null_mut();
        let queue = self.raw.as_ptr();
        // SAFETY: the queue pair and its context are live; the request has no memory of its own,
        // and is copied before the call returns.
        match unsafe { ((*(*queue).context).ops.post_recv)(queue, &mut room, &mut bad) } {
            0 => Ok(()),
            errno => Err(refused("ibv_post_recv", os_error(errno))),
        }
    }

    /// Hands a list of verbs to the NIC: one doorbell.
    ///
    /// # Safety
    /// `first` begins a list of requests that is live for the call; the memory that they name is
    /// registered, and stays so and is used by nobody else until each has completed or this queue
    /// pair is dropped. What a request only reads may be written to meanwhile, if nobody minds
    /// which bytes are sent.
    ///
    /// # Errors
    /// What the system says; requests before the one that was refused are on their way.
    #[inline]
    pub(super) unsafe fn post(&self, first: *mut ibv_send_wr) -> Result<()> {
        let mut bad = null_mut();
        let queue = self.raw.as_ptr();
        // SAFETY: the queue pair and its context are live; the list is as the caller promises.
        match unsafe { ((*(*queue).context).ops.post_send)(queue, first, &mut bad) } {
            0 => Ok(()),
            errno => Err(refused("ibv_post_send", os_error(errno))),
        }
    }
}

impl Drop for QueuePair {
    /// When this returns the NIC uses nothing of what was posted any more.
    fn drop(&mut self) {
        // SAFETY: it is freed once. It cannot fail: it has no events that were not acknowledged,
        // and no multicast group.
        unsafe { (self.domain.device.library.destroy_qp)(self.raw.as_ptr()) };
    }
}
