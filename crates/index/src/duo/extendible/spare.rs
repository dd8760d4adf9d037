//! Memory that was taken for sub-tables to come, and that the next owner shall find.
//!
//! ```text
//! header   3208  where the memory starts that was taken last: offset / 8, 48 bits | region, 16
//!          3216  sub-tables that it has room for, 32 bits | checksum, 32
//! ```
//! It is written in the batch that counts the first split into it. The first of it is used first: so what lies behind the last
//! that a split of the list names is free, and nobody has to write it anew as it is used up. Memory is lost only if an owner
//! dies between taking and noting it.

use super::super::client::DuoTable;
use super::super::growth::Step;
use super::super::layout::{DuoLayout, EXTENTS_AT};
use super::reserve::bytes_of_each;
use crate::Result;
use crate::hash::checksum;
use farslot_fabric::{Endpoint, EndpointExt, RegionId, RemoteAddr};

const SPARE_AT: u64 = EXTENTS_AT + 8;
/// Sub-tables start at multiples of this, at least.
const WORD: u64 = 8;
/// The most sub-tables that memory is taken for at once: more than are wanted at once, or fit in what is taken at least.
const MOST: u32 = 1024;
/// Bits of the first word before the region.
const OFFSET_BITS: u32 = 48;

/// Memory for some sub-tables, one behind the other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Run {
    first: RemoteAddr,
    count: u32,
}

impl Run {
    /// Of so many, if there are any.
    pub(super) fn new(first: RemoteAddr, count: u64) -> Option<Self> {
        let count = u32::try_from(count).ok()?;
        (1..=MOST).contains(&count).then_some(Self { first, count })
    }

    /// Where they are.
    pub(super) fn places(self, layout: &DuoLayout) -> impl Iterator<Item = RemoteAddr> + use<> {
        let each = bytes_of_each(layout);
        (0..u64::from(self.count)).map(move |number| self.first.plus(number * each))
    }

    fn words(self, seed: u64) -> [u64; 2] {
        let place = (self.first.offset / WORD) | (u64::from(self.first.region.0) << OFFSET_BITS);
        let count = u64::from(self.count);
        [
            place,
            count | (u64::from(check_of(place, count, seed)) << 32),
        ]
    }

    /// The run that two words of a table's header name: none if they are not whole.
    fn of(words: &[u64], table: RemoteAddr, seed: u64) -> Option<Self> {
        let (place, count) = (words[0], words[1] & u64::from(u32::MAX));
        if words[1] >> 32 != u64::from(check_of(place, count, seed)) {
            return None;
        }
        let first = RemoteAddr {
            node: table.node,
            region: RegionId((place >> OFFSET_BITS) as u16),
            offset: (place & ((1 << OFFSET_BITS) - 1)) * WORD,
        };
        Self::new(first, count)
    }
}

/// By which words that were written half are told from whole ones.
fn check_of(place: u64, count: u64, seed: u64) -> u32 {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&place.to_le_bytes());
    bytes[8..].copy_from_slice(&count.to_le_bytes());
    checksum(&bytes, seed)
}

impl<E: Endpoint> DuoTable<E> {
    /// Notes in the header what was taken last.
    pub(super) fn note_spare(&self, run: Run) -> Result<Step> {
        let words = run.words(self.layout.checksum_seed);
        let mut bytes = self.endpoint.core().buffers.take(size_of_val(&words))?;
        bytes.words_mut().copy_from_slice(&words);
        Ok(Step::Write(self.table.plus(SPARE_AT), bytes))
    }

    /// The memory that an owner before has taken, and that is in no use yet. Called when all splits are known.
    pub(super) async fn learn_spare(&self) -> Result<Vec<RemoteAddr>> {
        let words = self.endpoint.read(self.table.plus(SPARE_AT), 16).await?;
        let run = Run::of(words.words(), self.table, self.layout.checksum_seed);
        let Some(run) = run else {
            return Ok(Vec::new());
        };
        let each = bytes_of_each(&self.layout);
        let bytes = u64::from(run.count) * each;
        let used = self.vault.used_of(run.first, bytes, &self.layout);
        let used = used.div_ceil(each) as usize;
        Ok(run.places(&self.layout).skip(used).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farslot_fabric::NodeId;

    #[test]
    fn a_run_is_read_as_it_was_written_and_half_of_one_is_none() {
        let at = |region, offset| RemoteAddr {
            node: NodeId(2),
            region: RegionId(region),
            offset,
        };
        assert_eq!(Run::new(at(0, 64), 0), None);
        let (table, seed) = (at(0, 0), 9);
        assert_eq!(Run::new(at(0, 64), u64::from(MOST) + 1), None);
        let runs = [(1, 64, 1), (u16::MAX, 1 << 40, 7), (0, 7168, MOST)];
        let runs = runs.map(|(region, offset, count)| Run {
            first: at(region, offset),
            count,
        });
        for run in runs {
            assert_eq!(Run::of(&run.words(seed), table, seed), Some(run));
        }
        assert_eq!(Run::of(&[0, 0], table, seed), None);
        let [first, second] = [runs[0].words(seed), runs[1].words(seed)];
        assert_eq!(Run::of(&[first[0], second[1]], table, seed), None);
        assert_eq!(Run::of(&[second[0], first[1]], table, seed), None);
    }
}
