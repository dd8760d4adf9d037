//! The first page of a node's memory: format, incarnation, and where the regions lie.

use super::journal::{self, JournalPlacement};
use super::mailbox;
use super::mapping::LARGE_PAGE;
use crate::words::SharedWords;
use crate::{FabricError, NodeInfo, RegionInfo, Result, Rights};
use std::sync::atomic::{Ordering, fence};

/// The first word of every Farslot node's memory: `FARSLOT\0`.
pub const MAGIC: u64 = u64::from_le_bytes(*b"FARSLOT\0");
/// The version of the header, the mailbox and whatever the layers above keep in the regions. A
/// client of another version is refused. 8: the words of a catalog's entries lie apart from their
/// records, by hashes of the tables' names.
pub const FORMAT_VERSION: u64 = 8;
/// The most regions of one node.
pub const MAX_REGIONS: usize = 16;

const VERSION_AT: u64 = 8;
const INCARNATION_AT: u64 = 16;
const BYTES_AT: u64 = 24;
const REGION_COUNT_AT: u64 = 32;
const PAGE_BYTES_AT: u64 = 40;
const KEPT_AT: u64 = 48;
const REGIONS_AT: u64 = 64;
const REGION_ROW: u64 = 24;

/// A node's memory as its header describes it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Header {
    pub(crate) info: NodeInfo,
    /// Byte at which each region starts.
    pub(crate) starts: Vec<u64>,
    pub(crate) bytes: u64,
    /// Whether another process holds the memory too, so that it outlives the node's.
    pub(crate) kept: bool,
}

impl Header {
    /// Lays the regions out one after the other.
    pub(crate) fn lay_out(incarnation: u64, regions: Vec<RegionInfo>) -> Result<Self> {
        if regions.len() > MAX_REGIONS {
            return Err(FabricError::DamagedHeader {
                subject: "a new node".into(),
                reason: format!(
                    "{} regions are over the limit of {MAX_REGIONS}",
                    regions.len()
                ),
            });
        }
        let mut bytes = LARGE_PAGE;
        let mut starts = Vec::new();
        for region in &regions {
            starts.push(bytes);
            let end = bytes.checked_add(region.len);
            bytes = end
                .and_then(|end| end.checked_next_multiple_of(LARGE_PAGE))
                .ok_or(FabricError::Memory {
                    requested: region.len,
                    limit: u64::MAX / 2,
                })?;
        }
        let info = NodeInfo {
            incarnation,
            regions,
            page_bytes: 0,
        };
        Ok(Self {
            info,
            starts,
            bytes,
            kept: false,
        })
    }

    /// Writes the header; the magic last, so that a header half written is none.
    pub(crate) fn write(&self, memory: SharedWords<'_>) {
        let put = |at: u64, value: u64| memory.word(at).store(value, Ordering::Relaxed);
        put(VERSION_AT, FORMAT_VERSION);
        put(INCARNATION_AT, self.info.incarnation);
        put(BYTES_AT, self.bytes);
        put(REGION_COUNT_AT, self.info.regions.len() as u64);
        put(PAGE_BYTES_AT, self.info.page_bytes);
        put(KEPT_AT, self.kept.into());
        let rows = (REGIONS_AT..).step_by(REGION_ROW as usize);
        for ((at, region), start) in rows.zip(&self.info.regions).zip(&self.starts) {
            put(at, *start);
            put(at + 8, region.len);
            put(at + 16, u64::from(region.rights.bits()));
        }
        memory.word(0).store(MAGIC, Ordering::Release);
    }

    /// Where the journal of kept memory is: its second region.
    pub(super) fn journal(&self) -> Option<JournalPlacement> {
        let ([first, second], [region, start]) = (&self.info.regions[..], &self.starts[..]) else {
            return None;
        };
        (self.kept && second.len == journal::BYTES).then_some(JournalPlacement {
            start: *start,
            region: *region,
            bytes: first.len,
        })
    }

