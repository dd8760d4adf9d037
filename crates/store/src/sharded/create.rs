//! Making a table over several nodes, or on one of several.
//!
//! All creators of a name claim it on the same node first, the one of the lowest incarnation, and
//! whoever wins there makes the other partitions. From then on the table exists: should its creator
//! die half way, or a node be lost to it, whoever opens the table makes what is missing (see
//! [`super::revive`]).

use super::find::{ask_all, check_phases, find, nodes_of};
use crate::catalog::record::Scheme;
use crate::catalog::{Catalog, GRACE, NewPartition, PartitionMap, PartitionNode};
use crate::names::check_name;
use crate::nodes::StoreNodes;
use crate::slot_map::SlotMap;
use crate::{OnRestart, Result, StoreError, TableRecord};
use farslot_fabric::{Endpoint, EndpointExt, NodeId, window};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// A table over several nodes that is to be made.
pub(crate) struct NewTable<'n> {
    pub(crate) name: &'n str,
    /// Drawn at random: what tells this table from another of its name.
    pub(crate) creation: u64,
    /// The schemes of its partitions, one for each node.
    pub(crate) schemes: Vec<Scheme>,
    /// Whether it is to be built whole.
    pub(crate) prebuilt: bool,
    pub(crate) slots: SlotMap,
    pub(crate) on_restart: OnRestart,
    /// The partitions whose records are lost: a snapshot that has them can still put them back.
    pub(crate) without: &'n [u16],
}

/// Makes the table on all nodes; returns the record of its first partition. `reclaim` has tables of
/// a node give back what they do not need; false if nothing is free then.
///
/// # Errors
/// [`StoreError::TableExists`] if any node has one of the name; [`StoreError::Node`] if one cannot
/// be reached; [`StoreError::OutOfMemory`] if one has no room. If that happens to another than the
/// first node to be asked, because others took the room meanwhile, the table exists and lacks the
/// partition.
pub(crate) async fn create<E: Endpoint>(
    endpoint: &E,
    nodes: &StoreNodes,
    new: NewTable<'_>,
    reclaim: impl AsyncFn(NodeId) -> bool,
) -> Result<TableRecord> {
    check_name(new.name)?;
    let repairs = check_all(endpoint, nodes, &new, reclaim).await?;
    let map = PartitionMap {
        slots: new.slots.clone(),
        nodes: nodes_as_they_are(endpoint, nodes, &repairs)?,
        on_restart: new.on_restart,
    };
    let creation = new.creation;
    let partition = |number: u16| NewPartition {
        creation,
        number,
        prebuilt: new.prebuilt,
        remade: new.without.contains(&number),
        map: &map,
    };
    let make = async |node: NodeId| {
        let scheme = new.schemes[usize::from(node.0)].clone();
        let catalog = Catalog::new(endpoint, node)?;
        let made = catalog
            .create(new.name, scheme, Some(partition(node.0)))
            .await;
        made.map_err(|error| nodes.named(node, error))
    };
    let mut order: Vec<_> = nodes_of(endpoint).collect();
    order.sort_by_key(|node| map.nodes[usize::from(node.0)].incarnation);
    let mut records = vec![None; order.len()];
    records[usize::from(order[0].0)] = Some(make(order[0]).await?);

    let (mut failed, rest) = (None, &order[1..]);
    let creations = rest.iter().map(|node| async {
        let made = make(*node).await;
        // Somebody who opened the table may have been faster.
        or_theirs(endpoint, *node, new.name, (creation, node.0), made).await
    });
    window(order.len(), creations, |at, made| match made {
        Ok(record) => records[usize::from(rest[at].0)] = Some(record),
        Err(error) => {
            failed.get_or_insert(nodes.named(rest[at], error));
        }
    })
    .await;
    match (failed, records.swap_remove(0)) {
        (None, Some(record)) => Ok(record),
        (failed, _) => Err(failed.unwrap_or(StoreError::CreationCancelled {
            name: new.name.into(),
        })),
    }
}

