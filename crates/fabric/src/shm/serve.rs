//! Serves a node to other processes by name.

use super::fd_passing;
use crate::Result;
use crate::memory::{Mapping, Node, RegionSpec, lay_out, raise_file_limit, sealed_memfd};
use crate::words::SharedWords;
use std::os::fd::AsFd;
use std::sync::Arc;

impl Node {
    /// Serves a new node by name, for as long as it is held: processes of the same user can
    /// [`attach`](crate::shm::attach()) to it. Each client takes an open file; the process's limit
    /// on open files is raised to its maximum.
    ///
    /// # Errors
    /// [`NameTaken`](crate::FabricError::NameTaken), [`BadName`](crate::FabricError::BadName),
    /// [`Memory`](crate::FabricError::Memory), or what the system says.
    pub fn serve(name: &str, regions: &[RegionSpec]) -> Result<Self> {
        let mut header = lay_out(regions)?;
        let (file, page_bytes) = sealed_memfd(header.bytes)?;
        let memory = Mapping::of_file(file.as_fd(), true, page_bytes)?;
        header.info.page_bytes = page_bytes;
        header.write(SharedWords::new(memory.words()));
        raise_file_limit();
        let watcher = fd_passing::serve(name, file)?;
        Ok(Self::new(
            memory,
            header,
            Arc::default(),
            Some(Box::new(watcher)),
        ))
    }
}
