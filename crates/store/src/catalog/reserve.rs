//! What a table has of its node's pool from the start: the segments that it needs before it has a
//! key, and its reserve.
//!
//! **A reserve** is segments that are a table's from the start, though no list names them: those it
//! takes before free ones. From when the table is open, the segments with its tag are never fewer
//! than its reserve: clients turn kept ones into listed ones and back, and whoever holds the lock
//! frees only those beyond. A count of what is promised against what is free would not do, for
//! clients take free segments by one swap, and nothing but that word. As they have its tag, they
//! are freed with the table, or, if it was never published, as those of a table that is gone. Who
//! dies between the two swaps leaves a segment as others do, that no list names; it comes back to
//! the reserve.

use super::listing::CatalogSnapshot;
use super::lock::Change;
use super::pool::{
    ATTEMPTS, AttachOutcome, Claim, WIDTH, beyond_reserve, is_kept, kept_for, number_in,
    reserve_of, segments_of, segments_with,
};
use super::record::{Scheme, TableRecord, pooled};
use super::region::Catalog;
use super::sizes::segment_bytes;
use crate::{Result, StoreError};
use farslot_fabric::{Endpoint, EndpointExt, Piece, RemoteAddr, Segments, window};
use std::cell::Cell;

/// The numbers of the segments that a table needs before it has a key.
fn numbers_of_first(record: &TableRecord, table: &Segments) -> Vec<u64> {
    let first = pooled(&record.scheme).map(farslot_index::race::RaceLayout::first_bytes);
    let pieces = first.into_iter().flatten().map(|bytes| Piece {
        from: RemoteAddr {
            region: table.region,
            offset: bytes.start,
            ..table.list
        },
        len: (bytes.end - bytes.start) as usize,
    });
    let numbers = pieces.filter_map(|piece| table.numbers(piece));
    numbers.flatten().collect()
}

impl<E: Endpoint> Catalog<'_, E> {
    /// Bytes of the segments that are free, or were tables' that are gone.
    pub(super) fn free_in(&self, snapshot: &CatalogSnapshot) -> u64 {
        let words = &snapshot.segments;
        let gone = snapshot.retired().filter(|of| of.tag != 0);
        let gone: usize = gone.map(|of| segments_with(words, of.tag).count()).sum();
        let free = self.pool().free_from_end(words).count();
        (gone + free) as u64 * segment_bytes(self.region_bytes)
    }

    /// Refuses a table that the memory has no room for, that of tables included that are gone.
    pub(crate) async fn check_room(&self, table: &str, scheme: &Scheme) -> Result<()> {
        let snapshot = self.snapshot_with_pool().await?;
        let scheme = scheme.clone().in_region(self.region_bytes);
        let retired: Vec<_> = snapshot.retired().map(TableRecord::extent).collect();
        let left = snapshot
            .extents()
            .filter(|extent| !retired.contains(extent));
        self.place(table, left, &snapshot, scheme.table_bytes())?;
        let (free, needed) = (self.free_in(&snapshot), self.bytes_of_pool(&scheme));
        match needed <= free {
            true => Ok(()),
            false => Err(StoreError::OutOfMemory {
                table: table.into(),
                requested: needed.into(),
                free,
                total: self.total(),
            }),
        }
    }

    /// Bytes that a table needs of the pool before it has a key, and of those that are kept for it.
    pub(super) fn bytes_of_pool(&self, scheme: &Scheme) -> u64 {
        let segment = segment_bytes(self.region_bytes);
        let segments = pooled(scheme).map_or(0, |layout| {
            let [header, roots] = layout.first_bytes();
            let (behind, roots) = (
                header.end.div_ceil(segment),
                roots.start / segment..roots.end.div_ceil(segment),
            );
            let first = behind + (roots.end - roots.start.max(behind));
            first.max(layout.reserve.div_ceil(segment))
        });
        segments.saturating_mul(segment)
    }
}

