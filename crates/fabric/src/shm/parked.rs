//! Messages that their receivers had no room for.

use super::settled::Settled;
use crate::memory::{Node, mailbox};
use crate::{FabricError, Message, Nanos, NodeId};
use smallvec::SmallVec;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

/// A message that its receiver had no room for.
struct Parked {
    node: u16,
    message: Message,
    deadline: Nanos,
    delivery: Rc<Settled<()>>,
}

/// Messages that the mailboxes had no room for yet, in the order of their posting.
#[derive(Default)]
pub(super) struct ParkedMessages(RefCell<VecDeque<Parked>>);

impl ParkedMessages {
    /// How many; they keep their places in the send queue.
    pub(super) fn len(&self) -> usize {
        self.0.borrow().len()
    }

    /// Leaves a message with its receiver, now or, behind those that wait already, later.
    pub(super) fn deliver_or_park(
        &self,
        (number, node): (u16, &Node),
        message: Message,
        deadline: Nanos,
    ) -> Option<Rc<Settled<()>>> {
        let mut parked = self.0.borrow_mut();
        if !parked.iter().any(|before| before.node == number) && mailbox::put(node.words(), message)
        {
            return None;
        }
        let delivery = Rc::new(Settled::new());
        parked.push_back(Parked {
            node: number,
            message,
            deadline,
            delivery: Rc::clone(&delivery),
        });
        Some(delivery)
    }

    /// Delivers what can be delivered by now, in order for each node, and gives up what has waited
    /// too long; returns how many messages were either.
    pub(super) fn deliver(&self, nodes: &[Node], now: Nanos) -> usize {
        let mut parked = self.0.borrow_mut();
        let before = parked.len();
        let mut full: SmallVec<[u16; 4]> = SmallVec::new();
        parked.retain(|waiting| {
            let node = &nodes[usize::from(waiting.node)];
            let id = NodeId(waiting.node);
            let outcome = if node.is_barred() {
                Err(node.why_barred(id))
            } else if !full.contains(&id.0) && mailbox::put(node.words(), waiting.message) {
                Ok(())
            } else if now > waiting.deadline {
                Err(FabricError::ReceiverNotReady {
                    node: id,
                    capacity: mailbox::CAPACITY as usize,
                })
            } else {
                if !full.contains(&id.0) {
                    full.push(id.0);
                }
                return true;
            };
            waiting.delivery.settle(outcome);
            false
        });
        before - parked.len()
    }
}
