//! The state that the clients of an agent share: device, registered memory, queue pairs.

use super::calls::{CallResponder, Channel};
use super::messages::Messages;
use super::registration::Registration;
use crate::memory::Node;
use crate::net::admission::Issued;
use crate::verbs::device::Device;
use crate::verbs::resource::QueuePair;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A client's queue pairs, once it has them and for as long as its session goes on.
pub(super) type Slot = Arc<Mutex<Pairs>>;

/// The queue pairs of a client.
#[derive(Default)]
pub(super) struct Pairs {
    /// Of all verbs but calls.
    pub(super) verbs: Option<QueuePair>,
    pub(super) calls: Option<Arc<Channel>>,
}

/// What the clients of an agent have in common.
pub(super) struct Owner {
    pub(super) node: Node,
    pub(super) device: Arc<Device>,
    pub(super) messages: Arc<Messages>,
    pub(super) calls: CallResponder,
    /// Of the grants in force.
    pub(super) registrations: Mutex<Vec<(Arc<Issued>, Arc<Registration>)>>,
    /// Of the clients, by their sessions.
    pub(super) queue_pairs: Mutex<HashMap<u64, Slot>>,
}

impl Owner {
    pub(super) fn registrations(&self) -> MutexGuard<'_, Vec<(Arc<Issued>, Arc<Registration>)>> {
        let registrations = self.registrations.lock();
        registrations.unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn queue_pairs(&self) -> MutexGuard<'_, HashMap<u64, Slot>> {
        let queue_pairs = self.queue_pairs.lock();
        queue_pairs.unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn registration(&self, grant: &Arc<Issued>) -> Option<Arc<Registration>> {
        let registrations = self.registrations();
        let mut registrations = registrations.iter();
        let found = registrations.find(|(issued, _)| Arc::ptr_eq(issued, grant));
        found.map(|(_, registration)| Arc::clone(registration))
    }

    /// Takes the memory of grants that are no longer in force from the NIC.
    pub(super) fn withdraw_revoked(&self) {
        self.registrations().retain(|(issued, registration)| {
            let revoked = issued.is_revoked();
            if revoked {
                registration.withdraw();
            }
            !revoked
        });
    }
}
