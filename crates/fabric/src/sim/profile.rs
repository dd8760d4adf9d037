//! What a NIC and the CPUs beside it cost, as data. One file of numbers is one kind of hardware.

use serde::{Deserialize, Serialize};

/// A time that grows with the bytes of a message.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct LinearCost {
    /// Nanoseconds for every message.
    pub per_message: f64,
    /// Nanoseconds for every byte of payload.
    pub per_byte: f64,
}

/// The NIC's cache of connection and translation state (paper 003, section 3.3 and table 1).
///
/// As long as everything that could be cached fits, nothing ever misses: a simulation starts warm.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct NicCacheProfile {
    /// Bytes that the cache holds.
    pub capacity_bytes: u64,
    /// Bytes of the state of one queue pair.
    pub queue_pair_bytes: u32,
    /// Bytes of the translation of one page.
    pub translation_bytes: u32,
    /// Bytes of the protection entry of one region.
    pub region_bytes: u32,
    /// Nanoseconds by which misses delay a verb, on each side, however many they are: the NIC
    /// fetches what it lacks at once.
    pub miss_latency_ns: f64,
    /// Nanoseconds for which the miss of a queue pair occupies the NIC: what is left of the fetch
    /// when the NIC overlaps it with other verbs.
    pub miss_occupancy_ns: f64,
    /// The same for the miss of a translation or of a region's entry, which is one cache line.
    pub line_miss_occupancy_ns: f64,
}

/// What verbs cost a client's processor where no NIC moves the bytes: in memory that the client has
/// mapped. All zero where a NIC does; simulations have a NIC always.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct ProcessorProfile {
    /// Nanoseconds of a verb beside the cache lines that it loads.
    pub verb_ns: f64,
    /// Nanoseconds of each cache line that it loads, prefetched among those of other verbs. Above 0
    /// where no NIC moves the bytes.
    pub line_ns: f64,
    /// Nanoseconds by which an atomic takes longer than a READ of 8 bytes.
    pub atomic_ns: f64,
}

impl ProcessorProfile {
    /// Of clients whose NICs move the bytes.
    pub const NONE: Self = Self {
        verb_ns: 0.0,
        line_ns: 0.0,
        atomic_ns: 0.0,
    };

    /// Whether a client's processor loads what its verbs read.
    #[must_use]
    pub fn is_in_place(&self) -> bool {
        self.line_ns > 0.0
    }
}

/// A kind of NIC, and the CPU costs of using it.
///
/// A NIC is two servers, one for the verbs that its host sends (*requester*) and one for those that
/// it answers (*responder*), and a link for each direction. The occupancies bound the throughput;
/// the latencies are those of an idle fabric.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct NicProfile {
    /// The name that [`NicProfile::by_name`] finds it under.
    pub name: String,
    /// How long a verb occupies the NIC that sends it.
    pub requester_ns: LinearCost,
    /// How long a verb occupies the NIC that answers it.
    pub responder_ns: LinearCost,
    /// Nanoseconds from the posting of a 0-byte READ, alone in its doorbell, to its completion on
    /// an idle fabric. Writes and atomics have the same base.
    pub read_latency_ns: f64,
    /// Nanoseconds that each byte of payload adds to the latency.
    pub latency_per_byte_ns: f64,
    /// Bytes that a link moves in a nanosecond, in each direction.
    pub link_bytes_per_ns: f64,
    /// Bytes that a message takes on the link beside its payload.
    pub header_bytes: u32,
    /// Client CPU, in nanoseconds, of one doorbell. Each queue pair has its own.
    pub doorbell_ns: f64,
    /// Client CPU, in nanoseconds, of posting one verb.
    pub post_ns: f64,
    /// Nanoseconds by which an atomic takes the responder longer than a READ of 8 bytes.
    pub atomic_ns: f64,
    /// Verbs that an endpoint may have posted and not yet seen complete.
    pub send_queue_depth: usize,
    /// READs and atomics of one queue pair that may be under way; more of them wait at the
    /// requester.
    pub max_outstanding_reads: u32,
    /// Whether several remote pieces can be read by one request. If not, they leave as one READ
    /// each.
    pub gathers: bool,
    /// Nanoseconds of responder occupancy of each piece of a gather after the first.
    pub gather_piece_ns: f64,
    /// The NIC's cache.
    pub cache: NicCacheProfile,
    /// What verbs cost a client's processor where no NIC moves the bytes.
    pub processor: ProcessorProfile,
    /// Nanoseconds after which a message that found the receive queue full is tried again.
    pub receiver_retry_ns: f64,
    /// Tries of a message after the first, before it fails.
    pub receiver_retries: u32,
    /// CPU time, in nanoseconds, that the owner of a node spends on a request before its handler.
    pub handler_ns: f64,
}

