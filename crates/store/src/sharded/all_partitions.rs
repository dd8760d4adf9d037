//! What concerns all partitions: visiting, counting, writers, building.

use super::{ShardedTable, met_another};
use crate::nodes::PartitionReport;
use crate::{Cursor, Occupancy, Result, StoreError, Survey, WriterChange};
use farslot_fabric::window;
use farslot_index::{
    Admin, AdminOutcome, AnyIndex, CacheCounts, ClientState, IndexError, IndexExt, Record,
    Result as Answer, Waits,
};
use std::cell::{Cell, RefCell};

impl ShardedTable {
    /// Runs an operation on all partitions at once; the outcomes, by number.
    async fn everywhere<T>(
        &self,
        empty: impl Fn(StoreError) -> Result<T>,
        operation: impl AsyncFn(u16, &AnyIndex) -> Answer<T>,
    ) -> Vec<Result<T>> {
        let (empty, operation) = (&empty, &operation);
        let mut outcomes: Vec<Option<Result<T>>> = self.numbers().map(|_| None).collect();
        let jobs = self.numbers().map(async |number| {
            let operation = async |client: &AnyIndex| operation(number, client).await;
            self.on(number, empty, operation).await
        });
        window(outcomes.len(), jobs, |number, outcome| {
            outcomes[number] = Some(outcome);
        })
        .await;
        outcomes.into_iter().flatten().collect()
    }

    /// Runs an operation on the partitions that have a client; all are tried, and the first failure
    /// tells. What a node had that came back empty is neither to be reported nor to be left.
    async fn on_open(&self, operation: impl AsyncFn(&AnyIndex) -> Answer<()>) -> Result<()> {
        let operation = &operation;
        let mut outcome = Ok(());
        let jobs = self.numbers().map(async |number| {
            let Some(held) = self.part(number).hold() else {
                return Ok(());
            };
            match operation(&held.client).await.map_err(StoreError::from) {
                Err(error) if met_another(&error) => {
                    held.give_up();
                    Ok(())
                }
                ended => ended.map_err(|error| self.named(number, error)),
            }
        });
        window(self.parts.len(), jobs, |_, ended: Result<()>| {
            if outcome.is_ok() {
                outcome = ended;
            }
        })
        .await;
        outcome
    }

    pub(super) async fn scan(
        &self,
        cursor: Cursor,
        most: u64,
        visit: impl FnMut(&[u8], &[u8]),
    ) -> Result<Option<Cursor>> {
        let number = cursor.partition;
        if !self.numbers().contains(&number) {
            return Ok(None);
        }
        let visited = Cell::new(false);
        let visit = RefCell::new(visit);
        // Records of memory that is gone may have been met: then the visit fails rather than go on
        // without them.
        let again = || !visited.get();
        let next = self.on_while(
            number,
            again,
            |_| Ok(None),
            async |client| {
                let visit = |key: &[u8], value: &[u8]| {
                    visited.set(true);
                    (visit.borrow_mut())(key, value);
                };
                client.scan(cursor.place, most, &mut { visit }).await
            },
        );
        Ok(match next.await? {
            None if number + 1 < self.map.slots.partitions() => {
                Some(Cursor::of(number + 1, farslot_index::Cursor::default()))
            }
            next => next.map(|place| Cursor::of(number, place)),
        })
    }

    /// Asks all partitions, and makes one answer of theirs.
    pub(super) async fn admin(&self, request: Admin<'_>) -> Result<AdminOutcome> {
        let done = |done: Result<()>| done.map(|()| AdminOutcome::Done);
        match request {
            Admin::Occupancy => self.occupancy().await.map(AdminOutcome::Occupancy),
            Admin::Survey => self.survey().await.map(AdminOutcome::Survey),
            Admin::Writer => self.writer().await.map(AdminOutcome::Writer),
            Admin::Moves => self.moves().await.map(AdminOutcome::Moves),
            Admin::Flush => done(self.on_open(async |client| client.flush().await).await),
            Admin::CleanAhead => {
                let clean = async |client: &AnyIndex| client.admin(request).await.map(drop);
                done(self.on_open(clean).await)
            }
            Admin::ChangeWriter(change) => done(self.change_writer(change).await),
            Admin::Build(records) => done(self.build(records).await),
            Admin::Queue(_) => Err(IndexError::NoQueue { scheme: "spread" }.into()),
        }
    }

    async fn occupancy(&self) -> Result<Occupancy> {
        let counts = self.everywhere(
            |_| Ok(Occupancy::default()),
            async |_, client| client.occupancy().await,
        );
        let mut sum = Occupancy::default();
        for counts in counts.await {
            sum += counts?;
        }
        Ok(sum)
    }

