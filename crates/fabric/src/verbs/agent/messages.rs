//! The messages of all clients: one shared receive queue, one completion queue.
//!
//! A message is a WRITE with immediate data; its completion carries its number and length. The
//! receive queue has the capacity of the node's mailbox. What the NIC has received moves to the
//! mailbox before a message is taken and before a queue pair is destroyed, and taking a message
//! frees a place. A sender that finds no place is told by the NIC to retry.

use crate::memory::{NicInbox, Node, mailbox};
use crate::verbs::abi::{IBV_WC_RECV_RDMA_WITH_IMM, IBV_WC_SUCCESS, ibv_wc};
use crate::verbs::device::Device;
use crate::verbs::resource::{CompletionQueue, ProtectionDomain, SharedReceiveQueue};
use crate::{Message, Result};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub(super) struct Messages {
    node: Node,
    pub(super) receives: Arc<SharedReceiveQueue>,
    pub(super) completions: Arc<CompletionQueue>,
    /// Held while messages are moved, so that they stay in order.
    moving: Mutex<()>,
}

/// Completions that are taken at once.
const AT_ONCE: usize = 32;

impl Messages {
    pub(super) fn new(node: &Node, device: &Arc<Device>) -> Result<Arc<Self>> {
        let domain = ProtectionDomain::new(device)?;
        Ok(Arc::new(Self {
            node: node.clone(),
            receives: SharedReceiveQueue::new(&domain, mailbox::CAPACITY as u32)?,
            completions: CompletionQueue::new(device, mailbox::CAPACITY as u32, None)?,
            moving: Mutex::default(),
        }))
    }

    /// Makes room for as many messages as the mailbox has room for. To be called once.
    pub(super) fn make_room(&self) -> Result<()> {
        let waiting = mailbox::waiting(self.node.words());
        (waiting..mailbox::CAPACITY).try_for_each(|_| self.receives.post())
    }

    fn moving(&self) -> MutexGuard<'_, ()> {
        self.moving.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Moves what the NIC has received to the mailbox.
    pub(super) fn collect(&self) {
        self.collect_holding(&self.moving());
    }

    fn collect_holding(&self, _moving: &MutexGuard<'_, ()>) {
        // SAFETY: zeros are a value of this plain structure of integers.
        let mut completions: [ibv_wc; AT_ONCE] = unsafe { std::mem::zeroed() };
        loop {
            let count = match self.completions.poll(&mut completions) {
                Ok(count) => count,
                Err(error) => {
                    log::error!("messages of RDMA clients cannot be received any more: {error}");
                    return;
                }
            };
            for completion in &completions[..count] {
                let is_message = completion.status == IBV_WC_SUCCESS
                    && completion.opcode == IBV_WC_RECV_RDMA_WITH_IMM;
                let message = Message {
                    imm: u32::from_be(completion.imm_data),
                    len: completion.byte_len,
                };
                // One that is longer than a mailbox can tell comes of no endpoint of ours.
                let fits = message.len as usize <= mailbox::LONGEST;
                if !is_message || !fits || !mailbox::put(self.node.words(), message) {
                    // Its room is free again.
                    self.make_room_again();
                }
            }
            if count < AT_ONCE {
                return;
            }
        }
    }

    fn make_room_again(&self) {
        if let Err(error) = self.receives.post() {
            log::error!("there is room for one message less: {error}");
        }
    }
}

impl NicInbox for Messages {
    fn take_message(&self) -> Option<Message> {
        let moving = self.moving();
        self.collect_holding(&moving);
        let message = mailbox::take(self.node.words())?;
        self.make_room_again();
        Some(message)
    }
}

impl Drop for Messages {
    /// What was received stays in the mailbox.
    fn drop(&mut self) {
        self.collect();
    }
}