    /// Reads and checks the header of `subject`, a memory of `bytes` bytes.
    pub(crate) fn read(memory: SharedWords<'_>, bytes: u64, subject: &str) -> Result<Self> {
        let damaged = |reason: String| FabricError::DamagedHeader {
            subject: subject.into(),
            reason,
        };
        let get = |at: u64| memory.word(at).load(Ordering::Relaxed);
        if bytes < mailbox::END {
            return Err(FabricError::NotFarslot {
                subject: subject.into(),
                found: if bytes < 8 { 0 } else { get(0) },
                expected: MAGIC,
            });
        }
        // A fence rather than an acquiring load: on read-only memory only relaxed loads are
        // allowed.
        let magic = get(0);
        fence(Ordering::Acquire);
        if magic != MAGIC {
            return Err(FabricError::NotFarslot {
                subject: subject.into(),
                found: magic,
                expected: MAGIC,
            });
        }
        if get(VERSION_AT) != FORMAT_VERSION {
            return Err(FabricError::FormatVersion {
                subject: subject.into(),
                found: get(VERSION_AT),
                supported: FORMAT_VERSION,
            });
        }
        if get(BYTES_AT) != bytes {
            return Err(damaged(format!(
                "it says {} bytes, but has {bytes}",
                get(BYTES_AT)
            )));
        }
        let count = get(REGION_COUNT_AT);
        if count > MAX_REGIONS as u64 {
            return Err(damaged(format!(
                "{count} regions are over the limit of {MAX_REGIONS}"
            )));
        }
        let (mut starts, mut regions) = (Vec::new(), Vec::new());
        for at in (REGIONS_AT..)
            .step_by(REGION_ROW as usize)
            .take(count as usize)
        {
            let (start, len) = (get(at), get(at + 8));
            if start < LARGE_PAGE
                || !start.is_multiple_of(8)
                || start.checked_add(len).is_none_or(|end| end > bytes)
            {
                return Err(damaged(format!(
                    "a region of {len} bytes at {start} does not lie in {bytes} bytes"
                )));
            }
            starts.push(start);
            regions.push(RegionInfo {
                len,
                rights: Rights::from_bits(get(at + 16) as u8),
            });
        }
        let info = NodeInfo {
            incarnation: get(INCARNATION_AT),
            regions,
            page_bytes: get(PAGE_BYTES_AT),
        };
        Ok(Self {
            info,
            starts,
            bytes,
            kept: get(KEPT_AT) != 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

    fn memory(bytes: u64) -> Vec<AtomicU64> {
        (0..bytes / 8).map(|_| AtomicU64::new(0)).collect()
    }

    #[test]
    fn what_was_written_is_read_and_damage_is_named() {
        let regions = [100, 3 << 20].map(|len| RegionInfo {
            len,
            rights: Rights::READ,
        });
        let mut header = Header::lay_out(7, regions.to_vec()).unwrap();
        header.kept = true;
        let words = memory(header.bytes);
        let shared = SharedWords::new(&words);
        assert!(matches!(
            Header::read(shared, header.bytes, "it"),
            Err(FabricError::NotFarslot { found: 0, .. })
        ));
        header.write(shared);
        assert_eq!(Header::read(shared, header.bytes, "it").unwrap(), header);

        shared
            .word(REGIONS_AT + 8)
            .store(u64::MAX - 1, Ordering::Relaxed);
        assert!(matches!(
            Header::read(shared, header.bytes, "it"),
            Err(FabricError::DamagedHeader { .. })
        ));
        shared.word(VERSION_AT).store(99, Ordering::Relaxed);
        assert!(matches!(
            Header::read(shared, header.bytes, "it"),
            Err(FabricError::FormatVersion { found: 99, .. })
        ));
    }

    #[test]
    fn too_many_or_too_large_regions_are_refused() {
        let region = |len| RegionInfo {
            len,
            rights: Rights::ALL,
        };
        assert!(Header::lay_out(1, vec![region(8); MAX_REGIONS + 1]).is_err());
        assert!(Header::lay_out(1, vec![region(u64::MAX - 8)]).is_err());
    }
}
