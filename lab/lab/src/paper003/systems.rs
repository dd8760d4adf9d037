//! Storm and the systems that it is compared with.

use super::mix::{Demand, ITEM, Step, VerbMix, only};
use super::tables::{Kernel, Tables, collisions};
use super::verbs::{PLACE, VerbThreads};
use crate::cluster::{Cluster, ClusterMeasurement, measure};
use crate::{Basis, Result};
use farslot::fabric::sim::NicProfile;

/// Buckets of a page, at most: some of them have keys.
const BUCKETS_OF_A_PAGE: u64 = 32;
/// Bytes of a receive descriptor with one address, which the NIC fetches for each message (mlx5).
const DESCRIPTOR: usize = 16;
/// Bytes of the global routing header that a datagram leaves before its payload.
const ROUTING_HEADER: usize = 40;
/// Items of one of FaRM's READs (section 6.2.2).
const FARM_ITEMS: usize = 8;

/// Threads of a machine.
pub(super) const PAPERS_THREADS: u32 = 20;

/// What is fitted, and the lookups that it is fitted with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fits {
    /// Keys a bucket of the oversubscribed table, whose buckets have one slot.
    pub(super) load: f64,
    /// ns of processor time of each message that eRPC's congestion control takes.
    pub(super) control_ns: f64,
    /// ns in which LITE's kernel serves one operation of the machine alone.
    pub(super) locked_ns: f64,
    /// ns that LITE's kernel adds to a READ.
    pub(super) kernel_ns: f64,
    /// A lookup of a chained table by a READ, as counted.
    pub(super) read: Demand,
    /// A lookup by a call.
    pub(super) call: Demand,
}

/// A call by a datagram of `bytes` each way, as eRPC's.
pub(super) const fn datagrams(bytes: usize) -> Step {
    Step::Call(bytes + DESCRIPTOR + ROUTING_HEADER)
}

/// A system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DataplaneSystem {
    /// Storm (perfect): READs alone.
    Perfect,
    /// Storm (oversub): a READ, and a call where that does not find the key.
    Oversubscribed,
    /// Storm: calls alone.
    Calls,
    /// eRPC: calls by datagrams.
    Erpc {
        /// With its congestion control.
        controlled: bool,
    },
    /// Lock-free FaRM: hopscotch hashing.
    Farm,
    /// Asynchronous LITE: Storm (oversub) through a kernel.
    Lite,
}

impl DataplaneSystem {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Perfect => "Storm (perfect)",
            Self::Oversubscribed => "Storm (oversub)",
            Self::Calls => "Storm (calls alone)",
            Self::Erpc { controlled: true } => "eRPC",
            Self::Erpc { controlled: false } => "eRPC without congestion control",
            Self::Farm => "lock-free FaRM",
            Self::Lite => "asynchronous LITE",
        }
    }

    /// Its machines.
    pub(super) fn profile(self, fits: &Fits) -> NicProfile {
        let nic = NicProfile::connectx4_edr();
        match self {
            Self::Erpc { controlled: true } => NicProfile {
                post_ns: nic.post_ns + fits.control_ns,
                ..nic
            },
            _ => nic,
        }
    }

    /// What its rates rest on.
    pub(super) const fn basis(self) -> Basis {
        match self {
            Self::Perfect | Self::Calls | Self::Erpc { controlled: false } | Self::Farm => {
                Basis::Predicted
            }
            Self::Oversubscribed | Self::Erpc { controlled: true } | Self::Lite => Basis::Follows,
        }
    }

    /// The verbs of a lookup, where these are all that there is of it. One of FaRM takes
    /// `farm_reads`.
    pub(super) fn mix(self, farm_reads: f64) -> Option<VerbMix> {
        match self {
            Self::Erpc { .. } => Some(only(vec![(datagrams(ITEM), 1.0)])),
            Self::Farm => Some(only(vec![(Step::Read(FARM_ITEMS * ITEM), farm_reads)])),
            Self::Perfect | Self::Oversubscribed | Self::Calls | Self::Lite => None,
        }
    }

    /// What a lookup occupies, as far as it is known beforehand.
    pub(super) fn demand(self, fits: &Fits, farm_reads: f64) -> Demand {
        if let Some(mix) = self.mix(farm_reads) {
            return Demand::of(&self.profile(fits), &mix);
        }
        let partly = fits.read.plus(fits.call, collisions(fits.load));
        match self {
            Self::Calls => fits.call,
            Self::Oversubscribed => partly,
            Self::Lite => partly.locked_for(fits.locked_ns),
            _ => fits.read,
        }
    }

    /// The tables of Storm, and of LITE above it, with two keys that do not collide.
    pub(super) fn uncollided(self, fits: &Fits) -> Result<Tables> {
        self.tables(&Fits { load: 0.0, ..*fits }, 1 << 13)
    }

    /// The tables of Storm, and of LITE above it.
    fn tables(self, fits: &Fits, buckets: u32) -> Result<Tables> {
        let tables = Tables::new(buckets, fits.load)?;
        Ok(match self {
            Self::Perfect => tables.knowing_chains(),
            Self::Calls => tables.by_calls(),
            Self::Lite => tables.through(Kernel {
                locked_ns: fits.locked_ns,
                path_ns: fits.kernel_ns,
            }),
            _ => tables,
        })
    }

    /// Measures lookups on a cluster with so many pages in each node's memory.
    pub(super) fn measure(
        self,
        fits: &Fits,
        farm_reads: f64,
        (mut cluster, pages): (Cluster, u64),
    ) -> Result<ClusterMeasurement> {
        if let Some(mix) = self.mix(farm_reads) {
            cluster.page_bytes = PLACE;
            let places = pages;
            return measure(&cluster, VerbThreads { mix, places });
        }
        // Tables have a power of two of buckets: pages are as long as it takes to have them all in
        // use, and none has a part of a bucket.
        let buckets = 1 << (pages * BUCKETS_OF_A_PAGE).ilog2();
        cluster.page_bytes = (u64::from(buckets) / pages).max(1) * ITEM as u64;
        measure(&cluster, self.tables(fits, buckets)?)
    }
}
