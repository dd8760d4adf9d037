//! What is damaged in the nodes' catalogs, and clearing it.

use crate::catalog::{Catalog, Damage};
use crate::{Result, Store, StoreError, sharded};
use farslot_fabric::NodeId;

impl Store {
    /// What is damaged in the catalogs of the nodes: nothing of a node where nothing is. Changes
    /// nothing.
    ///
    /// # Errors
    /// What the fabric says of a node that does not answer.
    pub fn damage(&self) -> Result<Vec<Damage>> {
        self.of_each_catalog(async |catalog| catalog.damage().await)
    }

    /// Clears the entries of the nodes' catalogs that are damaged, and returns what they were: such
    /// a table is gone, and its memory is free again. Clients that have it open still are told so
    /// ([`ErrorKind::TableGone`](crate::ErrorKind::TableGone)). Other tables are used meanwhile.
    /// Takes as long as [`Store::drop_table`], and the time to read all memory that was ever taken
    /// and no other table has, which the machine gives to the node by that; while it does, the
    /// catalog cannot be changed: no table can be made, dropped or cleared, and a node that ends
    /// waits.
    ///
    /// A part of a table over several nodes that is among them is lost: its keys fail, as if its
    /// node had come back empty, until it is [restored](Store::restore) or its loss
    /// [accepted](Store::accept_loss).
    ///
    /// # Errors
    /// What the fabric says of a node that does not answer: others may have been repaired then.
    ///
    /// ```
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// let store = farslot::Store::embedded()?;
    /// for node in store.damage()? {
    ///     println!("{} bytes of {} cannot be used", node.bytes, node.address);
    /// }
    /// assert!(store.repair()?.is_empty(), "nothing is damaged");
    /// # Ok(())
    /// # }
    /// ```
    pub fn repair(&self) -> Result<Vec<Damage>> {
        self.of_each_catalog(async |catalog| catalog.repair().await)
    }

    /// What is said of each node's catalog, with the node's address.
    fn of_each_catalog(
        &self,
        ask: impl AsyncFn(Catalog<'_, crate::lease::Leased>) -> Result<Option<Damage>>,
    ) -> Result<Vec<Damage>> {
        let nodes = &self.0.sessions.nodes;
        let answers =
            self.change(async |endpoint| sharded::ask_all(endpoint, nodes, &ask).await)?;
        let answers = (0..).map(NodeId).zip(answers);
        let answers = answers.map(|(node, answer)| {
            let failed = |error| nodes.named(node, StoreError::Fabric(error));
            let mut damage = answer.map_err(failed)?;
            if let Some(Damage {
                address, entries, ..
            }) = &mut damage
            {
                nodes.address(node).clone_into(address);
                for entry in entries {
                    address.clone_into(&mut entry.address);
                }
            }
            Ok(damage)
        });
        answers.filter_map(Result::transpose).collect()
    }
}
