//! A process that lends its memory, and does nothing else.

use crate::store::{check_size, region_of};
use crate::{Address, Result, Store, StoreError};
use farslot_fabric::shm;

/// Memory that is served to other processes for as long as this is held. The process takes no part
/// in any operation on it; when it ends, `kill -9` included, every operation of its clients fails, and
/// the memory is gone with the last of them that lets go of it.
pub struct Server {
    store: Store,
}

impl Server {
    /// Serves `bytes` of this process's memory at an address: `shm://NAME`. What is not used takes no
    /// memory, except where the machine has set enough 2 MiB pages aside: these are taken at once.
    ///
    /// # Errors
    /// [`StoreError::NotServable`] for other schemes; [`NameTaken`](farslot_fabric::FabricError::NameTaken),
    /// [`Memory`](farslot_fabric::FabricError::Memory), [`StoreError::TooSmall`].
    pub fn start(address: &str, bytes: u64) -> Result<Self> {
        let parsed: Address = address.parse()?;
        let Address::Shm { name } = &parsed else {
            return Err(StoreError::NotServable {
                address: address.into(),
            });
        };
        check_size(bytes)?;
        let node = shm::Node::serve(name, &[region_of(bytes)])?;
        Ok(Self {
            store: Store::of_node(parsed, node),
        })
    }

    /// The served store, as this process uses it itself.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.store
    }
}