/// No profile has that name.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("no NIC profile is named {name:?}; there are {}", NicProfile::NAMES.join(", "))]
pub struct UnknownProfile {
    /// The name asked for.
    pub name: String,
}

impl NicProfile {
    /// The names of all profiles.
    pub const NAMES: [&'static str; 7] = [
        "cx5-edr",
        "cx4-edr",
        "cx5-roce",
        "cx4-roce",
        "cx3-roce",
        "tcp-loopback",
        "shm",
    ];

    /// The profile of a name.
    ///
    /// # Errors
    /// [`UnknownProfile`], which lists the names there are.
    pub fn by_name(name: &str) -> Result<Self, UnknownProfile> {
        match name {
            "cx5-edr" => Ok(Self::connectx5_edr()),
            "cx4-edr" => Ok(Self::connectx4_edr()),
            "cx5-roce" => Ok(Self::connectx5_roce()),
            "cx4-roce" => Ok(Self::connectx4_roce()),
            "cx3-roce" => Ok(Self::connectx3_roce()),
            "tcp-loopback" => Ok(Self::tcp_loopback()),
            "shm" => Ok(Self::shared_memory()),
            _ => Err(UnknownProfile { name: name.into() }),
        }
    }

    /// TCP over the loopback of one machine, as `farslot calibrate` measured it: how, when and
    /// where the file says, `profiles/tcp-loopback.toml`.
    #[must_use]
    pub fn tcp_loopback() -> Self {
        Self::of_file(include_str!("profiles/tcp-loopback.toml"))
    }

    /// The shared memory of one machine, as `farslot calibrate` measured it: how, when and where
    /// the file says, `profiles/shm.toml`.
    #[must_use]
    pub fn shared_memory() -> Self {
        Self::of_file(include_str!("profiles/shm.toml"))
    }

    /// The profile of a file that is part of this crate.
    fn of_file(text: &str) -> Self {
        Self::parse(text).unwrap_or_else(|error| panic!("a profile of this crate's own: {error}"))
    }

    /// ConnectX-5 on EDR InfiniBand, 100 Gb/s: the hardware of paper 000.
    #[must_use]
    pub fn connectx5_edr() -> Self {
        Self {
            name: "cx5-edr".into(),
            // The peak rate of 0-byte READs, 87.17 M/s (paper 000, section 5.1), which payload does
            // not lower at the requester: READ payload only lands there.
            requester_ns: LinearCost {
                per_message: 1e3 / 87.17,
                per_byte: 0.0,
            },
            // Fitted to the lookup rates of paper 000, table 2; predicts its figure 11.
            responder_ns: LinearCost {
                per_message: 15.0,
                per_byte: 0.0713,
            },
            // c and alpha of paper 000, section 5.1.
            read_latency_ns: 1290.0,
            latency_per_byte_ns: 0.08,
            // 100 Gb/s, and the header size with which paper 000's equation 2 gives its read sizes.
            link_bytes_per_ns: 12.5,
            header_bytes: 30,
            // Assumed: an uncached store over PCIe, and filling a 64-byte work queue entry. Both
            // are part of the measured latency above, which the simulation keeps.
            doorbell_ns: 100.0,
            post_ns: 20.0,
            // Assumed: an atomic occupies the responder for twice as long as a small READ.
            atomic_ns: 15.0,
            // Paper 000, section 5.1: the most that the hardware supports.
            send_queue_depth: 8192,
            max_outstanding_reads: 16,
            // A READ work request has one remote address.
            gathers: false,
            gather_piece_ns: 5.0,
            cache: NicCacheProfile {
                // Paper 003, sections 3.2 and 3.3.
                capacity_bytes: 2 << 20,
                queue_pair_bytes: 375,
                // Assumed: one physical address; one cache line for bounds, key and rights.
                translation_bytes: 8,
                region_bytes: 64,
                // Assumed: one DMA read over PCIe.
                miss_latency_ns: 350.0,
                // At zero hit rate paper 003, section 3.3, measures 10 M READs of 64 bytes a
                // second: 100 ns, of which 19.6 are the responder's occupancy by such a READ.
                miss_occupancy_ns: 80.4,
                // The same for one of the six cache lines of a queue pair.
                line_miss_occupancy_ns: 13.4,
            },
            // The NIC moves the bytes.
            processor: ProcessorProfile::NONE,
            // Assumed: the 10 us and 7 retries that are customary for receiver-not-ready.
            receiver_retry_ns: 10_000.0,
            receiver_retries: 7,
            // Assumed: polling, decoding and dispatching a request of a few cache lines.
            handler_ns: 300.0,
        }
    }
}

