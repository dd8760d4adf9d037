//! Making the memory of a table zeros again: as much of it as its clients may have written. What
//! they never touched stays untouched, so that a table which was made larger than it was filled
//! does not come to take memory by being dropped.

use super::lock::Change;
use super::record::pooled;
use super::record::{Scheme, TableRecord};
use crate::Result;
use farslot_fabric::{Endpoint, EndpointExt};
use farslot_index::HEAP_MARK_AT;
use std::ops::Range;

/// Bytes of a WRITE of zeros.
const PIECE: u64 = 256 << 10;
/// Words of a directory that are read at once.
const WORDS_READ: u64 = 4096;

impl<E: Endpoint> Change<'_, '_, E> {
    /// Makes all zeros that a table's clients may have written, and what else of the table's bytes
    /// `all` has. What says how much was written lies at the table's start, and goes last: whoever
    /// goes on after a client that died in this finds it.
    pub(super) async fn make_zeros(&self, record: &TableRecord, all: Range<u64>) -> Result<()> {
        let table = record.scheme.table_bytes() as u64;
        // The map of a table over several nodes lies behind it.
        let behind = table..all.end - record.offset;
        let ranges = self.written(record).await?.into_iter().chain([behind]);
        for range in ranges.rev() {
            let at = record.offset;
            self.make_zeros_of(at + range.start..at + range.end).await?;
        }
        Ok(())
    }

    /// Makes bytes of the region zeros, the first of them last.
    pub(super) async fn make_zeros_of(&self, bytes: Range<u64>) -> Result<()> {
        let zeros = vec![0; PIECE.min(bytes.end.saturating_sub(bytes.start)) as usize];
        let mut end = bytes.end;
        while end > bytes.start {
            let from = bytes.start.max(end.saturating_sub(PIECE));
            self.write(self.catalog.at(from), &zeros[..(end - from) as usize])
                .await?;
            end = from;
        }
        Ok(())
    }

    /// What may have been written, counted from the table's start.
    async fn written(&self, record: &TableRecord) -> Result<Vec<Range<u64>>> {
        if pooled(&record.scheme).is_some() {
            // Of the list any word may have been.
            let list = 0..record.scheme.table_bytes() as u64;
            return Ok(std::iter::once(list).collect());
        }
        let mark = self.word(record, HEAP_MARK_AT).await?;
        let all = record.scheme.table_bytes() as u64;
        Ok(match &record.scheme {
            Scheme::Linear(layout) => layout.written(mark),
            Scheme::Cuckoo(layout) => layout.written(mark),
            // It is made for just its records.
            Scheme::Sealed(_) => std::iter::once(0..all).collect(),
            Scheme::Race(layout) => {
                let splits = self.words_in_use(record, layout.directory()).await?;
                layout.written(splits, mark)
            }
            Scheme::Duo(layout) => {
                let growths = self.word(record, layout.growths()).await?;
                layout.written(growths, mark)
            }
            Scheme::Set(layout) => layout.written(self.word(record, 0).await?),
            Scheme::Chained(layout) => layout.shape(0).written(self.first_words(record).await?),
            Scheme::Ordered(layout) => layout.shape(0).written(self.first_words(record).await?),
            Scheme::Queue(layout) => layout.shape(0).written(self.first_words(record).await?),
        })
    }

    async fn first_words(&self, record: &TableRecord) -> Result<[u64; 2]> {
        Ok([self.word(record, 0).await?, self.word(record, 8).await?])
    }

    async fn word(&self, record: &TableRecord, at: u64) -> Result<u64> {
        let at = self.catalog.at(record.offset + at);
        Ok(self.catalog.endpoint.read(at, 8).await?.words()[0])
    }

    /// How many words there are before the first 0.
    async fn words_in_use(&self, record: &TableRecord, list: Range<u64>) -> Result<u64> {
        let all = (list.end - list.start) / 8;
        let mut used = 0;
        while used < all {
            self.show().await?;
            let words = WORDS_READ.min(all - used);
            let at = self.catalog.at(record.offset + list.start + used * 8);
            let read = self.catalog.endpoint.read(at, words as usize * 8).await?;
            let more = read.words().iter().take_while(|word| **word != 0).count() as u64;
            used += more;
            if more < words {
                break;
            }
        }
        Ok(used)
    }
}
