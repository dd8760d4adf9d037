//! Restoring the part that a node had of a table over several.
//!
//! The part is made under another name, with the number that it has in the table: so nobody makes it
//! anew, empty, while it is filled, and clients of the table are told that the node came back
//! without it. Then it gets its name. If a client was faster, and has made it anew, what it has put
//! since stays, and the records of the snapshot go beside that.

use super::format::PartOf;
use super::restore::{MOST_ENLARGEMENTS, Source, enlarged, is_full};
use super::workers::Meter;
use super::{OnProgress, RESTORING, SnapshotError, SnapshotInfo};
use crate::catalog::{Catalog, NewPartition};
use crate::lease::Leased;
use crate::{Operation, Record, Result, Scheme, Store, StoreError, Table, TableRecord};
use farslot_fabric::{EndpointExt, NodeId};

impl Store {
    /// Makes the part again that the only node of this store had.
    pub(super) fn restore_part(
        &self,
        source: &Source,
        part: &PartOf,
        progress: OnProgress<'_>,
    ) -> Result<SnapshotInfo> {
        let (head, path) = (&source.walk.head, source.path.display().to_string());
        if self.node_count() != 1 {
            return Err(SnapshotError::OnePart {
                path,
                number: part.number,
            }
            .into());
        }
        let name = &*head.table;
        if let Some(there) = self.in_catalog(async |catalog| catalog.find(name).await)? {
            let is_it = |of: &crate::Partition| {
                of.remade && (of.creation, of.number) == (part.creation, part.number)
            };
            if !there.partition.as_ref().is_some_and(is_it) {
                let name = name.into();
                return Err(StoreError::TableExists { name });
            }
            self.fill_part(&self.own_part(&there)?, source, true, progress)?;
            return Ok(source.info());
        }
        let unfinished = format!("{RESTORING}{:016x}", head.id);
        let mut scheme = head.schemes[0].clone();
        for attempt in 0.. {
            self.drop_own_part(&unfinished, part.creation)?;
            let made = self.make_part(&unfinished, scheme.clone(), part)?;
            let filled = self.fill_part(&self.own_part(&made)?, source, false, progress);
            match filled {
                Err(error) if is_full(&error) && attempt < MOST_ENLARGEMENTS => {
                    log::warn!("the part of table {name:?} is made an eighth larger: {error}");
                    scheme = enlarged(&scheme)?;
                }
                filled => {
                    filled?;
                    break;
                }
            }
        }
        let creation = Some(part.creation);
        let renamed =
            self.in_catalog(async |catalog| catalog.rename(&unfinished, name, creation).await)?;
        match renamed {
            Some(_) => Ok(source.info()),
            None => {
                let table = name.into();
                Err(SnapshotError::Replaced { table }.into())
            }
        }
    }

    /// Asks the catalog of the only node, or changes it.
    fn in_catalog<T>(&self, work: impl AsyncFn(&Catalog<'_, Leased>) -> Result<T>) -> Result<T> {
        let executor = self.executor()?;
        executor.block_on(async {
            let catalog = Catalog::new(&**executor.endpoint(), NodeId(0))?;
            work(&catalog).await
        })
    }

    fn make_part(&self, name: &str, scheme: Scheme, part: &PartOf) -> Result<TableRecord> {
        let new = NewPartition {
            creation: part.creation,
            number: part.number,
            whole: part.whole,
            remade: false,
            map: &part.map,
        };
        self.in_catalog(async |catalog| catalog.create(name, scheme.clone(), Some(new)).await)
    }

    /// Drops what an attempt that was cut off has left, if there is any.
    fn drop_own_part(&self, name: &str, creation: u64) -> Result<()> {
        let executor = self.executor()?;
        executor.block_on(async {
            let catalog = Catalog::new(&**executor.endpoint(), NodeId(0))?;
            let Some(retired) = catalog.retire(name, Some(creation)).await? else {
                return Ok(());
            };
            executor.endpoint().sleep(catalog.grace()).await;
            catalog.reclaim(&retired).await
        })
    }

    /// Puts the records of the snapshot; those of keys that are absent, if it is `beside` others.
    fn fill_part(
        &self,
        table: &Table,
        source: &Source,
        beside: bool,
        progress: OnProgress<'_>,
    ) -> Result<()> {
        let meter = Meter::new(0, source.records(), progress);
        let mut payloads = Vec::new();
        for block in source.blocks_of(0) {
            let mut payload = Vec::new();
            source.read(block, &mut payload)?;
            if source.walk.head.built {
                payloads.push(payload);
            } else {
                put_part(table, &Source::records_in(&payload), beside)?;
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

fn put_part(table: &Table, records: &[Record<'_>], beside: bool) -> Result<()> {
    let mut failure = None;
    let operations = records.iter().map(|(key, value)| match beside {
        true => Operation::FindOrPut(key, value),
        false => Operation::Put(key, value),
    });
    let operations: Vec<_> = operations.collect();
    table.run_many(&operations, |_, put| {
        if let Err(error) = put {
            failure.get_or_insert(error);
        }
    });
    failure.map_or(Ok(()), Err)
}