/// The machines of paper 003, table 4.
impl NicProfile {
    /// ConnectX-4 on EDR InfiniBand, 100 Gb/s: paper 003's cluster of 32 machines.
    ///
    /// Occupancies are those of [`NicProfile::connectx5_edr`], to which the paper says it is
    /// similar (section 6.1).
    #[must_use]
    pub fn connectx4_edr() -> Self {
        let nic = Self::connectx5_edr();
        Self {
            name: "cx4-edr".into(),
            // Fitted: a READ of 128 bytes takes 1.8 us (table 5).
            read_latency_ns: 1789.8,
            // Fitted: a call of 128 bytes each way takes 2.7 us (table 5).
            handler_ns: 770.0,
            cache: storm_cache(nic.cache),
            ..nic
        }
    }

    /// ConnectX-5 on RoCE, 100 Gb/s.
    #[must_use]
    pub fn connectx5_roce() -> Self {
        let nic = Self::connectx4_edr();
        Self {
            name: "cx5-roce".into(),
            responder_ns: LinearCost {
                // Fitted: 40 million READs of 64 bytes a second (paper 003, section 3.3).
                per_message: 25.0 - 64.0 * nic.responder_ns.per_byte,
                ..nic.responder_ns
            },
            // Assumed: as ConnectX-4 on RoCE.
            read_latency_ns: 2789.8,
            // An Ethernet, an IP, a UDP and a transport header, and two check sums.
            header_bytes: 74,
            ..nic
        }
    }

    /// ConnectX-4 on RoCE, 100 Gb/s.
    #[must_use]
    pub fn connectx4_roce() -> Self {
        Self {
            name: "cx4-roce".into(),
            // Fitted: a READ of 128 bytes takes 2.8 us (paper 003, table 5). All else is assumed to
            // be as ConnectX-5 on RoCE has it.
            read_latency_ns: 2789.8,
            ..Self::connectx5_roce()
        }
    }

    /// ConnectX-3 Pro on RoCE, 40 Gb/s.
    #[must_use]
    pub fn connectx3_roce() -> Self {
        let nic = Self::connectx5_roce();
        // Assumed: bytes take longer by the ratio of the links.
        let per_byte = nic.responder_ns.per_byte * 2.5;
        Self {
            name: "cx3-roce".into(),
            responder_ns: LinearCost {
                // Fitted: 10 million READs of 64 bytes a second (paper 003, section 3.3).
                per_message: 100.0 - 64.0 * per_byte,
                per_byte,
            },
            // Assumed: the requester is as much slower than ConnectX-5's as the responder is.
            requester_ns: LinearCost {
                per_message: nic.requester_ns.per_message * 4.0,
                per_byte: 0.0,
            },
            latency_per_byte_ns: 0.2,
            link_bytes_per_ns: 5.0,
            ..nic
        }
    }
}

/// The cache of NICs that serve Storm.
fn storm_cache(cache: NicCacheProfile) -> NicCacheProfile {
    NicCacheProfile {
        // 375 bytes of context (paper 003, section 3.3), and 257 of what else a connection keeps in
        // the cache: fitted on the throughput at 96 machines of 20 threads (figure 7), 1.57 times
        // below that at 64.
        queue_pair_bytes: 632,
        // Fitted on ConnectX-5 with RoCE (section 3.3): 25 ns for a READ of 64 bytes, 100 ns where
        // no queue pair is in the cache. Its context is 6 cache lines of 64 bytes.
        miss_occupancy_ns: 75.0,
        line_miss_occupancy_ns: 12.5,
        ..cache
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_and_an_unknown_one_is_told() {
        for name in NicProfile::NAMES {
            assert_eq!(NicProfile::by_name(name).unwrap().name, name);
        }
        let error = NicProfile::by_name("cx9").unwrap_err();
        assert_eq!(
            error.to_string(),
            "no NIC profile is named \"cx9\"; there are cx5-edr, cx4-edr, cx5-roce, \
             cx4-roce, cx3-roce, tcp-loopback, shm"
        );
    }
}
