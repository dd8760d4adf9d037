//! Storm and the systems that it is compared with, by the verbs of a lookup.

use super::mix::{Mix, Step, only};
use farslot::fabric::sim::NicProfile;

/// Bytes of each transfer, headers included (section 6.1).
pub(super) const ITEM: usize = 128;
/// Bytes of a receive descriptor with one address, which the NIC fetches for each message (mlx5).
const DESCRIPTOR: usize = 16;
/// Bytes of the global routing header that a datagram leaves before its payload.
const ROUTING_HEADER: usize = 40;
/// Items of one of FaRM's READs (section 6.2.2).
const FARM_ITEMS: usize = 8;

/// A READ of an item.
pub(super) const READ: Step = Step::Read(ITEM);
/// A call of Storm: a WRITE with immediate each way.
pub(super) const CALL: Step = Step::Call(ITEM + DESCRIPTOR);
/// A READ of FaRM.
const WIDE_READ: Step = Step::Read(FARM_ITEMS * ITEM);

/// Threads of a machine.
pub(super) const PAPERS_THREADS: u32 = 20;

/// What is fitted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Fits {
    /// Keys a bucket of the oversubscribed table, whose buckets have one slot.
    pub(super) load: f64,
    /// ns of processor time of each message that eRPC's congestion control takes.
    pub(super) control_ns: f64,
    /// ns in which LITE's kernel serves one operation of the machine alone.
    pub(super) locked_ns: f64,
    /// ns that LITE's kernel adds to a READ.
    pub(super) kernel_ns: f64,
}

/// The part of the keys that lie behind others in buckets of one slot with `load` keys each: a READ
/// of the slot does not find them.
pub(super) fn collisions(load: f64) -> f64 {
    1.0 + (-load).exp_m1() / load
}

/// A lookup that READs one slot, and calls where that has another key.
pub(super) fn read_or_call(load: f64) -> Vec<(Step, f64)> {
    vec![(READ, 1.0), (CALL, collisions(load))]
}

/// A call by a datagram of `bytes` each way, as eRPC's.
pub(super) const fn datagrams(bytes: usize) -> Step {
    Step::Call(bytes + DESCRIPTOR + ROUTING_HEADER)
}

/// A system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum System {
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

impl System {
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

    /// A lookup. One of FaRM takes `farm_reads`.
    pub(super) fn mix(self, fits: &Fits, farm_reads: f64) -> Mix {
        let partly = read_or_call(fits.load);
        only(match self {
            Self::Perfect => vec![(READ, 1.0)],
            Self::Oversubscribed => partly,
            Self::Calls => vec![(CALL, 1.0)],
            Self::Erpc { .. } => vec![(datagrams(ITEM), 1.0)],
            Self::Farm => vec![(WIDE_READ, farm_reads)],
            Self::Lite => {
                let kernel = Step::Kernel {
                    locked_ns: fits.locked_ns,
                    path_ns: fits.kernel_ns,
                };
                [vec![(kernel, 1.0)], partly].concat()
            }
        })
    }

    /// An idle system's lookup of a key that needs no second step.
    pub(super) fn idle(self, fits: &Fits) -> Mix {
        let mut mix = self.mix(fits, 1.0);
        for kind in &mut mix {
            kind.steps.retain(|(_, times)| *times == 1.0);
        }
        mix
    }
}
