//! Finding a table in the catalogs of all nodes.
//!
//! What the catalogs say decides which node has which partition, so that the order of the nodes in
//! an address does not matter. A partition that no catalog has belongs to the node that its creator
//! made it on: known by its incarnation if it is the same still (the creator did not get that far),
//! else by the address that its creator gave. A node that cannot be asked may turn out to be any of
//! those that are left.

use crate::catalog::{Catalog, DamagedEntry, GRACE, Partition, PartitionMap, PartitionNode};
use crate::names::listed;
use crate::nodes::StoreNodes;
use crate::{Listing, Result, StoreError, TableRecord};
use farslot_fabric::{Endpoint, EndpointExt, FabricError, Nanos, NodeId, NodeState, window};

/// What was seen of a table on a node.
#[derive(Clone, Debug, PartialEq)]
enum TableSighting {
    /// The node cannot be asked.
    Unreachable(FabricError),
    Nothing {
        repairs: u64,
    },
    Record(TableRecord),
}

/// A table that was found.
pub(crate) enum LocatedTable {
    /// On one node, all of it.
    Whole(NodeId, TableRecord),
    Sharded(ShardedLocation),
}

/// A table over several nodes that was found.
pub(crate) struct ShardedLocation {
    pub(crate) map: PartitionMap,
    /// The first partition's record that was found, which says what all have in common.
    pub(crate) sample: TableRecord,
    pub(crate) common: Partition,
    /// Where the partitions are or are to be, by number.
    pub(crate) places: Vec<PartitionPlace>,
    /// When the catalogs were asked.
    pub(crate) since: Nanos,
}

/// Where a partition is, or is to be.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PartitionPlace {
    pub(crate) node: NodeId,
    /// Whether that is known: by the node's catalog, its incarnation or its address. Else it is a
    /// guess.
    pub(crate) is_sure: bool,
    /// Nothing if the node cannot be asked or does not have it.
    pub(crate) record: Option<TableRecord>,
    /// Why the node cannot be asked.
    pub(crate) unreachable: Option<FabricError>,
    /// How often damaged entries of its node's catalog were cleared, where it does not have it.
    repairs: u64,
}

impl PartitionPlace {
    /// Whether its node, of this incarnation now, is without the partition that was made there: it
    /// came back empty, or the entry was damaged and cleared.
    pub(crate) const fn is_lost(&self, made: &PartitionNode, incarnation: u64) -> bool {
        // What its creator had not come to is no loss.
        let may_be_lost = self.repairs != made.repairs || incarnation != made.incarnation;
        may_be_lost && self.record.is_none() && self.unreachable.is_none()
    }
}

pub(crate) fn nodes_of<E: Endpoint>(endpoint: &E) -> impl Iterator<Item = NodeId> + use<E> {
    (0..endpoint.node_count() as u16).map(NodeId)
}

