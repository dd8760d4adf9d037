//! Restoring the part that a node had of a table over several, from a snapshot of its own or from
//! one of the whole table.
//!
//! The part is made under another name, with the number that it has in the table: so nobody makes
//! it anew, empty, while it is filled, and clients of the table are told that the node came back
//! without it. Then it gets its name. If a client was faster, and has made it anew, what it has put
//! since stays, and the records of the snapshot go beside that.

use super::format::{PartOf, ShardOrigin};
use super::repartition::enlarged;
use super::restore::{MOST_ENLARGEMENTS, is_full};
use super::source::{Source, names, records_of};
use super::workers::ProgressMeter;
use super::{OnProgress, SnapshotError, SnapshotInfo};
use crate::catalog::record::Scheme;
use crate::catalog::{Catalog, GRACE, NewPartition, RESTORING_PART};
use crate::lease::Leased;
use crate::sharded::{self, LocatedTable, ShardedLocation};
use crate::{BatchError, Operation, Record, Result, Store, StoreError, Table, TableRecord};
use farslot_fabric::{EndpointExt, NodeId};

impl Store {
    /// Makes the part again that a node had which has these addresses: the store's only node, where
    /// there is no other. Nothing if the table was on one node, and so is the store.
    pub(super) fn restore_part(
        &self,
        source: &Source,
        addresses: &[String],
        progress: OnProgress<'_>,
    ) -> Result<Option<SnapshotInfo>> {
        let Some((node, part)) = self.part_to_restore(source, addresses)? else {
            return Ok(None);
        };
        let restored = self.remake_part(source, node, &part, progress);
        let records = restored.map_err(StoreError::in_doubt)?;
        Ok(Some(SnapshotInfo {
            records,
            part: Some(part.number),
            missing: Vec::new(),
            ..source.info()
        }))
    }

    /// The node that is to have its part, and which that is: as the other nodes say, else as the
    /// file says.
    fn part_to_restore(
        &self,
        source: &Source,
        addresses: &[String],
    ) -> Result<Option<(NodeId, PartOf)>> {
        if self.node_count() == 1 {
            let part = source.part_of(addresses)?;
            return Ok(part.map(|part| (NodeId(0), part)));
        }
        let head = &source.walk.head;
        let path = || source.path.display().to_string();
        if addresses.is_empty() {
            let (path, number) = (path(), head.part.as_ref().map_or(0, |part| part.number));
            return Err(SnapshotError::OnePart { path, number }.into());
        }
        let node = self.node_named(addresses)?;
        let executor = self.executor()?;
        let nodes = &self.0.sessions.nodes;
        let finding = sharded::find(&**executor.endpoint(), nodes, &head.table);
        let part = match executor.block_on(finding) {
            Ok(LocatedTable::Sharded(table)) => self.part_of_living(source, node, table)?,
            Ok(LocatedTable::Whole(..)) => {
                let name = head.table.clone();
                return Err(StoreError::TableExists { name });
            }
            // No node has anything of it.
            Err(StoreError::NoSuchTable { .. }) => {
                source
                    .part_of(addresses)?
                    .ok_or_else(|| SnapshotError::NodeCount {
                        path: path(),
                        partitions: 1,
                        nodes: nodes.addresses().len(),
                    })?
            }
            Err(error) => return Err(error),
        };
        Ok(Some((node, part)))
    }

    /// The node that has one of these addresses.
    fn node_named(&self, addresses: &[String]) -> Result<NodeId> {
        let all = self.0.sessions.nodes.addresses();
        let node = all.iter().position(|address| names(addresses, address));
        let node = node.ok_or_else(|| SnapshotError::NoSuchNode {
            node: addresses.join(" or "),
            nodes: all.join(", "),
        })?;
        Ok(NodeId(node as u16))
    }

    /// The part that a node has, or had, of a table that other nodes have; the file must be of that
    /// table, or of that very part.
    fn part_of_living(
        &self,
        source: &Source,
        node: NodeId,
        table: ShardedLocation,
    ) -> Result<PartOf> {
        let head = &source.walk.head;
        let number = table.places.iter().position(|place| place.node == node);
        let is_of_it = |number: usize| {
            let known = head.shard_origin();
            known.is_some_and(|known| known.map.slots == table.map.slots)
                && head
                    .part
                    .as_ref()
                    .is_none_or(|part| usize::from(part.number) == number)
        };
        let number = number.filter(|number| is_of_it(*number));
        let number = number.ok_or_else(|| SnapshotError::OtherPart {
            path: source.path.display().to_string(),
            table: head.table.clone(),
            node: self.0.sessions.nodes.address(node).into(),
        })?;
        Ok(PartOf {
            number: number as u16,
            of: ShardOrigin {
                creation: table.common.creation,
                prebuilt: table.common.prebuilt,
                map: table.map,
            },
        })
    }

