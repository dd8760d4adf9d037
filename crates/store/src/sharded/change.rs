//! Dropping, renaming and clearing tables, on all nodes that have a part of one.
//!
//! A table over several nodes is dropped in two steps, so that nobody brings back a part of it: all
//! its parts are retired before the memory of any is freed, and where one is retired nobody makes
//! it anew. A node that cannot be reached, or a client that dies half way, leaves a table that says
//! that it is gone; dropping it again finishes it.

use super::find::{LocatedTable, PartitionPlace, check_phases, find, nodes_of};
use crate::catalog::{Catalog, GRACE, LEASE, TableRecord};
use crate::nodes::StoreNodes;
use crate::{Result, StoreError};
use farslot_fabric::{Endpoint, EndpointExt, NodeId};

/// The nodes that have a part of a table, and which table it is.
struct Parts {
    nodes: Vec<NodeId>,
    creation: Option<u64>,
}

/// Finds all parts of a table; all their nodes must be there, and take changes.
async fn parts_of<E: Endpoint>(endpoint: &E, nodes: &StoreNodes, name: &str) -> Result<Parts> {
    let parts = match find(endpoint, nodes, name).await? {
        LocatedTable::Whole(node, _) => Parts {
            nodes: vec![node],
            creation: None,
        },
        LocatedTable::Sharded(table) => {
            let unreachable = |place: &PartitionPlace| {
                let error = place.unreachable.clone()?;
                Some(nodes.named(place.node, StoreError::Fabric(error)))
            };
            if let Some(error) = table.places.iter().find_map(unreachable) {
                return Err(error);
            }
            Parts {
                nodes: table.places.iter().map(|place| place.node).collect(),
                creation: Some(table.common.creation),
            }
        }
    };
    check_phases(endpoint, nodes, parts.nodes.iter().copied()).await?;
    Ok(parts)
}

/// Frees what was retired, when nobody uses it any more.
async fn reclaim<E: Endpoint>(
    endpoint: &E,
    nodes: &StoreNodes,
    retired: &[(NodeId, TableRecord)],
) -> Result<()> {
    if retired.is_empty() {
        return Ok(());
    }
    endpoint.sleep(GRACE).await;
    for (node, record) in retired {
        let reclaimed = Catalog::new(endpoint, *node)?.reclaim(record).await;
        reclaimed.map_err(|error| nodes.named(*node, error))?;
    }
    Ok(())
}

/// Drops a table.
pub(crate) async fn drop_table<E: Endpoint>(
    endpoint: &E,
    nodes: &StoreNodes,
    name: &str,
) -> Result<()> {
    let parts = match parts_of(endpoint, nodes, name).await {
        // Whoever began to drop it has not come to an end.
        Err(StoreError::TableGone { .. }) => all_nodes(endpoint, nodes, name).await?,
        parts => parts?,
    };
    let mut retired = Vec::with_capacity(parts.nodes.len());
    for node in parts.nodes {
        let catalog = Catalog::new(endpoint, node)?;
        let record = catalog.retire(name, parts.creation).await;
        let record = record.map_err(|error| nodes.named(node, error))?;
        retired.extend(record.map(|record| (node, record)));
    }
    reclaim(endpoint, nodes, &retired).await
}

/// All nodes, and the creation of the table of that name of which some still have a part.
async fn all_nodes<E: Endpoint>(endpoint: &E, nodes: &StoreNodes, name: &str) -> Result<Parts> {
    let mut parts = Parts {
        nodes: nodes_of(endpoint).collect(),
        creation: None,
    };
    for node in &parts.nodes {
        let found = Catalog::new(endpoint, *node)?.find(name).await;
        let found = found.map_err(|error| nodes.named(*node, error))?;
        if let Some(part) = found.and_then(|record| record.partition) {
            parts.creation = Some(part.creation);
        }
    }
    Ok(parts)
}

/// Gives a table another name.
pub(crate) async fn rename<E: Endpoint>(
    endpoint: &E,
    nodes: &StoreNodes,
    name: &str,
    to: &str,
) -> Result<()> {
    let parts = parts_of(endpoint, nodes, name).await?;
    for node in nodes_of(endpoint) {
        let found = Catalog::new(endpoint, node)?.find(to).await;
        let found = found.map_err(|error| nodes.named(node, error))?;
        let creation = |record: &TableRecord| record.partition.as_ref().map(|part| part.creation);
        // Of this very table a renaming that was not finished may have left it.
        if found.is_some_and(|other| parts.creation.is_none() || creation(&other) != parts.creation)
        {
            return Err(StoreError::TableExists { name: to.into() });
        }
    }
    for node in parts.nodes {
        let catalog = Catalog::new(endpoint, node)?;
        let renamed = catalog.rename(name, to, parts.creation).await;
        renamed.map_err(|error| nodes.named(node, error))?;
    }
    // By then nobody uses it under the name before any more.
    endpoint.sleep(LEASE).await;
    Ok(())
}

/// Notes that the records of a table have come from a snapshot, on all of its nodes but those whose
/// parts it was made without.
pub(crate) async fn mark_restored<E: Endpoint>(
    endpoint: &E,
    nodes: &StoreNodes,
    name: &str,
) -> Result<()> {
    let parts = parts_of(endpoint, nodes, name).await?;
    for node in parts.nodes {
        let catalog = Catalog::new(endpoint, node)?;
        let found = catalog.find(name).await;
        let found = found.map_err(|error| nodes.named(node, error))?;
        let part = found.and_then(|record| record.partition);
        if part.is_some_and(|part| part.remade) {
            continue;
        }
        let marked = catalog.mark_restored(name, parts.creation).await;
        marked.map_err(|error| nodes.named(node, error))?;
    }
    Ok(())
}

/// Takes all records out of a table: all its parts are taken away before any is open again, so that
/// there is a moment at which no client has any of it open.
pub(crate) async fn clear<E: Endpoint>(endpoint: &E, nodes: &StoreNodes, name: &str) -> Result<()> {
    let parts = parts_of(endpoint, nodes, name).await?;
    let (mut begun, mut failed) = (Vec::with_capacity(parts.nodes.len()), None);
    for node in parts.nodes {
        match Catalog::new(endpoint, node)?
            .begin_clearing(name, parts.creation)
            .await
        {
            Ok(record) => begun.extend(record.map(|record| (node, record))),
            // What was taken away is opened all the same.
            Err(error) => {
                failed = Some(nodes.named(node, error));
                break;
            }
        }
    }
    if !begun.is_empty() {
        endpoint.sleep(GRACE).await;
    }
    for (node, record) in &begun {
        let catalog = Catalog::new(endpoint, *node)?;
        let opened = catalog.end_clearing(record, true).await;
        opened.map_err(|error| nodes.named(*node, error))?;
    }
    failed.map_or(Ok(()), Err)
}
