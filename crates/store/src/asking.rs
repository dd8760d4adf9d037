//! What a store's nodes say of themselves and of their tables.

use crate::catalog::pool::FIRST_REGION;
use crate::catalog::{Catalog, Listing, MemoryUse, TableRecord};
use crate::nodes::NodeReport;
use crate::sharded;
use crate::store::Store;
use crate::{OnRestart, Partition, Result, StoreError};
use farslot_fabric::{Endpoint, NodeId, RemoteAddr};
use std::collections::{BTreeSet, HashSet};
use std::time::Duration;

/// READs of which the median is a node's round-trip time.
const PINGS: usize = 5;

impl Store {
    /// All tables, oldest first. Of one over several nodes, the record of one of its parts; those
    /// of nodes that do not answer are left out, unless none does.
    ///
    /// # Errors
    /// What the fabric says.
    ///
    /// ```
    /// # use farslot::{Store, TableOptions};
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// let store = Store::embedded()?;
    /// store.create("stock", &TableOptions::new(100))?;
    /// assert_eq!(store.tables()?[0].name, "stock");
    /// # Ok(())
    /// # }
    /// ```
    pub fn tables(&self) -> Result<Vec<TableRecord>> {
        Ok(self.listing()?.tables)
    }

    /// All tables, as [`Store::tables`], and the entries of the nodes' catalogs that are damaged:
    /// those tables cannot be opened, the others can.
    ///
    /// # Errors
    /// What the fabric says.
    ///
    /// ```
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// for damaged in farslot::Store::embedded()?.listing()?.damaged {
    ///     println!("{damaged}");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn listing(&self) -> Result<Listing> {
        let mut all = Listing::default();
        let mut known = HashSet::new();
        for answer in self.ask_all()? {
            let tables = answer.listing.tables.into_iter();
            all.tables
                .extend(tables.filter(|table| known.insert(table.name.clone())));
            let address = self.0.sessions.nodes.address(answer.node);
            for mut damaged in answer.listing.damaged {
                address.clone_into(&mut damaged.address);
                all.damaged.push(damaged);
            }
        }
        Ok(all)
    }

    /// The name of the table that the memory at an address belongs to, if it belongs to one.
    ///
    /// # Errors
    /// What the fabric says.
    pub fn table_at(&self, at: RemoteAddr) -> Result<Option<String>> {
        let answers = self.ask_all()?.into_iter();
        let of_node = answers.filter(|answer| answer.node == at.node);
        let mut tables = of_node.flat_map(|answer| answer.listing.tables);
        let found = tables.find(|table| match at.region.0.checked_sub(FIRST_REGION) {
            Some(entry) => table.tag != 0 && table.entry == usize::from(entry),
            None => table.extent().contains(&at.offset),
        });
        Ok(found.map(|table| table.name))
    }

    /// How much of the memory the tables have taken, of all nodes that answer together.
    ///
    /// # Errors
    /// What the fabric says.
    ///
    /// ```
    /// # use farslot::{Store, TableOptions};
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// let store = Store::embedded()?;
    /// let before = store.memory()?.taken;
    /// store.create("stock", &TableOptions::new(100))?;
    /// assert!(store.memory()?.taken > before);
    /// # Ok(())
    /// # }
    /// ```
    pub fn memory(&self) -> Result<MemoryUse> {
        let answers = self.ask_all()?;
        let all = answers.iter().map(|answer| answer.memory);
        let none = MemoryUse {
            total: 0,
            taken: 0,
            largest_free: 0,
        };
        Ok(all.fold(none, |sum, of| MemoryUse {
            total: sum.total + of.total,
            taken: sum.taken + of.taken,
            largest_free: sum.largest_free.max(of.largest_free),
        }))
    }

    /// Bytes that are free in one piece on every node that answers.
    pub(crate) fn largest_free(&self) -> Result<u64> {
        let answers = self.ask_all()?;
        let free = answers.iter().map(|answer| answer.memory.largest_free);
        Ok(free.min().unwrap_or(0))
    }

    /// Asks every node how it is, all at once.
    ///
    /// # Errors
    /// That none answers, and why the first does not.
    ///
    /// ```
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// for node in farslot::Store::embedded()?.nodes()? {
    ///     println!("{}: {:?}", node.address, node.error);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn nodes(&self) -> Result<Vec<NodeReport>> {
        let nodes = &self.0.sessions.nodes;
        let executor = self.executor()?;
        let endpoint = &**executor.endpoint();
        let answers = executor.block_on(sharded::ask_all(endpoint, nodes, async |catalog| {
            Ok(NodeAnswer {
                round_trip: Some(catalog.round_trip(PINGS).await?),
                ..NodeAnswer::of(&catalog).await?
            })
        }))?;
        let sharded_tables = names_of_sharded_tables(&answers);
        let reports = sharded::nodes_of(endpoint).zip(answers);
        let reports = reports.map(|(node, answer)| {
            let incarnation = endpoint.node(node)?.incarnation;
            let (answer, error) = match answer {
                Ok(answer) => (Some(answer), None),
                Err(error) => (None, Some(error)),
            };
            let answer = answer.as_ref();
            Ok(NodeReport {
                address: nodes.address(node).into(),
                error,
                incarnation,
                restarted: nodes.is_another(node, incarnation),
                round_trip: answer.and_then(|answer| answer.round_trip),
                memory: answer.map(|answer| answer.memory),
                tables: answer.map(|answer| answer.listing.tables.len() as u64),
                adopted: nodes.times_adopted(node),
                lost: answer.map_or_else(Vec::new, |answer| answer.lost_of(&sharded_tables)),
            })
        });
        let reports = reports.collect::<Result<Vec<_>>>()?;
        match reports.first() {
            Some(NodeReport {
                error: Some(error), ..
            }) if reports.iter().all(|report| report.error.is_some()) => {
                Err(nodes.named(NodeId(0), StoreError::Fabric(error.clone())))
            }
            _ => Ok(reports),
        }
    }

    /// The answers of the nodes that answer; an error if none does.
    fn ask_all(&self) -> Result<Vec<NodeAnswer>> {
        let nodes = &self.0.sessions.nodes;
        let executor = self.executor()?;
        let asking = sharded::ask_all(&**executor.endpoint(), nodes, async |catalog| {
            NodeAnswer::of(&catalog).await
        });
        let answers = executor.block_on(asking)?;
        let mut first = None;
        let mut answered = Vec::with_capacity(answers.len());
        for (node, answer) in (0..).map(NodeId).zip(answers) {
            match answer {
                Ok(answer) => answered.push(answer),
                Err(error) => {
                    first.get_or_insert(nodes.named(node, StoreError::Fabric(error)));
                }
            }
        }
        match first {
            Some(error) if answered.is_empty() => Err(error),
            _ => Ok(answered),
        }
    }
}

