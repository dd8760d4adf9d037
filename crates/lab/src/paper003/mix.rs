//! What operations cost by their verbs, in the mean.

use farslot::fabric::sim::NicProfile;
use farslot::model::{CacheClass, ModelError, Reuse, hit_ratios};

/// One verb, or what stands beside verbs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Step {
    /// A READ of so many bytes.
    Read(usize),
    /// A call with so many bytes each way.
    Call(usize),
    /// A passage through a kernel, one operation of a machine at a time.
    Kernel {
        /// ns in which no other operation of the machine passes.
        locked_ns: f64,
        /// ns of the passage in all.
        path_ns: f64,
    },
}

/// A kind of operation: steps, each with how many of it there are in the mean.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Kind {
    /// Its part of all operations.
    pub(super) share: f64,
    pub(super) steps: Vec<(Step, f64)>,
}

/// What the threads of a system do.
pub(super) type Mix = Vec<Kind>;

/// Operations all of one kind.
pub(super) fn only(steps: Vec<(Step, f64)>) -> Mix {
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
        let requester = profile.requester_ns;
        let responder = |bytes: usize| {
            profile.responder_ns.per_message + profile.responder_ns.per_byte * bytes as f64
        };
        let link = |bytes: usize| {
            (bytes as f64 + f64::from(profile.header_bytes)) / profile.link_bytes_per_ns
        };
        let post = profile.doorbell_ns + profile.post_ns;
        match step {
            Step::Read(bytes) => Self {
                requester: requester.per_message,
                responder: responder(bytes),
                link: link(bytes),
                client_cpu: post,
                verbs: 1.0,
                ..Self::default()
            },
            // A message each way.
            Step::Call(bytes) => Self {
                requester: 2.0 * (requester.per_message + requester.per_byte * bytes as f64),
                responder: 2.0 * responder(bytes),
                link: 2.0 * link(bytes),
                client_cpu: post,
                owner_cpu: profile.handler_ns + post,
                verbs: 2.0,
                ..Self::default()
            },
            Step::Kernel { locked_ns, .. } => Self {
                locked: locked_ns,
                ..Self::default()
            },
        }
    }

    fn plus(self, other: Self, times: f64) -> Self {
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
    pub(super) fn of(profile: &NicProfile, mix: &Mix) -> Self {
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
