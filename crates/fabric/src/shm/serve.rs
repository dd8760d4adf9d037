//! Serves a node to other processes by name.

use super::calls::RingCallService;
use super::fd_passing;
use crate::event_loop::EventLoop;
use crate::memory::{Node, NodeMemory, RegionSpec, raise_file_limit};
use crate::{FabricError, Result};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

/// What goes with the memory: first no more clients come, then those that call are left.
struct ServingGuards {
    _watcher: fd_passing::Watcher,
    service: Arc<RingCallService>,
}

impl Node {
    /// Serves a new node by name, for as long as it is held: processes of the same user can
    /// [`attach`](crate::shm::attach()) to it, and call it. Each client takes an open file; the
    /// process's limit on open files is raised to its maximum. Calls are answered by a thread that
    /// begins with the first client that makes one.
    ///
    /// # Errors
    /// [`NameTaken`](crate::FabricError::NameTaken), [`BadName`](crate::FabricError::BadName),
    /// [`Memory`](crate::FabricError::Memory), or what the system says.
    pub fn serve(name: &str, regions: &[RegionSpec]) -> Result<Self> {
        Self::serve_prepared(name, regions, |_| Ok(()))
    }

    /// As [`Node::serve`], once the memory was prepared: no client attaches before.
    ///
    /// # Errors
    /// As [`Node::serve`]; what preparing it says.
    pub fn serve_prepared<E: From<FabricError>>(
        name: &str,
        regions: &[RegionSpec],
        prepare: impl FnOnce(&Self) -> std::result::Result<(), E>,
    ) -> std::result::Result<Self, E> {
        let (node, file) = NodeMemory::new(regions)?.into_node()?;
        prepare(&node)?;
        Ok(node.serve_file(name, &file)?)
    }

    /// Serves a node by name whose memory is this file, as [`Node::serve`] does.
    ///
    /// # Errors
    /// [`NameTaken`](crate::FabricError::NameTaken), [`BadName`](crate::FabricError::BadName), or
    /// what the system says.
    pub fn serve_file(self, name: &str, file: &OwnedFd) -> Result<Self> {
        raise_file_limit();
        let service = Arc::new(RingCallService::new(self.clone())?);
        let callee = Arc::clone(&service);
        let take_caller = move |stream, rights| {
            if let Err(error) = callee.admit(stream, rights) {
                log::error!("a client that wants to call is refused: {error}");
            }
        };
        let watcher = fd_passing::serve(name, file.as_fd(), Box::new(take_caller))?;
        let served = ServingGuards {
            _watcher: watcher,
            service,
        };
        Ok(self.with_companion(Arc::new(served)))
    }

    /// What answers the calls of other processes, for a thread of the application: while it is
    /// held, its turns answer them, and no thread of the node. Nothing if the application has it
    /// already, and of a node that is not served by name: callers of this process answer their
    /// calls themselves.
    ///
    /// # Errors
    /// What the system says.
    pub fn event_loop(&self) -> Result<Option<EventLoop<'_>>> {
        match self.companion::<ServingGuards>() {
            Some(served) => served.service.event_loop(),
            None => Ok(None),
        }
    }
}
