//! The cost of verbs, and of what is made of them.

use crate::{ModelError, NicModel};
use std::ops::{Add, Mul};

/// What verbs cost the processor of a client that has the memory mapped: no NIC moves the bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ProcessorCosts {
    /// A verb beside the cache lines that it loads, in ns.
    pub verb_ns: f64,
    /// Each cache line that it loads, in ns, prefetched among those of other verbs.
    pub line_ns: f64,
    /// How much longer an atomic takes than a READ of 8 bytes, in ns.
    pub atomic_ns: f64,
}

impl ProcessorCosts {
    fn of(&self, verbs: f64, lines: f64) -> f64 {
        verbs * self.verb_ns + lines * self.line_ns
    }
}

/// Bytes of a cache line.
const LINE: f64 = 64.0;

/// Cache lines on which so many bytes lie, on average, that begin at multiples of the size of a
/// slot, or of whatever a table has many of: these begin at multiples of the largest power of two
/// that divides that size. Words are the least, and a fraction is a mean of several sizes.
fn lines(bytes: f64, slot_bytes: f64) -> f64 {
    let is_whole = slot_bytes >= 1.0 && slot_bytes.fract() == 0.0;
    let zeros = if is_whole {
        (slot_bytes as u64).trailing_zeros()
    } else {
        3
    };
    let unit = f64::from(1_u32 << zeros.clamp(3, 6));
    1.0 + (bytes - unit).max(0.0) / LINE
}

/// What verbs cost.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct VerbCosts {
    /// READs; WRITEs cost as much.
    pub nic: NicModel,
    /// How much longer an atomic takes the node's NIC than a READ of 8 bytes, in ns.
    pub atomic_ns: f64,
    /// Client CPU of each verb of a batch, in ns. That of a verb alone is part of its latency.
    pub post_ns: f64,
    /// How long each piece of a gather after its first occupies the node's NIC, in ns; nothing
    /// where one request reads one piece.
    pub gather_piece_ns: Option<f64>,
    /// READs and atomics of one client that may be under way; more of them wait. At least 1.
    pub outstanding: u32,
    /// What they cost where the client's processor moves the bytes, and no NIC is occupied; nothing
    /// where NICs do.
    pub in_place: Option<ProcessorCosts>,
}

impl VerbCosts {
    /// Checks that every cost is finite and not negative.
    ///
    /// # Errors
    /// [`ModelError::Nic`] with the first that is not.
    pub fn validate(&self) -> Result<(), ModelError> {
        self.nic.validate()?;
        let named = [
            ("atomic_ns", self.atomic_ns),
            ("post_ns", self.post_ns),
            ("gather_piece_ns", self.gather_piece_ns.unwrap_or(0.0)),
            ("verb_ns", self.in_place.map_or(0.0, |costs| costs.verb_ns)),
            ("line_ns", self.in_place.map_or(0.0, |costs| costs.line_ns)),
            (
                "processor's atomic_ns",
                self.in_place.map_or(0.0, |costs| costs.atomic_ns),
            ),
        ];
        match named
            .into_iter()
            .find(|(_, ns)| !(ns.is_finite() && *ns >= 0.0))
        {
            Some((name, value)) => Err(ModelError::Nic { name, value }),
            None => Ok(()),
        }
    }

    /// A READ or WRITE of so many bytes.
    #[must_use]
    pub fn transfer(&self, bytes: f64) -> Work {
        let (round_trips, latency_ns) = (
            1.0,
            self.nic.read_latency_ns + self.nic.latency_ns_per_byte * bytes,
        );
        if let Some(processor) = self.in_place {
            let lines = lines(bytes, bytes);
            return Work {
                verbs: 1.0,
                bytes,
                lines,
                client_ns: processor.of(1.0, lines),
                round_trips,
                latency_ns,
                ..Work::default()
            };
        }
        Work {
            verbs: 1.0,
            bytes,
            lines: 0.0,
            messages_ns: self.nic.read_occupancy_ns,
            payload_ns: self.nic.occupancy_ns_per_byte * bytes,
            link_ns: self.on_link(bytes),
            requester_ns: self.per_message(),
            client_ns: self.post_ns,
            round_trips,
            latency_ns,
        }
    }

    /// READs of slots of which a processor looks at so many bytes, and no further: where it has
    /// them mapped, it loads these lines alone.
    pub(super) fn looked_at(&self, reads: Work, bytes: f64, slot_bytes: f64) -> Work {
        let Some(processor) = self.in_place else {
            return reads;
        };
        let lines = lines(bytes, slot_bytes);
        Work {
            lines,
            client_ns: processor.of(reads.verbs, lines),
            ..reads
        }
    }