    pub(super) async fn partitions(&self) -> Vec<PartitionReport> {
        let counts = self.everywhere(
            |_| Ok(Occupancy::default()),
            async |_, client| client.occupancy().await,
        );
        let reports = self.numbers().zip(counts.await);
        let bytes_of = |number, occupancy: &Result<Occupancy>| {
            let scheme = self.part(number).scheme.borrow();
            let counts = occupancy.as_ref().copied().unwrap_or_default();
            scheme
                .as_ref()
                .map_or(0, |scheme| scheme.bytes_with(&counts))
        };
        reports
            .map(|(number, occupancy)| PartitionReport {
                number,
                address: self.nodes.address(self.part(number).node.get()).into(),
                hash_slots: self.map.slots.slots_of(number),
                table_bytes: bytes_of(number, &occupancy),
                occupancy,
            })
            .collect()
    }

    async fn survey(&self) -> Result<Survey> {
        let surveys = self.everywhere(Err, async |_, client| client.survey().await);
        let surveys = surveys.await.into_iter().collect::<Result<Vec<_>>>()?;
        let merged = surveys.into_iter().reduce(Survey::and);
        merged.ok_or_else(|| StoreError::DamagedMap {
            name: self.name.clone(),
            reason: "it has no partitions".into(),
        })
    }

    async fn change_writer(&self, change: WriterChange) -> Result<()> {
        match change {
            WriterChange::Start => self.start_writing().await,
            WriterChange::TakeOver | WriterChange::ForceTakeOver => {
                let taken =
                    self.everywhere(Err, async |_, client| client.change_writer(change).await);
                taken.await.into_iter().collect()
            }
            WriterChange::Resign => self.resign().await,
        }
    }

    async fn resign(&self) -> Result<()> {
        self.on_open(async |client| client.change_writer(WriterChange::Resign).await)
            .await
    }

    /// The writer of the first partition that has one.
    async fn writer(&self) -> Result<Option<u64>> {
        let writers = self.everywhere(|_| Ok(None), async |_, client| client.writer().await);
        let writers = writers.await.into_iter().collect::<Result<Vec<_>>>()?;
        Ok(writers.into_iter().flatten().next())
    }

    /// Becomes the writer of one partition after the other, in the same order as everybody: whoever
    /// has the first gets the others. Those of nodes that cannot be reached are left for the first
    /// write.
    async fn start_writing(&self) -> Result<()> {
        let (mut started, mut unreachable) = (false, Ok(()));
        for number in self.numbers() {
            let start = async |client: &AnyIndex| client.change_writer(WriterChange::Start).await;
            match self.on(number, Err, start).await {
                Ok(()) => started = true,
                Err(error @ StoreError::Node { .. }) if !is_refusal(&error) => {
                    if unreachable.is_ok() {
                        unreachable = Err(error);
                    }
                }
                Err(error) => {
                    // All or none: another client that waits for the rest would wait for this one.
                    let _ = self.resign().await;
                    return Err(error);
                }
            }
        }
        if started { Ok(()) } else { unreachable }
    }

    /// What tells whether records have moved, of each partition; 0 of one that is lost.
    async fn moves(&self) -> Result<Vec<u64>> {
        let moves = self.everywhere(Err, async |_, client| client.moves().await);
        let moves = moves.await.into_iter().map(|moves| match moves {
            Err(error) if met_another(&error) => Ok(0),
            moves => moves,
        });
        moves.collect()
    }

    /// Builds each partition of its records.
    async fn build(&self, records: &[Record<'_>]) -> Result<()> {
        let parts = self.map.slots.split(records);
        let built = self.everywhere(Err, async |number, client| {
            client.build(&parts[usize::from(number)]).await
        });
        built.await.into_iter().collect()
    }

    /// Which operations may wait for others: the partitions are of one scheme.
    pub(super) fn waits(&self) -> Waits {
        let mut open = self.open_parts();
        open.next().map_or(Waits::All, |held| held.client.waits())
    }

    /// What is known of the partitions that were reached: sealed if all of them are.
    pub(super) fn state(&self) -> ClientState {
        let states = self.open_parts().map(|held| held.client.state());
        let merged = states.reduce(|one, other| {
            let mut cache: CacheCounts = one.cache;
            cache += other.cache;
            ClientState {
                sealed: one.sealed && other.sealed,
                read_size: one.read_size.max(other.read_size),
                client_bytes: one.client_bytes + other.client_bytes,
                cache,
            }
        });
        merged.unwrap_or_default()
    }
}

/// Whether a node refuses what was asked for, and is not just out of reach.
fn is_refusal(error: &StoreError) -> bool {
    matches!(error, StoreError::Node { error, .. } if !super::find::is_absence(error))
}
