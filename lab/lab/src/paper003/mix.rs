//! What operations cost by their verbs, in the mean.

use crate::cluster::ClusterMeasurement;
use farslot::fabric::VerbKind;
use farslot::fabric::sim::NicProfile;
use farslot::model::{CacheClass, ModelError, Reuse, hit_ratios};

/// Bytes of each transfer, headers included (section 6.1).
pub(super) const ITEM: usize = 128;
/// One verb.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Step {
    /// A READ of so many bytes.
    Read(usize),
    /// A call with so many bytes each way.
    Call(usize),
}

/// A kind of operation: steps, each with how many of it there are in the mean.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Kind {
    /// Its part of all operations.
    pub(super) share: f64,
    pub(super) steps: Vec<(Step, f64)>,
}

/// What the threads of a system do.
pub(super) type VerbMix = Vec<Kind>;

/// Operations all of one kind.
pub(super) fn only(steps: Vec<(Step, f64)>) -> VerbMix {
    vec![Kind { share: 1.0, steps }]
}

/// What an operation occupies in a machine of a symmetric cluster, as a client and as an owner
/// together, in ns.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Demand {
    requester: f64,
    responder: f64,
    /// The link out of the machine; as much comes in.
    link: f64,
    client_cpu: f64,
    owner_cpu: f64,
    locked: f64,
    /// Verbs that a requester has sent; as many were answered.
    verbs: f64,
}

impl Demand {
    fn of_step(profile: &NicProfile, step: Step) -> Self {
        match step {
            Step::Read(bytes) => Self::of_verbs(profile, 1.0, 0.0, bytes as f64),
            Step::Call(bytes) => Self::of_verbs(profile, 0.0, 1.0, 2.0 * bytes as f64),
        }
    }

    /// Of so many READs and calls, and all bytes that they move. A call is a message each way.
    fn of_verbs(profile: &NicProfile, reads: f64, calls: f64, bytes: f64) -> Self {
        let messages = reads + 2.0 * calls;
        let post = profile.doorbell_ns + profile.post_ns;
        let headers = messages * f64::from(profile.header_bytes);
        Self {
            requester: messages * profile.requester_ns.per_message,
            responder: messages * profile.responder_ns.per_message
                + profile.responder_ns.per_byte * bytes,
            link: (bytes + headers) / profile.link_bytes_per_ns,
            client_cpu: (reads + calls) * post,
            owner_cpu: calls * (profile.handler_ns + post),
            locked: 0.0,
            verbs: messages,
        }
    }

    /// Of the mean operation that was measured, by what endpoints have counted.
    pub(super) fn counted(profile: &NicProfile, measured: &ClusterMeasurement) -> Self {
        let posted = &measured.posted;
        let of = |kind| measured.each(posted.verbs_of(kind));
        let bytes = measured.each(posted.bytes_read + posted.bytes_written);
        Self::of_verbs(profile, of(VerbKind::Read), of(VerbKind::Call), bytes)
    }

    /// The same with a time in which no other operation of the machine goes on.
    pub(super) fn locked_for(self, ns: f64) -> Self {
        Self {
            locked: self.locked + ns,
            ..self
        }
    }

    /// This, and another so many times.
    pub(super) fn plus(self, other: Self, times: f64) -> Self {
        Self {
            requester: self.requester + times * other.requester,
            responder: self.responder + times * other.responder,
            link: self.link + times * other.link,
            client_cpu: self.client_cpu + times * other.client_cpu,
            owner_cpu: self.owner_cpu + times * other.owner_cpu,
            locked: self.locked + times * other.locked,
            verbs: self.verbs + times * other.verbs,
        }
    }

    /// Of the mean operation of a mix.
    pub(super) fn of(profile: &NicProfile, mix: &VerbMix) -> Self {
        let steps = mix.iter().flat_map(|kind| {
            kind.steps
                .iter()
                .map(|(step, times)| (step, times * kind.share))
        });
        steps.fold(Self::default(), |sum, (step, times)| {
            sum.plus(Self::of_step(profile, *step), times)
        })
    }

    /// The same where not everything is in the NIC's cache: `connections` of a machine, used at
    /// random, half of them by its requester, and `pages` that are read at random.
    pub(super) fn with_cache(
        self,
        profile: &NicProfile,
        connections: u64,
        pages: u64,
    ) -> Result<Self, ModelError> {
        let cache = &profile.cache;
        let class = |items, item_bytes: u32, uses| CacheClass {
            items,
            item_bytes: item_bytes.into(),
            uses,
            reuse: Reuse::Random,
        };
        let hits = hit_ratios(
            cache.capacity_bytes,
            &[
                class(connections, cache.queue_pair_bytes, 2.0 * self.verbs),
                class(pages, cache.translation_bytes, self.verbs),
            ],
        )?;
        let pair = self.verbs * (1.0 - hits[0]) * cache.miss_occupancy_ns;
        let page = self.verbs * (1.0 - hits[1]) * cache.line_miss_occupancy_ns;
        Ok(Self {
            requester: self.requester + pair,
            responder: self.responder + pair + page,
            ..self
        })
    }

    /// Operations a microsecond of a machine with so many threads: what is busiest bounds them.
    pub(super) fn rate(&self, threads: u32) -> f64 {
        let threads = f64::from(threads);
        let busiest = [
            self.requester,
            self.responder,
            self.link,
            self.client_cpu / threads,
            self.owner_cpu / threads,
            self.locked,
        ];
        1e3 / busiest.into_iter().fold(f64::MIN_POSITIVE, f64::max)
    }
}