    /// A look into what the client keeps in its own memory, on so many cache lines that it loads
    /// side by side, which takes as long as so many verbs beside them; nothing where NICs move the
    /// bytes of a table, for none of these costs says what that takes.
    #[must_use]
    pub fn own_lines(&self, verbs: f64, lines: f64) -> Option<Work> {
        let processor = self.in_place?;
        Some(Work {
            lines,
            client_ns: processor.of(verbs, lines),
            // They are loaded side by side.
            latency_ns: self.nic.read_latency_ns * lines.min(1.0),
            ..Work::default()
        })
    }

    /// `count` READs of `bytes` bytes each that leave together.
    #[must_use]
    pub fn batch(&self, count: u32, bytes: f64) -> Work {
        self.together(&vec![self.transfer(bytes); count as usize])
    }

    /// Verbs that leave together, in this order: one round trip, or as many as it takes where more
    /// READs and atomics are among them than may be under way. No verb is no work.
    #[must_use]
    pub fn together(&self, verbs: &[Work]) -> Work {
        let (mut sum, mut leaves, mut posted) = (Work::default(), 0.0, 0.0);
        let mut ends: Vec<f64> = Vec::with_capacity(verbs.len());
        for verb in verbs {
            let free = ends.len().checked_sub(self.outstanding.max(1) as usize);
            let waits_for = free.map_or(0.0, |end| ends[end]);
            leaves = f64::max(leaves, waits_for);
            ends.push(leaves + verb.latency_ns);
            // The next one stands behind it at the slowest station.
            leaves += match self.in_place {
                None => verb.node_ns().max(verb.requester_ns).max(verb.link_ns),
                Some(_) => verb.client_ns,
            };
            posted += self.post_ns;
            sum = sum + *verb;
        }
        let last = ends.iter().copied().fold(0.0, f64::max);
        Work {
            round_trips: f64::from(u8::from(!verbs.is_empty())),
            // That a verb alone is posted is part of its latency.
            latency_ns: last + (posted - self.post_ns).max(0.0),
            ..sum
        }
    }

    /// READs of pieces of these sizes by one request, where the NIC gathers, else in one batch.
    #[must_use]
    pub fn pieces(&self, bytes: &[f64]) -> Work {
        let Some(piece_ns) = self.gather_piece_ns.filter(|_| self.in_place.is_none()) else {
            let reads: Vec<Work> = bytes.iter().map(|bytes| self.transfer(*bytes)).collect();
            return self.together(&reads);
        };
        let one = self.transfer(bytes.iter().sum());
        Work {
            messages_ns: one.messages_ns + piece_ns * bytes.len().saturating_sub(1) as f64,
            ..one
        }
    }

    /// One READ that gathers `count` pieces of `bytes` bytes each; nothing where the NIC cannot.
    #[must_use]
    pub fn gather(&self, count: u32, bytes: f64) -> Option<Work> {
        self.gather_piece_ns?;
        Some(self.pieces(&vec![bytes; count as usize]))
    }

    /// A compare-and-swap or an addition.
    #[must_use]
    pub fn atomic(&self) -> Work {
        let read = self.transfer(8.0);
        if let Some(processor) = self.in_place {
            return Work {
                client_ns: read.client_ns + processor.atomic_ns,
                latency_ns: read.latency_ns + processor.atomic_ns,
                ..read
            };
        }
        Work {
            messages_ns: read.messages_ns + self.atomic_ns,
            latency_ns: read.latency_ns + self.atomic_ns,
            ..read
        }
    }

    /// Two verbs that leave together.
    #[must_use]
    pub fn together_with(&self, one: Work, other: Work) -> Work {
        let (long, short) = if one.latency_ns >= other.latency_ns {
            (one, other)
        } else {
            (other, one)
        };
        long + short.waited_for(self.post_ns)
    }

    fn per_message(&self) -> f64 {
        1e9 / self.nic.peak_reads_per_second
    }

    fn on_link(&self, bytes: f64) -> f64 {
        (bytes + self.nic.header_bytes) * 1e9 / self.nic.bandwidth_bytes_per_second
    }
}

/// What an operation takes, on average. Sums are of verbs one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Work {
    /// Verbs, each a message.
    pub verbs: f64,
    /// Bytes of payload.
    pub bytes: f64,
    /// Cache lines that the client's processor loads where it moves the bytes; else none.
    pub lines: f64,
    /// How long the messages occupy the node's NIC, in ns.
    pub messages_ns: f64,
    /// How long the payload does, in ns.
    pub payload_ns: f64,
    /// How long the node's link is occupied, in ns.
    pub link_ns: f64,
    /// How long the clients' NIC is occupied, in ns.
    pub requester_ns: f64,
    /// How long the processor of the client thread is, in ns.
    pub client_ns: f64,
    /// Verbs that wait for each other.
    pub round_trips: f64,
    /// Time when nothing else is under way, in ns.
    pub latency_ns: f64,
}

