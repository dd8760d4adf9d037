//! A NIC as a queueing station: requester, responder, a link in each direction, and the cache.

use super::clock::{Picos, from_ns};
use super::profile::{NicCacheProfile, NicProfile};
use lru::LruCache;

/// The NIC of one host.
pub(super) struct HostNic {
    /// When each server is free again.
    requester_free: Picos,
    responder_free: Picos,
    egress_free: Picos,
    ingress_free: Picos,
    pub(super) cache: NicCache,
}

impl HostNic {
    pub(super) fn new(profile: &NicCacheProfile) -> Self {
        Self {
            requester_free: 0,
            responder_free: 0,
            egress_free: 0,
            ingress_free: 0,
            cache: NicCache::new(profile),
        }
    }

    /// Serves a verb at the requester; returns when that starts.
    pub(super) fn request(&mut self, now: Picos, occupancy: Picos) -> Picos {
        serve(&mut self.requester_free, now, occupancy)
    }

    /// Serves a verb at the responder; returns when that starts.
    pub(super) fn respond(&mut self, now: Picos, occupancy: Picos) -> Picos {
        serve(&mut self.responder_free, now, occupancy)
    }

    /// Sends a message whose first byte could leave `now`; returns when it does leave.
    pub(super) fn send(&mut self, now: Picos, on_link: Picos) -> Picos {
        serve(&mut self.egress_free, now, on_link)
    }

    /// Receives a message whose last byte could arrive `now`; returns when it does arrive.
    pub(super) fn receive(&mut self, now: Picos, on_link: Picos) -> Picos {
        self.ingress_free = now.max(self.ingress_free + on_link);
        self.ingress_free
    }
}

fn serve(free: &mut Picos, now: Picos, occupancy: Picos) -> Picos {
    let start = now.max(*free);
    *free = start + occupancy;
    start
}

/// What the NIC must know to serve a verb.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum CacheEntry {
    QueuePair { client: u32, node: u16 },
    Region { node: u16, region: u16 },
    Translation { node: u16, region: u16, page: u64 },
}

impl CacheEntry {
    /// One number for each entry. Pages past 2^28 of a region share entries.
    fn key(self) -> u64 {
        match self {
            Self::QueuePair { client, node } => (u64::from(client) << 16) | u64::from(node),
            Self::Region { node, region } => 1 << 62 | region_key(node, region),
            Self::Translation { node, region, page } => {
                2 << 62 | (page & ((1 << 28) - 1)) << 32 | region_key(node, region)
            }
        }
    }
}

fn region_key(node: u16, region: u16) -> u64 {
    u64::from(node) << 16 | u64::from(region)
}

/// An LRU cache measured in bytes.
pub(super) struct NicCache {
    profile: NicCacheProfile,
    /// Bytes of everything that could ever be in the cache.
    footprint: u64,
    used: u64,
    entries: LruCache<u64, u32>,
}

impl NicCache {
    fn new(profile: &NicCacheProfile) -> Self {
        Self {
            profile: *profile,
            footprint: 0,
            used: 0,
            entries: LruCache::unbounded(),
        }
    }

    /// Takes in the memory of a node.
    pub(super) fn add_region(&mut self, len: u64, page_bytes: u64) {
        let pages = len.div_ceil(page_bytes.max(1));
        self.footprint += u64::from(self.profile.region_bytes)
            + pages.saturating_mul(u64::from(self.profile.translation_bytes));
    }

    pub(super) fn add_queue_pair(&mut self) {
        self.footprint += u64::from(self.profile.queue_pair_bytes);
    }

    pub(super) fn remove_queue_pair(&mut self, queue_pair: CacheEntry) {
        self.footprint -= u64::from(self.profile.queue_pair_bytes);
        self.used -= u64::from(self.entries.pop(&queue_pair.key()).unwrap_or(0));
    }

    /// Whether a miss is possible at all.
    #[inline]
    pub(super) const fn overflows(&self) -> bool {
        self.footprint > self.profile.capacity_bytes
    }

    /// Uses an entry; returns the number of misses, 0 or 1.
    pub(super) fn miss(&mut self, entry: CacheEntry) -> u32 {
        if !self.overflows() || self.entries.get(&entry.key()).is_some() {
            return 0;
        }
        let bytes = match entry {
            CacheEntry::QueuePair { .. } => self.profile.queue_pair_bytes,
            CacheEntry::Region { .. } => self.profile.region_bytes,
            CacheEntry::Translation { .. } => self.profile.translation_bytes,
        };
        self.entries.put(entry.key(), bytes);
        self.used += u64::from(bytes);
        while self.used > self.profile.capacity_bytes
            && let Some((_, evicted)) = self.entries.pop_lru()
        {
            self.used -= u64::from(evicted);
        }
        1
    }
}