impl<E: Endpoint> Change<'_, '_, E> {
    /// Makes a table empty that nobody has open: of its segments those that it needs before it has
    /// a key stay, as zeros.
    pub(super) async fn empty_segments(&self, record: &TableRecord) -> Result<()> {
        let Some(table) = segments_of(self.catalog.node, record) else {
            return Ok(());
        };
        let first = numbers_of_first(record, &table);
        let words = self.catalog.pool().words().await?;
        let mut freed = Vec::new();
        let bytes = table.bytes();
        let listable = segments_with(&words, record.tag).filter(|(_, word)| !is_kept(*word));
        for (segment, word) in listable {
            self.show().await?;
            let number = number_in(word);
            let at = table.word_at(number);
            let listed = self.catalog.endpoint.read(at, 8).await?.words()[0];
            if listed == segment && first.contains(&number) {
                self.make_zeros_of(segment * bytes..(segment + 1) * bytes)
                    .await?;
                continue;
            }
            if listed == segment {
                self.swap(at, segment, 0).await?;
            }
            freed.push((segment, word));
        }
        self.give_back(record, freed).await.map(drop)
    }

    /// Has a table have the memory that it needs before it has a key, and its reserve; false if
    /// there is not enough.
    pub(super) async fn attach_first(&self, record: &TableRecord) -> Result<bool> {
        let Some(table) = segments_of(self.catalog.node, record) else {
            return Ok(true);
        };
        let (pool, from) = (self.catalog.pool(), Cell::new(0));
        for number in numbers_of_first(record, &table) {
            self.show().await?;
            let listed = self.catalog.endpoint.read(table.word_at(number), 8).await?;
            if listed.words()[0] != 0 {
                continue;
            }
            let (of, since) = ((Claim::of(record), number), self.shown_at());
            match pool.attach(&table, of, since, &from).await? {
                AttachOutcome::Done => {}
                AttachOutcome::NoneFree => return Ok(false),
                AttachOutcome::Late => return Err(StoreError::ChangeCancelled),
            }
        }
        self.keep_reserve(record).await
    }

    /// Gives back segments of a table that no list names: those that its reserve lacks without them
    /// are kept for it, and the others free. Whether there were any.
    pub(super) async fn give_back(
        &self,
        record: &TableRecord,
        mut segments: Vec<(u64, u64)>,
    ) -> Result<bool> {
        let pool = self.catalog.pool();
        let bytes = segment_bytes(self.catalog.region_bytes);
        if segments.is_empty() {
            return Ok(false);
        }
        // Clients can only make it more.
        let beyond = beyond_reserve(&pool.words().await?, record) as usize;
        let kept = segments.split_off(beyond.min(segments.len()));
        let mut is_any = self.free(segments.into_iter()).await?;
        for (segment, word) in kept.into_iter().filter(|(_, word)| !is_kept(*word)) {
            let range = segment * bytes..(segment + 1) * bytes;
            self.make_zeros_of(range).await?;
            let kept = kept_for(record.tag);
            is_any |= self.swap(pool.word_at(segment), word, kept).await?;
        }
        Ok(is_any)
    }

    /// Keeps segments for a table until it has its reserve, side by side; false if there are not
    /// enough.
    async fn keep_reserve(&self, record: &TableRecord) -> Result<bool> {
        let pool = self.catalog.pool();
        let reserve = reserve_of(record);
        if reserve == 0 {
            return Ok(true);
        }
        for _ in 0..ATTEMPTS {
            let words = pool.words().await?;
            let has = segments_with(&words, record.tag).count() as u64;
            let lacks = reserve.saturating_sub(has) as usize;
            let free: Vec<_> = pool.free_from_end(&words).take(lacks).collect();
            if free.len() < lacks {
                return Ok(false);
            }
            if lacks == 0 {
                return Ok(true);
            }
            for segments in free.chunks(WIDTH) {
                self.show().await?;
                let swaps = segments.iter().map(|segment| {
                    let at = pool.word_at(*segment);
                    self.catalog
                        .endpoint
                        .compare_swap(at, 0, kept_for(record.tag))
                });
                let mut swapped = Ok(());
                // Where others were faster there is another to be taken.
                window(WIDTH, swaps, |_, seen| {
                    swapped = swapped.clone().and(seen.map(drop))
                })
                .await;
                swapped?;
            }
        }
        Ok(false)
    }

    /// The error where too few segments are free for what a table has at least.
    pub(super) async fn no_segments(&self, record: &TableRecord) -> Result<StoreError> {
        let left = self.catalog.memory_left(None).await?;
        Ok(StoreError::OutOfMemory {
            table: record.name.clone(),
            requested: u128::from(self.catalog.bytes_of_pool(&record.scheme)),
            free: left.free,
            total: left.total,
        })
    }
}