/// The station that bounds the rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Limit {
    /// The NIC of the node, by its messages more than by their payload.
    NodeMessages,
    /// The NIC of the node, by the payload.
    NodePayload,
    /// The NIC of the clients, by the messages.
    Requester,
    /// The link of the node.
    Link,
    /// The processors of the client threads.
    Clients,
}

/// The highest rate, and what bounds it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Capacity {
    /// Operations per second, of all clients of one machine together.
    pub per_second: f64,
    /// The station that is busy all the time then.
    pub limit: Limit,
}

impl Work {
    /// The same beside something that takes longer, and so no longer than it takes to post.
    #[must_use]
    pub fn waited_for(self, post_ns: f64) -> Self {
        Self {
            round_trips: 0.0,
            latency_ns: post_ns,
            ..self
        }
    }

    /// How long the node's NIC is occupied, in ns.
    #[must_use]
    pub fn node_ns(&self) -> f64 {
        self.messages_ns + self.payload_ns
    }

    /// The rate at which the station that is occupied longest is never idle, of as many client
    /// threads as it takes.
    #[must_use]
    pub fn capacity(&self) -> Capacity {
        self.capacity_of(f64::INFINITY)
    }

    /// The same of so many client threads.
    #[must_use]
    pub fn capacity_of(&self, threads: f64) -> Capacity {
        let node = if self.messages_ns >= self.payload_ns {
            Limit::NodeMessages
        } else {
            Limit::NodePayload
        };
        let stations = [
            (self.node_ns(), node),
            (self.link_ns, Limit::Link),
            (self.requester_ns, Limit::Requester),
            (self.client_ns / threads, Limit::Clients),
        ];
        let (busiest, limit) =
            stations.into_iter().fold(
                (0.0, node),
                |most, one| if one.0 > most.0 { one } else { most },
            );
        Capacity {
            per_second: 1e9 / busiest,
            limit,
        }
    }
}

impl Add for Work {
    type Output = Self;

    /// One after the other.
    fn add(self, then: Self) -> Self {
        Self {
            verbs: self.verbs + then.verbs,
            bytes: self.bytes + then.bytes,
            lines: self.lines + then.lines,
            messages_ns: self.messages_ns + then.messages_ns,
            payload_ns: self.payload_ns + then.payload_ns,
            link_ns: self.link_ns + then.link_ns,
            requester_ns: self.requester_ns + then.requester_ns,
            client_ns: self.client_ns + then.client_ns,
            round_trips: self.round_trips + then.round_trips,
            latency_ns: self.latency_ns + then.latency_ns,
        }
    }
}

impl Mul<f64> for Work {
    type Output = Self;