/// What a node has said.
struct NodeAnswer {
    node: NodeId,
    listing: Listing,
    memory: MemoryUse,
    round_trip: Option<Duration>,
}

impl NodeAnswer {
    async fn of<E: Endpoint>(catalog: &Catalog<'_, E>) -> Result<Self> {
        let (listing, memory) = catalog.listing_and_memory().await?;
        Ok(Self {
            node: catalog.node(),
            listing,
            memory,
            round_trip: None,
        })
    }
}

/// The names of all tables over several nodes of which a part can be lost without more ado.
fn names_of_sharded_tables<E>(answers: &[std::result::Result<NodeAnswer, E>]) -> BTreeSet<String> {
    let tables = answers
        .iter()
        .flatten()
        .flat_map(|answer| &answer.listing.tables);
    let is_refused = |of: &Partition| of.on_restart == OnRestart::Refuse;
    let sharded = tables
        .filter(|table| !table.is_part_being_restored())
        .filter(|table| table.partition.as_ref().is_some_and(is_refused));
    sharded.map(|table| table.name.clone()).collect()
}

impl NodeAnswer {
    /// Those of the tables over several nodes of which the node has lost its part.
    fn lost_of(&self, sharded_tables: &BTreeSet<String>) -> Vec<String> {
        let has = |name: &&String| {
            let mut tables = self.listing.tables.iter();
            tables.any(|table| table.name == **name)
        };
        sharded_tables
            .iter()
            .filter(|name| !has(name))
            .cloned()
            .collect()
    }
}