    /// Makes the part again on its node; returns how many records the snapshot has of it.
    fn remake_part(
        &self,
        source: &Source,
        node: NodeId,
        part: &PartOf,
        progress: OnProgress<'_>,
    ) -> Result<u64> {
        let head = &source.walk.head;
        let name = &*head.table;
        let creation = part.of.creation;
        // Which of the file's partitions it is.
        let number = match head.part {
            Some(_) => 0,
            None => part.number,
        };
        if head.missing.contains(&number) {
            return Err(SnapshotError::PartMissing {
                path: source.path.display().to_string(),
                table: name.into(),
                node: self.0.sessions.nodes.address(node).into(),
            }
            .into());
        }
        let records = records_of(source.blocks_of(number.into()));
        if let Some(record) = self.in_catalog(node, async |catalog| catalog.find(name).await)? {
            let is_it = |of: &crate::Partition| {
                of.remade && (of.creation, of.number) == (creation, part.number)
            };
            if !record.partition.as_ref().is_some_and(is_it) {
                let name = name.into();
                return Err(StoreError::TableExists { name });
            }
            self.fill_part(
                &self.part_on(node, &record)?,
                source,
                number,
                true,
                progress,
            )?;
            self.mark_part(node, name, name, creation)?;
            return Ok(records);
        }
        // Whichever snapshot a restore that was cut off was from: what it has left is removed.
        let unfinished = format!("{RESTORING_PART}{creation:016x}");
        self.fill_new_part(source, number, (node, part), &unfinished, progress)?;
        self.mark_part(node, &unfinished, name, creation)?;
        let renamed = self.in_catalog(node, async |catalog| {
            catalog.rename(&unfinished, name, Some(creation)).await
        })?;
        match renamed {
            Some(_) => Ok(records),
            None => {
                let table = name.into();
                Err(SnapshotError::Replaced { table }.into())
            }
        }
    }

    /// Makes the part under another name, and fills it from a partition of the snapshot.
    fn fill_new_part(
        &self,
        source: &Source,
        number: u16,
        (node, part): (NodeId, &PartOf),
        unfinished: &str,
        progress: OnProgress<'_>,
    ) -> Result<()> {
        let (head, creation) = (&source.walk.head, part.of.creation);
        self.drop_own_part(node, unfinished, creation)?;
        let had = head.schemes[usize::from(number)].clone();
        let mut scheme = self.fitting(vec![had], source)?.swap_remove(0);
        let mut attempts = 0;
        loop {
            let made = self.make_part(node, unfinished, scheme.clone(), part)?;
            let table = self.part_on(node, &made)?;
            match self.fill_part(&table, source, number, false, progress) {
                Err(error) if is_full(&error) && attempts < MOST_ENLARGEMENTS => {
                    let name = &head.table;
                    log::warn!("the part of table {name:?} is made an eighth larger: {error}");
                    scheme = enlarged(&scheme)?;
                    attempts += 1;
                    self.drop_own_part(node, unfinished, creation)?;
                }
                filled => return filled,
            }
        }
    }

    /// Notes that a part was restored, which has the name `of` as yet.
    fn mark_part(&self, node: NodeId, of: &str, table: &str, creation: u64) -> Result<()> {
        let marked = self.in_catalog(node, async |catalog| {
            catalog.mark_restored(of, Some(creation)).await
        })?;
        match marked {
            true => Ok(()),
            false => {
                let table = table.into();
                Err(SnapshotError::Replaced { table }.into())
            }
        }
    }

    /// Asks the catalog of a node, or changes it.
    pub(super) fn in_catalog<T>(
        &self,
        node: NodeId,
        work: impl AsyncFn(&Catalog<'_, Leased>) -> Result<T>,
    ) -> Result<T> {
        let executor = self.executor()?;
        executor.block_on(async {
            let catalog = Catalog::new(&**executor.endpoint(), node)?;
            work(&catalog).await
        })
    }

    fn make_part(
        &self,
        node: NodeId,
        name: &str,
        scheme: Scheme,
        part: &PartOf,
    ) -> Result<TableRecord> {
        let new = NewPartition {
            creation: part.of.creation,
            number: part.number,
            prebuilt: part.of.prebuilt,
            remade: false,
            map: &part.of.map,
        };
        self.in_catalog(node, async |catalog| {
            catalog.create(name, scheme.clone(), Some(new)).await
        })
    }

    /// Drops what an attempt that was cut off has left, if there is any.
    fn drop_own_part(&self, node: NodeId, name: &str, creation: u64) -> Result<()> {
        let executor = self.executor()?;
        executor.block_on(async {
            let catalog = Catalog::new(&**executor.endpoint(), node)?;
            let Some(retired) = catalog.retire(name, Some(creation)).await? else {
                return Ok(());
            };
            executor.endpoint().sleep(GRACE).await;
            catalog.reclaim(&retired).await
        })
    }

    /// Puts the records of a partition of the snapshot; those of keys that are absent, if it is
    /// `beside` others.
    fn fill_part(
        &self,
        table: &Table,
        source: &Source,
        number: u16,
        keeps_present: bool,
        progress: OnProgress<'_>,
    ) -> Result<()> {
        let all = records_of(source.blocks_of(number.into()));
        let meter = ProgressMeter::new(0, all, progress);
        let mut payloads = Vec::new();
        for block in source.blocks_of(number.into()) {
            let mut payload = Vec::new();
            source.read(block, &mut payload)?;
            if source.walk.head.built {
                payloads.push(payload);
            } else {
                put_part(table, &Source::records_in(&payload), keeps_present)?;
            }
            meter.add(block.frame.records)?;
        }
        if source.walk.head.built {
            let records = payloads
                .iter()
                .flat_map(|payload| Source::records_in(payload));
            table.build(&records.collect::<Vec<_>>())?;
        }
        table.flush()?;
        table.resign()
    }
}

fn put_part(table: &Table, records: &[Record<'_>], keeps_present: bool) -> Result<()> {
    let operations = records.iter().map(|(key, value)| match keeps_present {
        true => Operation::FindOrPut(key, value),
        false => Operation::Put(key, value),
    });
    let operations: Vec<_> = operations.collect();
    let put = table.run_many(&operations, |_, _| ());
    put.map_err(BatchError::into_first)
}