/// The times of a profile in the clock's unit.
pub(super) struct Costs {
    profile: NicProfile,
    /// From the NIC of one host to that of another, unloaded.
    pub(super) one_way: Picos,
    pub(super) doorbell: Picos,
    pub(super) post: Picos,
    pub(super) atomic: Picos,
    pub(super) miss_latency: Picos,
    pub(super) miss_occupancy: Picos,
    pub(super) line_miss_occupancy: Picos,
    pub(super) receiver_retry: Picos,
    pub(super) handler: Picos,
}

impl Costs {
    pub(super) fn new(profile: NicProfile) -> Self {
        // The measured latency includes the client's CPU time for its one verb.
        let travel = profile.read_latency_ns - profile.doorbell_ns - profile.post_ns;
        Self {
            one_way: from_ns(travel.max(0.0) / 2.0),
            doorbell: from_ns(profile.doorbell_ns),
            post: from_ns(profile.post_ns),
            atomic: from_ns(profile.atomic_ns),
            miss_latency: from_ns(profile.cache.miss_latency_ns),
            miss_occupancy: from_ns(profile.cache.miss_occupancy_ns),
            line_miss_occupancy: from_ns(profile.cache.line_miss_occupancy_ns),
            receiver_retry: from_ns(profile.receiver_retry_ns),
            handler: from_ns(profile.handler_ns),
            profile,
        }
    }

    pub(super) fn profile(&self) -> &NicProfile {
        &self.profile
    }

    /// Requester occupancy of `messages` that carry `payload` bytes together.
    pub(super) fn requester(&self, messages: u32, payload: u64) -> Picos {
        let cost = self.profile.requester_ns;
        from_ns(cost.per_message * f64::from(messages) + cost.per_byte * payload as f64)
    }

    /// Responder occupancy of `pieces` that have `payload` bytes together.
    pub(super) fn responder(&self, pieces: u32, payload: u64) -> Picos {
        let cost = self.profile.responder_ns;
        let messages = self.messages(pieces);
        let gathered = f64::from(pieces.saturating_sub(messages)) * self.profile.gather_piece_ns;
        from_ns(cost.per_message * f64::from(messages) + cost.per_byte * payload as f64 + gathered)
    }

    /// Messages that carry a verb of so many pieces.
    pub(super) fn messages(&self, pieces: u32) -> u32 {
        if self.profile.gathers {
            1
        } else {
            pieces.max(1)
        }
    }

    /// Latency that payload adds.
    pub(super) fn transfer(&self, payload: u64) -> Picos {
        from_ns(self.profile.latency_per_byte_ns * payload as f64)
    }

    /// How long a message occupies a link.
    pub(super) fn on_link(&self, payload: u64) -> Picos {
        let bytes = payload + u64::from(self.profile.header_bytes);
        from_ns(bytes as f64 / self.profile.link_bytes_per_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_takes_one_after_the_other() {
        let mut nic = HostNic::new(&NicProfile::connectx5_edr().cache);
        assert_eq!(nic.request(100, 15), 100);
        assert_eq!(nic.request(100, 15), 115);
        assert_eq!(nic.request(200, 15), 200);
        assert_eq!(nic.receive(50, 20), 50);
        assert_eq!(nic.receive(60, 20), 70);
    }

    #[test]
    fn a_cache_that_holds_all_never_misses_and_a_full_one_evicts_the_oldest() {
        let profile = NicCacheProfile {
            capacity_bytes: 2 * 375,
            ..NicProfile::connectx5_edr().cache
        };
        let mut cache = NicCache::new(&profile);
        let pair = |client| CacheEntry::QueuePair { client, node: 0 };
        cache.add_queue_pair();
        cache.add_queue_pair();
        assert_eq!(cache.miss(pair(0)) + cache.miss(pair(1)), 0);
        cache.add_queue_pair();
        let misses = [0, 1, 0, 2, 0, 1].map(|client| cache.miss(pair(client)));
        assert_eq!(misses, [1, 1, 0, 1, 0, 1]);
        cache.remove_queue_pair(pair(1));
        assert!(!cache.overflows());
    }

    #[test]
    fn pieces_are_messages_where_the_nic_cannot_gather() {
        let mut profile = NicProfile::connectx5_edr();
        let separate = Costs::new(profile.clone()).responder(3, 0);
        profile.gathers = true;
        let gathered = Costs::new(profile).responder(3, 0);
        assert_eq!((separate, gathered), (45_000, 25_000));
    }
}
