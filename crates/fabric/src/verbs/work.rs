//! Work requests that were posted but not yet passed to the NIC: the list of the next doorbell.

use super::abi::{
    Atomic, IBV_SEND_INLINE, IBV_SEND_SIGNALED, IBV_WR_ATOMIC_CMP_AND_SWP,
    IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_RDMA_READ, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM,
    Rdma, RequestTarget, ibv_send_wr, ibv_sge,
};
use super::resource::QueuePair;
use crate::Result;
use std::ffi::c_int;
use std::ptr::null_mut;

/// Bytes of this machine's memory that a NIC uses.
#[derive(Clone, Copy)]
pub(super) struct ScatterGatherEntry {
    pub(super) address: u64,
    pub(super) bytes: u32,
    pub(super) key: u32,
}

/// Where a request goes in the other machine's memory.
#[derive(Clone, Copy)]
pub(super) struct KeyedAddress {
    pub(super) address: u64,
    pub(super) key: u32,
}

/// A list of requests for one queue pair. Memory is kept from doorbell to doorbell.
#[derive(Default)]
pub(super) struct WorkList {
    requests: Vec<ibv_send_wr>,
    /// The local bytes of all requests, one after the other.
    locals: Vec<ibv_sge>,
}

// SAFETY: the pointers within are set for the length of one call of `post`, and mean nothing
// besides.
unsafe impl Send for WorkList {}

/// In a long list a request is signaled after so many, so that the NIC's queue empties before the
/// last of them has completed ...
const SIGNAL_AFTER: usize = 64;
/// ... and after so many bytes, so that a long batch shows that it gets on.
const SIGNAL_AFTER_BYTES: u64 = 1 << 20;

impl WorkList {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    pub(super) fn clear(&mut self) {
        self.requests.clear();
        self.locals.clear();
    }

    #[inline]
    fn push(
        &mut self,
        id: u64,
        locals: &[ScatterGatherEntry],
        opcode: u32,
        flags: u32,
        imm: u32,
        wr: RequestTarget,
    ) {
        let before = self.locals.len();
        let locals = locals.iter().filter(|local| local.bytes > 0);
        self.locals.extend(locals.map(|local| ibv_sge {
            addr: local.address,
            length: local.bytes,
            lkey: local.key,
        }));
        self.requests.push(ibv_send_wr {
            wr_id: id,
            next: null_mut(),
            sg_list: null_mut(),
            num_sge: (self.locals.len() - before) as c_int,
            opcode,
            send_flags: flags,
            imm_data: imm,
            wr,
            qp_type: 0,
            bind_mw: [0; 6],
        });
    }

    #[inline]
    pub(super) fn read(&mut self, id: u64, from: KeyedAddress, into: ScatterGatherEntry) {
        self.push(id, &[into], IBV_WR_RDMA_READ, 0, 0, from.rdma());
    }

    /// A write, of bytes within the request itself where there are no more than `inline_bytes`.
    #[inline]
    pub(super) fn write(
        &mut self,
        id: u64,
        to: KeyedAddress,
        data: ScatterGatherEntry,
        inline_bytes: u32,
    ) {
        let flags = inline(&[data], inline_bytes);
        self.push(id, &[data], IBV_WR_RDMA_WRITE, flags, 0, to.rdma());
    }

    /// As a [write](Self::write) of several pieces one after the other, with a number for the
    /// receiver. No more pieces than the queue pair was made for.
    pub(super) fn write_imm(
        &mut self,
        id: u64,
        to: KeyedAddress,
        data: &[ScatterGatherEntry],
        inline_bytes: u32,
        imm: u32,
    ) {
        let flags = inline(data, inline_bytes);
        let opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
        self.push(id, data, opcode, flags, imm.to_be(), to.rdma());
    }

    #[inline]
    pub(super) fn compare_swap(
        &mut self,
        id: u64,
        at: KeyedAddress,
        found: ScatterGatherEntry,
        expected: u64,
        new: u64,
    ) {
        let target = at.atomic(expected, new);
        self.push(id, &[found], IBV_WR_ATOMIC_CMP_AND_SWP, 0, 0, target);
    }

    #[inline]
    pub(super) fn fetch_add(
        &mut self,
        id: u64,
        at: KeyedAddress,
        found: ScatterGatherEntry,
        add: u64,
    ) {
        let target = at.atomic(add, 0);
        self.push(id, &[found], IBV_WR_ATOMIC_FETCH_AND_ADD, 0, 0, target);
    }

    /// Hands the list to the NIC by one doorbell, its last request signaled, and is empty then.
    ///
    /// # Safety
    /// The local memory of each request is registered, and used by nobody else until the request
    /// has completed or the queue pair is dropped.
    pub(super) unsafe fn post(&mut self, queue_pair: &QueuePair) -> Result<()> {
        let last = self.requests.len() - 1;
        let first = self.requests.as_mut_ptr();
        let locals = self.locals.as_mut_ptr();
        let (mut bytes, mut used) = (0, 0);
        for index in 0..=last {
            // SAFETY: the list of requests has an element of that index, and the next where it is
            // not the last. That of local bytes has as many behind `used` as the request says,
            // since each `push` adds just those, in this order.
            unsafe {
                let request = &mut *first.add(index);
                let pieces = request.num_sge as usize;
                request.sg_list = locals.add(used);
                request.next = if index == last {
                    null_mut()
                } else {
                    first.add(index + 1)
                };
                let list = std::slice::from_raw_parts(locals.add(used), pieces);
                bytes += list
                    .iter()
                    .map(|piece| u64::from(piece.length))
                    .sum::<u64>();
                used += pieces;
                let due = (index + 1).is_multiple_of(SIGNAL_AFTER) || bytes >= SIGNAL_AFTER_BYTES;
                if due || index == last {
                    request.send_flags |= IBV_SEND_SIGNALED;
                    bytes = 0;
                }
            }
        }
        // SAFETY: the list is linked, and stays as it is for the call; the rest the caller
        // promises.
        let posted = unsafe { queue_pair.post(first) };
        self.clear();
        posted
    }
}

impl KeyedAddress {
    #[inline]
    fn rdma(self) -> RequestTarget {
        let rdma = Rdma {
            remote_addr: self.address,
            rkey: self.key,
        };
        RequestTarget { rdma }
    }

    #[inline]
    fn atomic(self, compare_add: u64, swap: u64) -> RequestTarget {
        RequestTarget {
            atomic: Atomic {
                remote_addr: self.address,
                compare_add,
                swap,
                rkey: self.key,
            },
        }
    }
}

#[inline]
fn inline(data: &[ScatterGatherEntry], most: u32) -> u32 {
    let bytes = data.iter().map(|piece| u64::from(piece.bytes)).sum::<u64>();
    if bytes <= u64::from(most) {
        IBV_SEND_INLINE
    } else {
        0
    }
}