    /// So many times, one after the other; or with that probability.
    fn mul(self, times: f64) -> Self {
        Self {
            verbs: self.verbs * times,
            bytes: self.bytes * times,
            lines: self.lines * times,
            messages_ns: self.messages_ns * times,
            payload_ns: self.payload_ns * times,
            link_ns: self.link_ns * times,
            requester_ns: self.requester_ns * times,
            client_ns: self.client_ns * times,
            round_trips: self.round_trips * times,
            latency_ns: self.latency_ns * times,
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(crate) const COSTS: VerbCosts = VerbCosts {
        nic: NicModel::connectx5_edr(),
        atomic_ns: 15.0,
        post_ns: 20.0,
        gather_piece_ns: None,
        outstanding: 16,
        in_place: None,
    };

    /// The same of mapped memory.
    pub(crate) const IN_PLACE: VerbCosts = VerbCosts {
        in_place: Some(ProcessorCosts {
            verb_ns: 5.0,
            line_ns: 20.0,
            atomic_ns: 40.0,
        }),
        ..COSTS
    };

    fn close(one: f64, other: f64) -> bool {
        (one - other).abs() < 1e-9 * other.abs().max(1.0)
    }

    #[test]
    fn the_busiest_station_bounds_the_rate() {
        let small = COSTS.transfer(8.0).capacity();
        assert_eq!(small.limit, Limit::NodeMessages);
        assert!(close(small.per_second, 1e9 / 15.5704));
        assert_eq!(COSTS.transfer(1024.0).capacity().limit, Limit::NodePayload);
        // Beyond 1448 bytes the link takes longer than the NIC.
        assert_eq!(COSTS.transfer(2048.0).capacity().limit, Limit::Link);
        let slow_sender = VerbCosts {
            nic: NicModel {
                peak_reads_per_second: 1e7,
                ..COSTS.nic
            },
            ..COSTS
        };
        assert_eq!(slow_sender.transfer(8.0).capacity().limit, Limit::Requester);
    }

    #[test]
    fn a_processor_that_moves_the_bytes_pays_by_the_lines() {
        // A slot of 24 bytes begins anywhere in a line; one of 32 never spans two.
        for (bytes, on) in [
            (8.0, 1.0),
            (24.0, 1.25),
            (32.0, 1.0),
            (96.0, 2.0),
            (128.0, 2.0),
        ] {
            let read = IN_PLACE.transfer(bytes);
            assert_eq!(
                (read.lines, read.client_ns),
                (on, 5.0 + 20.0 * on),
                "{bytes}"
            );
            assert_eq!(read.capacity_of(2.0).limit, Limit::Clients);
        }
        assert_eq!(lines(264.0, 264.0), 5.0);
        let three = IN_PLACE.batch(3, 96.0);
        assert_eq!(
            (three.lines, three.client_ns, three.node_ns()),
            (6.0, 135.0, 0.0)
        );
        assert_eq!(IN_PLACE.atomic().client_ns, 65.0);
        assert_eq!(IN_PLACE.own_lines(0.2, 2.0).unwrap().client_ns, 41.0);
        assert_eq!(COSTS.own_lines(0.2, 2.0), None);
    }

    #[test]
    fn client_threads_bound_what_no_nic_does() {
        let at_the_client = Work {
            client_ns: 200.0,
            ..Work::default()
        };
        let of_four = at_the_client.capacity_of(4.0);
        assert_eq!((of_four.per_second, of_four.limit), (2e7, Limit::Clients));
        let read = COSTS.transfer(8.0) + at_the_client;
        assert_eq!(read.capacity_of(100.0), COSTS.transfer(8.0).capacity());
        assert_eq!(read.client_ns, 200.0 + COSTS.post_ns);
    }

    #[test]
    fn a_batch_is_one_round_trip_and_as_many_messages() {
        let (one, batch) = (COSTS.transfer(32.0), COSTS.batch(3, 32.0));
        assert_eq!((batch.verbs, batch.round_trips), (3.0, 1.0));
        assert!(close(batch.node_ns(), 3.0 * one.node_ns()));
        assert!(batch.latency_ns > one.latency_ns && batch.latency_ns < 1.1 * one.latency_ns);
        assert_eq!(COSTS.batch(1, 32.0), one);
        // Paper 000, section 5: 19.3 million cuckoo lookups a second.
        assert!((batch.capacity().per_second / 19.3e6 - 1.0).abs() < 0.005);
    }

    #[test]
    fn more_reads_than_may_be_under_way_wait_for_the_first() {
        let one = COSTS.transfer(32.0).latency_ns;
        let latency = |count| COSTS.batch(count, 32.0).latency_ns;
        assert!(latency(16) < 1.6 * one);
        assert!((2.0 * one..2.6 * one).contains(&latency(17)));
        assert!((3.0 * one..4.5 * one).contains(&latency(48)));
        assert_eq!(COSTS.together(&[]), Work::default());
    }

    #[test]
    fn pieces_are_one_message_or_a_batch() {
        let sizes = [264.0, 32.0, 32.0];
        let batch = COSTS.pieces(&sizes);
        assert_eq!(
            (batch.verbs, batch.bytes, batch.round_trips),
            (3.0, 328.0, 1.0)
        );
        let gathers = VerbCosts {
            gather_piece_ns: Some(5.0),
            ..COSTS
        };
        let gather = gathers.pieces(&sizes);
        assert_eq!((gather.verbs, gather.bytes), (1.0, 328.0));
        assert!(gather.latency_ns > COSTS.transfer(328.0).latency_ns - 1.0);
    }

    #[test]
    fn a_gather_is_one_message() {
        assert_eq!(COSTS.gather(3, 32.0), None);
        let gathers = VerbCosts {
            gather_piece_ns: Some(5.0),
            ..COSTS
        };
        let gather = gathers.gather(3, 32.0).unwrap();
        assert_eq!((gather.verbs, gather.bytes), (1.0, 96.0));
        assert!(close(gather.node_ns(), 15.0 + 96.0 * 0.0713 + 10.0));
    }

    #[test]
    fn costs_that_are_none_are_refused() {
        assert_eq!(COSTS.validate(), Ok(()));
        let negative = VerbCosts {
            post_ns: -1.0,
            ..COSTS
        };
        let unknown = VerbCosts {
            atomic_ns: f64::NAN,
            ..COSTS
        };
        assert!(negative.validate().is_err() && unknown.validate().is_err());
    }
}
