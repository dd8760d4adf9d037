//! From a partition without a client to one that has one: its node was down when the table was
//! opened, or came back empty since, or its creator did not get that far.
//!
//! A partition whose node came back empty is lost, and no client makes it anew by itself: else one
//! client's lookup would turn what all others are told is lost into what never was. It is made anew
//! where the table says that this is fine, or when somebody accepts the loss.
//!
//! An empty partition is made by its node's catalog like any table: of several clients that find it
//! missing, one makes it, and its record is everybody's. What it is to be is read from another
//! node's catalog at that very moment, so that no client brings back a table that is gone from all
//! nodes.

use super::create::or_theirs;
use super::find::{LocatedTable, PartitionPlace, ShardedLocation, find, is_absence};
use super::{Entry, MOST_ATTEMPTS, Part, ShardedTable};
use crate::catalog::record::Scheme;
use crate::catalog::{Catalog, NewPartition, table_at};
use crate::{OnRestart, Result, StoreError, TableRecord};
use farslot_fabric::{Endpoint, FabricError, Nanos, NodeState, Rights};
use farslot_index::IndexError;

/// How long it is not looked whether somebody has brought back a partition that was refused.
const LOOK_AGAIN: Nanos = 250_000_000;

/// Whoever revives a partition is alone in that.
struct Reviving<'s>(&'s Part);

impl Drop for Reviving<'_> {
    fn drop(&mut self) {
        self.0.reviving.set(false);
    }
}

impl Part {
    /// Begins to revive it, if nobody else does and no operation with the client before is under
    /// way. Neither is waited for: it may be one that has called back, and goes on only when this
    /// one has ended.
    fn start_reviving(&self) -> Option<Reviving<'_>> {
        if self.users.get() > 0 || self.reviving.replace(true) {
            return None;
        }
        Some(Reviving(self))
    }
}

