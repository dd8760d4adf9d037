//! Two servers with many connections between them: READs a microsecond, by what each finds in the
//! NIC's cache.
//!
//! In front of the cache of 2 MiB stands a near one, of a few connections: by it the paper's NICs
//! lose a third and more of their rate between 8 and 64 connections, whose state is a few KiB
//! (section 3.3). Connections are used in turn, pages and regions at random.

use super::common::PAGES;
use crate::Result;
use farslot::fabric::sim::NicProfile;
use farslot::model::{CacheClass, Reuse, hit_ratios};

/// Connections that the near cache holds: those from which on the paper's NICs lose.
pub(super) const NEAR_CONNECTIONS: u64 = 8;
/// Where the paper measures what they have lost.
pub(super) const MANY_CONNECTIONS: u64 = 64;
/// Bytes that the NIC fetches of its tables at once.
const LINE: u64 = 64;

/// A kind of NIC, fitted to what the paper measured.
#[derive(Clone, Debug)]
pub(super) struct FittedNic {
    pub(super) name: &'static str,
    pub(super) profile: NicProfile,
    /// The part of the rate that is lost from 8 to 64 connections (section 3.3): fitted.
    pub(super) lost: f64,
    /// ns for which a connection that is not in the near cache occupies the NIC.
    near_ns: f64,
}

/// The memory that is read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Memory {
    /// Pages; 0 for a physical segment.
    pub(super) pages: u64,
    /// Regions.
    pub(super) regions: u64,
}

impl Memory {
    /// 20 GB in pages of 2 MiB.
    pub(super) const LARGE_PAGES: Self = Self {
        pages: PAGES,
        regions: 1,
    };

    /// 20 GB in pages of 4 KiB.
    pub(super) const fn small_pages(regions: u64) -> Self {
        Self {
            pages: PAGES * 512,
            regions,
        }
    }

    /// 20 GB as one physical segment.
    pub(super) const SEGMENT: Self = Self {
        pages: 0,
        regions: 1,
    };
}

impl FittedNic {
    pub(super) fn all() -> Result<[Self; 3]> {
        Ok([
            Self::new("ConnectX-3", NicProfile::connectx3_roce(), 0.83)?,
            Self::new("ConnectX-4", NicProfile::connectx4_roce(), 0.42)?,
            Self::connectx5()?,
        ])
    }

    pub(super) fn connectx5() -> Result<Self> {
        Self::new("ConnectX-5", NicProfile::connectx5_roce(), 0.32)
    }

    /// A NIC whose near cache costs what it has lost at 64 connections.
    fn new(name: &'static str, profile: NicProfile, lost: f64) -> Result<Self> {
        let mut nic = Self {
            name,
            profile,
            lost,
            near_ns: 0.0,
        };
        let bare = nic.read_ns(64, MANY_CONNECTIONS, Memory::LARGE_PAGES)?;
        let missed = nic.near_misses(MANY_CONNECTIONS)?;
        nic.near_ns = bare * (1.0 / (1.0 - lost) - 1.0) / missed;
        Ok(nic)
    }

    /// ns for which a READ occupies the NIC that answers it.
    pub(super) fn read_ns(&self, bytes: u64, connections: u64, memory: Memory) -> Result<f64> {
        let cache = &self.profile.cache;
        let class = |items, item_bytes, reuse| CacheClass {
            items,
            item_bytes,
            uses: 1.0,
            reuse,
        };
        let translations = memory.pages * u64::from(cache.translation_bytes);
        let hits = hit_ratios(
            cache.capacity_bytes,
            &[
                class(connections, cache.queue_pair_bytes.into(), Reuse::InTurn),
                class(translations.div_ceil(LINE), LINE, Reuse::Random),
                class(memory.regions, cache.region_bytes.into(), Reuse::Random),
            ],
        )?;
        let cost = self.profile.responder_ns;
        let near = self.near_misses(connections)? * self.near_ns;
        let lines = (1.0 - hits[1]) + (1.0 - hits[2]);
        Ok(cost.per_message
            + cost.per_byte * bytes as f64
            + (1.0 - hits[0]) * cache.miss_occupancy_ns
            + hits[0] * near
            + lines * cache.line_miss_occupancy_ns)
    }

    /// READs a microsecond.
    pub(super) fn rate(&self, bytes: u64, connections: u64, memory: Memory) -> Result<f64> {
        Ok(1e3 / self.read_ns(bytes, connections, memory)?)
    }

    /// The part of the connections that is not in the near cache when its turn comes.
    fn near_misses(&self, connections: u64) -> Result<f64> {
        let bytes = u64::from(self.profile.cache.queue_pair_bytes);
        let class = CacheClass {
            items: connections,
            item_bytes: bytes,
            uses: 1.0,
            reuse: Reuse::InTurn,
        };
        Ok(1.0 - hit_ratios(NEAR_CONNECTIONS * bytes, &[class])?[0])
    }
}