/// Makes a table that lies on one of the nodes: by a hash of its name and of the nodes'
/// incarnations, so that all creators of the name choose the same, in whatever order they list the
/// nodes.
///
/// # Errors
/// As [`create`].
pub(crate) async fn create_on_one<E: Endpoint>(
    endpoint: &E,
    nodes: &StoreNodes,
    name: &str,
    scheme: Scheme,
) -> Result<TableRecord> {
    check_name(name)?;
    let found = ask_all(endpoint, nodes, async |catalog| catalog.find(name).await);
    let mut chosen = (0, NodeId(0));
    for (node, found) in nodes_of(endpoint).zip(found.await?) {
        let found = found.map_err(|error| nodes.named(node, StoreError::Fabric(error)))?;
        if found.is_some() {
            return Err(StoreError::TableExists { name: name.into() });
        }
        let seed = endpoint.node(node)?.incarnation;
        chosen = chosen.max((xxh3_64_with_seed(name.as_bytes(), seed), node));
    }
    let node = chosen.1;
    let catalog = Catalog::new(endpoint, node)?;
    let made = catalog.create(name, scheme, None).await;
    let made = made.map_err(|error| nodes.named(node, error))?;
    // A table over all nodes, whose creator began elsewhere, may have got the name meanwhile.
    if let Err(StoreError::ConflictingTables { .. }) = find(endpoint, nodes, name).await {
        if let Some(retired) = catalog.retire(name, None).await? {
            endpoint.sleep(GRACE).await;
            catalog.reclaim(&retired).await?;
        }
        return Err(StoreError::TableExists { name: name.into() });
    }
    Ok(made)
}

/// The partition of that creation and number that another client has made, where this one could
/// not: its name, or the room for it, is taken by that very partition then.
pub(super) async fn or_theirs<E: Endpoint>(
    endpoint: &E,
    node: NodeId,
    name: &str,
    partition: (u64, u16),
    made: Result<TableRecord>,
) -> Result<TableRecord> {
    let Err(refused @ (StoreError::TableExists { .. } | StoreError::OutOfMemory { .. })) = made
    else {
        return made;
    };
    let found = Catalog::new(endpoint, node)?.find(name).await?;
    let ours = |record: &TableRecord| {
        let part = record.partition.as_ref();
        part.is_some_and(|part| (part.creation, part.number) == partition)
    };
    found.filter(ours).ok_or(refused)
}

/// The nodes' addresses and incarnations, with how often each was repaired. All must be there.
fn nodes_as_they_are<E: Endpoint>(
    endpoint: &E,
    nodes: &StoreNodes,
    repairs: &[u64],
) -> Result<Vec<PartitionNode>> {
    let known = nodes_of(endpoint).zip(repairs).map(|(node, repairs)| {
        Ok(PartitionNode {
            address: nodes.address(node).into(),
            incarnation: endpoint.node(node)?.incarnation,
            repairs: *repairs,
        })
    });
    known.collect()
}

/// Refuses a name that is taken on any node, and a table that any node has no room for, takes no
/// changes for or cannot be asked about; returns how often each was repaired. Where there is no
/// room, once more when other tables have given back what they do not need.
async fn check_all<E: Endpoint>(
    endpoint: &E,
    nodes: &StoreNodes,
    new: &NewTable<'_>,
    reclaim: impl AsyncFn(NodeId) -> bool,
) -> Result<Vec<u64>> {
    let checks = ask_all(endpoint, nodes, async |catalog| {
        let listing = catalog.listing().await?;
        if listing.find(new.name)?.is_some() {
            let name = new.name.into();
            return Err(StoreError::TableExists { name });
        }
        let scheme = &new.schemes[usize::from(catalog.node().0)];
        let room = match catalog.check_room(new.name, scheme).await {
            Err(StoreError::OutOfMemory { .. }) if reclaim(catalog.node()).await => {
                catalog.check_room(new.name, scheme).await
            }
            room => room,
        };
        // It may be taken by another table of the name, made since.
        match room.is_err() && catalog.find(new.name).await?.is_some() {
            true => Err(StoreError::TableExists {
                name: new.name.into(),
            }),
            false => room.map(|()| listing.repairs),
        }
    });
    let checks = nodes_of(endpoint).zip(checks.await?);
    let repairs = checks
        .map(|(node, check)| check.map_err(|error| nodes.named(node, StoreError::Fabric(error))))
        .collect::<Result<_>>()?;
    check_phases(endpoint, nodes, nodes_of(endpoint)).await?;
    Ok(repairs)
}