/// Asks every node, all at once; an outcome for each, by its number. What a node fails with is told
/// to `nodes`.
pub(crate) async fn ask_all<E: Endpoint, T>(
    endpoint: &E,
    nodes: &StoreNodes,
    ask: impl AsyncFn(Catalog<'_, E>) -> Result<T>,
) -> Result<Vec<std::result::Result<T, FabricError>>> {
    let ask = &ask;
    let questions = nodes_of(endpoint).map(async |node| {
        if let NodeState::Down(error) = endpoint.node_state(node)? {
            return Err(StoreError::Fabric(error));
        }
        ask(Catalog::new(endpoint, node)?).await
    });
    let mut outcomes: Vec<_> = nodes_of(endpoint).map(|_| None).collect();
    window(outcomes.len(), questions, |node, outcome| {
        outcomes[node] = Some(outcome);
    })
    .await;
    let outcomes = nodes_of(endpoint).zip(outcomes.into_iter().flatten());
    let asked = outcomes.map(|(node, outcome)| match outcome {
        Err(StoreError::Fabric(error)) if is_absence(&error) => {
            nodes.is_down(node, &error);
            Ok(Err(error))
        }
        Ok(answer) => {
            nodes.is_up(node, endpoint.node(node)?.incarnation);
            Ok(Ok(answer))
        }
        Err(error) => Err(nodes.named(node, error)),
    });
    asked.collect()
}

/// Refuses a change of a table while any of its nodes takes none: before it is made on the others.
pub(super) async fn check_phases<E: Endpoint>(
    endpoint: &E,
    nodes: &StoreNodes,
    of_table: impl IntoIterator<Item = NodeId>,
) -> Result<()> {
    for node in of_table {
        let admitted = Catalog::new(endpoint, node)?.check_phase().await;
        admitted.map_err(|error| nodes.named(node, error))?;
    }
    Ok(())
}

/// Whether an error says that the node is not there, or not what it was.
pub(crate) const fn is_absence(error: &FabricError) -> bool {
    error.is_outage() || matches!(error, FabricError::NodeRestarted { .. })
}

/// The most damaged entries that an error lists.
const MOST_DAMAGED: usize = 8;
/// What is waited between two looks at a table that is being cleared.
const PAUSE: Nanos = 25_000_000;
/// After this, whoever clears a table is taken for dead.
const LONGEST_EMPTYING: Nanos = 4 * GRACE;
/// After this a table that is being cleared is no longer waited for.
const PATIENCE: Nanos = 60_000_000_000;

/// Finds a table by its name. One that is being cleared is waited for; if the client that clears
/// it has died, this one does it.
///
/// # Errors
/// [`StoreError::NoSuchTable`], [`StoreError::ConflictingTables`], [`StoreError::MissingNodes`],
/// [`StoreError::DamagedMap`], [`StoreError::BeingCleared`], or what the fabric says of every node.
pub(crate) async fn find<E: Endpoint>(
    endpoint: &E,
    nodes: &StoreNodes,
    name: &str,
) -> Result<LocatedTable> {
    let begun = endpoint.now();
    loop {
        let since = endpoint.now();
        let listings = ask_all(endpoint, nodes, async |catalog| {
            catalog.listing_for(name).await
        })
        .await?;
        let clearing: Vec<_> = (0..)
            .map(NodeId)
            .zip(&listings)
            .filter_map(|(node, listing)| Some((node, listing.as_ref().ok()?)))
            .flat_map(|(node, listing)| listing.clearing.iter().map(move |record| (node, record)))
            .filter(|(_, record)| record.name == name)
            .collect();
        if clearing.is_empty() {
            return find_in(endpoint, nodes, name, listings, since).await;
        }
        let waited = since.saturating_sub(begun);
        if waited > PATIENCE {
            return Err(StoreError::BeingCleared {
                name: name.into(),
                waited,
            });
        }
        if waited > LONGEST_EMPTYING {
            for (node, record) in clearing {
                match Catalog::new(endpoint, node)?
                    .end_clearing(record, false)
                    .await
                {
                    // Somebody else has to: this client may only read.
                    Err(StoreError::Fabric(FabricError::AccessDenied { .. })) => {}
                    opened => opened.map_err(|error| nodes.named(node, error))?,
                }
            }
        }
        endpoint.sleep(PAUSE).await;
    }
}

/// Finds a table by its name in the catalogs as they were at `since`.
async fn find_in<E: Endpoint>(
    endpoint: &E,
    nodes: &StoreNodes,
    name: &str,
    listings: Vec<std::result::Result<Listing, FabricError>>,
    since: Nanos,
) -> Result<LocatedTable> {
    let mut names = Vec::new();
    let (mut damaged, mut retired) = (Vec::new(), Vec::new());
    let mut seen = Vec::with_capacity(listings.len());
    for (node, listing) in (0..).map(NodeId).zip(listings) {
        seen.push(match listing {
            Err(error) => TableSighting::Unreachable(error),
            Ok(listing) => {
                let found = listing
                    .find(name)
                    .map_err(|error| nodes.named(node, error))?;
                let found = found.cloned().map_or(
                    TableSighting::Nothing {
                        repairs: listing.repairs,
                    },
                    TableSighting::Record,
                );
                retired.extend(listing.retired.into_iter().map(|record| (node, record)));
                names.extend(listing.tables.into_iter().map(|table| table.name));
                damaged.extend(listing.damaged.into_iter().map(|entry| (node, entry)));
                found
            }
        });
    }
    let records = || {
        (0..).map(NodeId).zip(&seen).filter_map(|(node, seen)| {
            let TableSighting::Record(record) = seen else {
                return None;
            };
            Some((node, record))
        })
    };
    let Some((first, sample)) = records().next() else {
        return Err(not_found(name, names, &damaged, &seen, nodes));
    };
    let creation = |record: &TableRecord| record.partition.as_ref().map(|part| part.creation);
    let conflict = records()
        .skip(1)
        .find(|(_, other)| creation(other).is_none() || creation(other) != creation(sample));
    if let Some((other, _)) = conflict {
        return Err(conflicting(name, first, other, nodes));
    }
    let Some(common) = sample.partition.clone() else {
        return Ok(LocatedTable::Whole(first, sample.clone()));
    };
    // What a node lacks would be made anew. It may be gone for good, or be what is damaged.
    let is_lost = |node: NodeId| matches!(seen[usize::from(node.0)], TableSighting::Nothing { .. });
    let is_dropped = |(node, record): &(NodeId, TableRecord)| {
        let of = record.partition.as_ref().map(|part| part.creation);
        of == Some(common.creation) && is_lost(*node) && !record.is_part_being_restored()
    };
    if retired.iter().any(is_dropped) {
        return Err(StoreError::TableGone { name: name.into() });
    }
    if let Some((_, entry)) = damaged.iter().find(|(node, _)| is_lost(*node)) {
        return Err(entry.error());
    }
    let catalog = Catalog::new(endpoint, first)?;
    let map = catalog.map(sample, common.map).await;
    let map = map.map_err(|error| nodes.named(first, error))?;
    let incarnations = nodes_of(endpoint).map(|node| Ok(endpoint.node(node)?.incarnation));
    let incarnations = incarnations.collect::<Result<Vec<_>>>()?;
    let sample = sample.clone();
    let places = settle(name, &map, &seen, &incarnations, nodes)?;
    Ok(LocatedTable::Sharded(ShardedLocation {
        map,
        sample,
        common,
        places,
        since,
    }))
}

fn conflicting(name: &str, one: NodeId, other: NodeId, nodes: &StoreNodes) -> StoreError {
    StoreError::ConflictingTables {
        name: name.into(),
        one: nodes.address(one).into(),
        other: nodes.address(other).into(),
    }
}

fn not_found(
    name: &str,
    mut names: Vec<String>,
    damaged: &[(NodeId, DamagedEntry)],
    seen: &[TableSighting],
    nodes: &StoreNodes,
) -> StoreError {
    let unreachable = (0..).map(NodeId).zip(seen).filter_map(|(node, seen)| {
        let TableSighting::Unreachable(error) = seen else {
            return None;
        };
        Some((node, error))
    });
    let unreachable: Vec<_> = unreachable.collect();
    if unreachable.len() == seen.len()
        && let Some((node, error)) = unreachable.first()
    {
        return nodes.named(*node, StoreError::Fabric((*error).clone()));
    }
    let mut seen = std::collections::HashSet::new();
    names.retain(|name| seen.insert(name.clone()));
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    let mut tables = listed(&names);
    for (node, entry) in damaged.iter().take(MOST_DAMAGED) {
        let (entry, node) = (entry.entry, nodes.address(*node));
        tables = format!("{tables}; entry {entry} of the catalog of {node} is damaged");
    }
    for (node, _) in unreachable {
        tables = format!("{tables}; {} does not answer", nodes.address(node));
    }
    StoreError::NoSuchTable {
        name: name.into(),
        tables,
    }
}

/// Finds the node of each partition.
fn settle(
    name: &str,
    map: &PartitionMap,
    seen: &[TableSighting],
    incarnations: &[u64],
    nodes: &StoreNodes,
) -> Result<Vec<PartitionPlace>> {
    let mut places: Vec<Option<PartitionPlace>> = vec![None; map.nodes.len()];
    let mut free = Vec::new();
    for (node, seen) in (0..).map(NodeId).zip(seen) {
        let TableSighting::Record(record) = seen else {
            free.push((node, seen));
            continue;
        };
        let number = record.partition.as_ref().map_or(0, |part| part.number);
        let Some(place) = places.get_mut(usize::from(number)) else {
            return Err(StoreError::DamagedMap {
                name: name.into(),
                reason: format!("partition {number} of {}", map.nodes.len()),
            });
        };
        if let Some(other) = place {
            return Err(conflicting(name, other.node, node, nodes));
        }
        *place = Some(PartitionPlace {
            node,
            is_sure: true,
            record: Some(record.clone()),
            unreachable: None,
            repairs: 0,
        });
    }
    let known = |index: usize, node: NodeId| {
        let made = &map.nodes[index];
        let same = made.incarnation != 0 && incarnations[usize::from(node.0)] == made.incarnation;
        same || made.address == nodes.address(node)
    };
    let anything = |seen: &TableSighting| matches!(seen, TableSighting::Unreachable(_));
    let mut take = |is_sure: bool, of: &dyn Fn(usize, NodeId, &TableSighting) -> bool| {
        for (index, place) in places.iter_mut().enumerate() {
            if place.is_some() {
                continue;
            }
            let Some(at) = free.iter().position(|(node, seen)| of(index, *node, seen)) else {
                continue;
            };
            let (node, seen) = free.remove(at);
            let unreachable = match seen {
                TableSighting::Unreachable(error) => Some(error.clone()),
                _ => None,
            };
            *place = Some(PartitionPlace {
                node,
                is_sure,
                record: None,
                unreachable,
                repairs: match seen {
                    TableSighting::Nothing { repairs } => *repairs,
                    _ => 0,
                },
            });
        }
    };
    take(true, &|index, node, _| known(index, node));
    take(false, &|_, _, seen| anything(seen));
    let missing = (0..).zip(&places).filter(|(_, place)| place.is_none());
    let missing: Vec<_> = missing
        .map(|(index, _): (usize, _)| format!("partition {index} ({})", map.nodes[index].address))
        .collect();
    if !missing.is_empty() {
        return Err(StoreError::MissingNodes {
            name: name.into(),
            missing: missing.join(", "),
        });
    }
    Ok(places.into_iter().flatten().collect())
}
