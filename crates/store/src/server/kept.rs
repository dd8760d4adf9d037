//! Memory that outlives the process that serves it: another process holds it as well, and the next
//! server goes on with it.

use super::ending::once_free;
use super::{REGION, Server, ServerOptions, checked, name_in};
use crate::catalog::{PHASE_AT, Phase, check_size};
use crate::fabrics::region_of;
use crate::{Address, Result, Store, StoreError};
use farslot_fabric::shm::{Node, NodeMemory};

impl Server {
    /// Memory of a new node, which another process is to hold as well before it is served
    /// ([`Server::start_on`]): whoever has its file open keeps all that is in it.
    ///
    /// # Errors
    /// [`Memory`](farslot_fabric::FabricError::Memory), [`StoreError::TooSmall`], or what the
    /// system says.
    ///
    /// ```
    /// # use farslot::keeper::NodeMemory;
    /// # use farslot::{Server, ServerOptions, Store, TableOptions};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let memory = Server::memory_to_keep(64 << 20)?;
    /// // Another process would be handed it.
    /// let kept = memory.file().try_clone_to_owned()?;
    /// let addresses = ["tcp://127.0.0.1:0"];
    /// let server = Server::start_on(&addresses, memory, &ServerOptions::default())?;
    /// let store = Store::open(&server.addresses()[0].to_string())?;
    /// store.create("stock", &TableOptions::default())?;
    /// store.table("stock")?.put(b"pears", b"7")?;
    /// drop(server);
    /// let memory = NodeMemory::of_file(kept, "what was kept")?;
    /// let server = Server::start_on(&addresses, memory, &ServerOptions::default())?;
    /// assert_eq!(server.store().table("stock")?.get(b"pears")?.as_deref(), Some(&b"7"[..]));
    /// # Ok(())
    /// # }
    /// ```
    pub fn memory_to_keep(bytes: u64) -> Result<NodeMemory> {
        check_size(bytes)?;
        Ok(NodeMemory::to_be_kept(region_of(bytes))?)
    }

    /// Serves memory that another process holds as well, as [`Server::start_with`] does: new memory
    /// ([`Server::memory_to_keep`]), or that of a server whose process has ended. Then it is the
    /// same node, with all that was acknowledged; what was under way is in doubt. Clients that have
    /// the memory mapped go on with it, and others when they have connected again.
    ///
    /// # Errors
    /// As [`Server::start_with`]; [`StoreError::BadAddress`] of `verbs://` addresses;
    /// [`StoreError::HalfRestored`] of memory whose tables were still being restored.
    pub fn start_on(
        addresses: &[&str],
        memory: NodeMemory,
        options: &ServerOptions,
    ) -> Result<Self> {
        let bytes = memory.lent_bytes();
        let parsed = checked(addresses, bytes, options)?;
        if let Some(of_nic) = parsed
            .iter()
            .find(|address| matches!(address, Address::Verbs { .. }))
        {
            return Err(StoreError::BadAddress {
                address: of_nic.to_string(),
                reason: "memory that a NIC serves cannot be kept beyond its process".into(),
            });
        }
        if !Self::is_whole(&memory)? {
            return Err(StoreError::HalfRestored);
        }
        let (node, file) = memory.into_node()?;
        go_on(&node, options)?;
        let node = match name_in(&parsed) {
            Some(name) => once_free(&node, || node.clone().serve_file(name, &file))?,
            None => node,
        };
        Self::of_node(parsed, node, options)
    }

    /// Whether the tables in memory that is kept are all there: not if the server was killed while
    /// it restored them ([`ServerOptions::restoring`]), before any client could use one.
    ///
    /// # Errors
    /// What the system says.
    pub fn is_whole(memory: &NodeMemory) -> Result<bool> {
        let phase = memory.word(REGION, PHASE_AT)?;
        Ok(phase != Phase::Restoring as u64)
    }
}

/// Has the tables of a node take writes again that took none when it ended.
fn go_on(node: &Node, options: &ServerOptions) -> Result<()> {
    let keeper = Store::of_node(Address::Embedded, node.clone()).for_keeper()?;
    match options.restoring {
        true => keeper.begin_phase(Phase::Restoring),
        false => keeper.reopen(),
    }
}