impl ShardedTable {
    /// Finds a partition, or makes it anew, and opens it.
    pub(super) async fn revive(&self, number: u16) -> Result<Entry<'_>> {
        let part = self.part(number);
        let reviving = part.start_reviving();
        let Some(_alone) = reviving else {
            return Err(self.restarted(number));
        };
        // To look whether somebody has brought it back takes a look at all nodes.
        let since = part.refused_at.get();
        if since.is_some_and(|since| self.endpoint.now().saturating_sub(since) < LOOK_AGAIN) {
            return Err(self.restarted(number));
        }
        for _ in 0..MOST_ATTEMPTS {
            self.come_up(number)?;
            // Of the partition that was there: what is there now has another id.
            self.endpoint.end_lease(part.node.get());
            let (sample, places, since) = match find(&*self.endpoint, &self.nodes, &self.name)
                .await?
            {
                LocatedTable::Sharded(table) if table.common.creation == self.common.creation => {
                    (table.sample, table.places, table.since)
                }
                // Another table has the name by now.
                _ => return Err(self.gone()),
            };
            let place = &places[usize::from(number)];
            if let Some(FabricError::NodeRestarted { .. }) = place.unreachable {
                continue;
            }
            part.node.set(place.node);
            part.is_sure.set(place.is_sure);
            return self.open_part(number, &sample, &places, since).await;
        }
        Err(self.restarted(number))
    }

    /// The failure of a partition whose node came back empty.
    fn restarted(&self, number: u16) -> StoreError {
        let part = self.part(number);
        let (node, expected) = (part.node.get(), part.incarnation.get());
        let error = FabricError::NodeRestarted { node, expected };
        self.named(number, StoreError::Fabric(error))
    }

    /// The failure of a table in whose place there is another.
    fn gone(&self) -> StoreError {
        let name = self.name.clone();
        StoreError::TableGone { name }
    }

    /// The same of a partition that is lost.
    fn refused(&self, number: u16) -> StoreError {
        let now = self.endpoint.now();
        self.part(number).refused_at.set(Some(now));
        self.restarted(number)
    }

    /// Refuses a node that is down; takes one that came back for what it is. If it is empty, and
    /// that is not wanted, it is refused later: somebody may have restored the partition meanwhile.
    fn come_up(&self, number: u16) -> Result<()> {
        let node = self.part(number).node.get();
        match self.endpoint.node_state(node)? {
            // Where it is only guessed to be there, the others are to be asked.
            NodeState::Down(_) if !self.part(number).is_sure.get() => Ok(()),
            NodeState::Down(error) => Err(self.named(number, StoreError::Fabric(error))),
            NodeState::Restarted { .. } => {
                let adopted = self.endpoint.adopt(node);
                adopted.map_err(|error| self.named(number, StoreError::Fabric(error)))?;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Opens a partition at its place; makes it first if its node does not have it.
    pub(super) async fn open_part(
        &self,
        number: u16,
        sample: &TableRecord,
        places: &[PartitionPlace],
        since: Nanos,
    ) -> Result<Entry<'_>> {
        let place = &places[usize::from(number)];
        let opening = async {
            if let Some(error) = &place.unreachable {
                return Err(StoreError::Fabric(error.clone()));
            }
            let mut since = since;
            let record = match &place.record {
                Some(record) => record.clone(),
                None => {
                    since = self.endpoint.now();
                    let is_accepted = self.common.on_restart == OnRestart::Recreate;
                    match self.remake(number, sample, places, is_accepted).await {
                        Err(error @ StoreError::Fabric(FabricError::AccessDenied { .. })) => {
                            return Ok(Err(error));
                        }
                        // Another table has the name on this node by now, or the part is being
                        // restored.
                        Err(StoreError::TableExists { .. }) => return Err(self.restarted(number)),
                        made => made?,
                    }
                }
            };
            if record.scheme.name() != sample.scheme.name() {
                return Err(self.of_two_schemes(&record, sample));
            }
            self.endpoint.lease(place.node, &record, since);
            let at = table_at(place.node, &record);
            let scheme = record.scheme.clone();
            self.part(number).scheme.replace(Some(scheme));
            if let Some(of) = &record.partition {
                self.part(number).incarnation.set(of.incarnation);
            }
            Ok(Ok(self.clients.open(&self.endpoint, at, &record).await?))
        };
        let opened = opening.await.map_err(|error| self.named(number, error))?;
        Ok(match opened {
            Err(refused) => Entry::Empty(self.named(number, refused)),
            Ok(client) => {
                let part = self.part(number);
                part.client.replace(Some(client));
                part.hold()
                    .map_or_else(|| Entry::Empty(self.restarted(number)), Entry::Open)
            }
        })
    }

    /// The error of partitions that can be none of one table.
    fn of_two_schemes(&self, one: &TableRecord, other: &TableRecord) -> StoreError {
        let (one, other) = (one.scheme.name(), other.scheme.name());
        StoreError::DamagedMap {
            name: self.name.clone(),
            reason: format!("a partition is {one}, another {other}"),
        }
    }

    /// Accepts the loss of every partition that is lost: makes it anew, empty. Returns the
    /// addresses of their nodes.
    ///
    /// # Errors
    /// [`NodeRestarted`](FabricError::NodeRestarted) if the table was built whole;
    /// [`StoreError::TableExists`] where the part is being restored; what the fabric says of a node
    /// that cannot be asked.
    pub(crate) async fn accept_loss(&self) -> Result<Vec<String>> {
        let found = find(&*self.endpoint, &self.nodes, &self.name).await?;
        let LocatedTable::Sharded(ShardedLocation { sample, places, .. }) = found else {
            return Ok(Vec::new());
        };
        let mut accepted = Vec::new();
        for number in self.numbers() {
            let place = &places[usize::from(number)];
            if let Some(error) = &place.unreachable {
                return Err(self
                    .nodes
                    .named(place.node, StoreError::Fabric(error.clone())));
            }
            if place.record.is_none() {
                let made = self.remake(number, &sample, &places, true).await;
                made.map_err(|error| self.nodes.named(place.node, error))?;
                accepted.push(self.nodes.address(place.node).into());
            }
        }
        Ok(accepted)
    }

    /// Makes a partition that its node does not have, empty; one that is lost, if that is accepted.
    async fn remake(
        &self,
        number: u16,
        sample: &TableRecord,
        places: &[PartitionPlace],
        is_accepted: bool,
    ) -> Result<TableRecord> {
        let node = places[usize::from(number)].node;
        let incarnation = self.endpoint.node(node)?.incarnation;
        // Else it is one whose creator has not come to it, or never will.
        let made = &self.map.nodes[usize::from(number)];
        let is_lost = places[usize::from(number)].is_lost(made, incarnation);
        let may_be_empty = !self.common.prebuilt && !self.is_built(sample, places).await?;
        match (may_be_empty, is_lost) {
            (false, false) => return Err(IndexError::NotBuilt.into()),
            (false, true) => return Err(self.restarted(number)),
            (true, true) if !is_accepted => return Err(self.refused(number)),
            (true, _) => {}
        }
        if sample.is_told {
            // What the keys of the others are hashed by is not known.
            return Err(StoreError::Fabric(FabricError::AccessDenied {
                at: table_at(node, sample),
                needed: Rights::WRITE,
                granted: Rights::NONE,
            }));
        }
        let partition = NewPartition {
            creation: self.common.creation,
            number,
            prebuilt: self.common.prebuilt,
            remade: is_lost,
            map: &self.map,
        };
        let catalog = Catalog::new(&*self.endpoint, node)?;
        let made = catalog
            .create(&self.name, sample.scheme.clone(), Some(partition))
            .await;
        let part = (self.common.creation, number);
        let made = or_theirs(&*self.endpoint, node, &self.name, part, made).await?;
        if is_lost {
            self.nodes.adopted(node, incarnation);
        }
        Ok(made)
    }

    /// Whether any partition was built whole, so that an empty one would be none of the table.
    async fn is_built(&self, sample: &TableRecord, places: &[PartitionPlace]) -> Result<bool> {
        match sample.scheme {
            Scheme::Linear(_)
            | Scheme::Race(_)
            | Scheme::Duo(_)
            | Scheme::Set(_)
            | Scheme::Chained(_)
            | Scheme::Ordered(_)
            | Scheme::Queue(_) => return Ok(false),
            Scheme::Sealed(_) => return Ok(true),
            Scheme::Cuckoo(_) => {}
        }
        for place in places {
            let Some(record) = &place.record else {
                continue;
            };
            let at = table_at(place.node, record);
            match self.clients.open(&self.endpoint, at, record).await {
                Ok(sibling) if sibling.state().sealed => return Ok(true),
                Ok(_) => {}
                // It has stopped since its catalog answered; the others tell as well.
                Err(StoreError::Fabric(error)) if is_absence(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(false)
    }
}
