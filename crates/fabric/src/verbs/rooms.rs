//! How calls travel: what the two sides of a queue pair for calls know of each other, and where in
//! each other's memory they write (paper 003, section 5.2).
//!
//! ```text
//! client                                              agent
//!    |  CALLS   its end, the room for replies           |   makes a queue pair, room for requests
//!    |------------------------------------------------->|
//!    |  CALLED  its end, the room for requests          |
//!    |<-------------------------------------------------|  (or that it has no more of them)
//!    |  WRITE with immediate: a request, into its room  |
//!    |=================================================>|   one completion queue for all clients
//!    |  WRITE with immediate: the reply, into its room  |
//!    |<=================================================|
//!
//! CALLS, CALLED  0 header, its count the slots; 0 for a refusal | 1..5 end |
//!                5 key, 32 bits; bytes of the room, 32 bits from 32 on | 6 address of the room
//! a request      0 most bytes of the reply, 32 bits; granule of the reply, 16; region, 16 |
//!                the caller's bytes
//! its immediate  number, 16 bits; granule of the request, 16 bits from 16 on
//! a reply        the handler's bytes, or the four words of a FAILURE
//! its immediate  number, 16 bits; 0, or 1 of a FAILURE, 16 bits from 16 on
//! ```
//! Both rooms belong to one client. The client says where in them each request and its reply stand:
//! in *granules* of 64 bytes, one behind the other in a ring. The queue pair says whose a request
//! is. Its number counts the client's calls, modulo 2 to the 16th; its slot is that modulo the
//! slots. Calls are answered in their order, so that the number of what comes is always known.

use super::path::{self, END_WORDS, QueuePairAddress};
use crate::RegionId;
use crate::error::Malformed;
use crate::net::wire::FrameKind;

/// Calls of one client to one node that are on their way at most: as many receives are posted at
/// both sides, so that none is ever missing.
pub(super) const SLOTS: u16 = 64;
/// Bytes of a room. Each client that calls has one at the node for its requests and one itself.
pub(super) const ROOM: usize = 1 << 20;
/// What requests and replies begin at a multiple of.
pub(super) const GRANULE: usize = 64;
/// An immediate has 16 bits for a granule.
const _: () = assert!(ROOM / GRANULE <= 1 << 16);
/// Bytes of a request before the caller's own.
pub(super) const HEAD_BYTES: usize = 8;
/// The longest request, and the longest reply.
pub(super) const LONGEST: usize = ROOM - HEAD_BYTES;
/// Words of a reply that is an error.
pub(super) const FAILURE_REPLY_WORDS: usize = crate::net::wire::FAILURE_WORDS - 1;
/// Words of a CALLS and of a CALLED.
pub(super) const CALLS_WORDS: usize = 1 + END_WORDS + 2;

/// What a side tells the other of its queue pair for calls, and of the room that it lends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Half {
    pub(super) end: QueuePairAddress,
    /// Calls that may be on their way.
    pub(super) slots: u16,
    pub(super) key: u32,
    pub(super) bytes: u32,
    pub(super) address: u64,
}

impl Half {
    pub(super) fn encode(&self, kind: FrameKind) -> [u64; CALLS_WORDS] {
        let [a, b, c, d] = self.end.encode();
        let room = u64::from(self.key) | u64::from(self.bytes) << 32;
        let header = path::header(kind, self.slots, CALLS_WORDS);
        [header, a, b, c, d, room, self.address]
    }

    /// The half of a CALLS or a CALLED; nothing of a refusal.
    ///
    /// # Errors
    /// [`Malformed`] of rooms and slots that there cannot be.
    pub(super) fn decode(
        [header, a, b, c, d, room, address]: [u64; CALLS_WORDS],
    ) -> std::result::Result<Option<Self>, Malformed> {
        let slots = (header >> 32) as u16;
        if slots == 0 {
            return Ok(None);
        }
        let half = Self {
            end: QueuePairAddress::decode([a, b, c, d])?,
            slots,
            key: room as u32,
            bytes: (room >> 32) as u32,
            address,
        };
        let bytes = half.bytes as usize;
        let in_range = slots <= SLOTS
            && (GRANULE..=ROOM).contains(&bytes)
            && bytes.is_multiple_of(GRANULE)
            && address.checked_add(bytes as u64).is_some();
        in_range.then_some(Some(half)).ok_or(Malformed::Handshake {
            reason: "a room for calls is not of its form",
        })
    }
}

/// The CALLED of an agent that has no more queue pairs for calls.
pub(super) fn no_calls() -> [u64; CALLS_WORDS] {
    let mut words = [0; CALLS_WORDS];
    words[0] = path::header(FrameKind::Called, 0, CALLS_WORDS);
    words
}

/// The first word of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct CallHeader {
    pub(super) region: RegionId,
    /// Where the reply goes, in granules.
    pub(super) reply_at: u16,
    /// The most bytes of the reply.
    pub(super) reply_bytes: u32,
}

impl CallHeader {
    pub(super) fn encode(self) -> u64 {
        u64::from(self.reply_bytes)
            | u64::from(self.reply_at) << 32
            | u64::from(self.region.0) << 48
    }

    pub(super) fn decode(word: u64) -> Self {
        Self {
            region: RegionId((word >> 48) as u16),
            reply_at: (word >> 32) as u16,
            reply_bytes: word as u32,
        }
    }

    /// Bytes that the reply takes in a room, at most.
    pub(super) fn room(self) -> usize {
        reply_room(self.reply_bytes as usize)
    }
}

/// Bytes that a reply of so many may take in a room: an error has to fit, too.
pub(super) fn reply_room(bytes: usize) -> usize {
    bytes.max(FAILURE_REPLY_WORDS * 8)
}

/// The immediate of a request that begins at a granule.
pub(super) fn request_imm(number: u16, at: u16) -> u32 {
    u32::from(number) | u32::from(at) << 16
}

/// The immediate of a reply.
pub(super) fn reply_imm(number: u16, is_failure: bool) -> u32 {
    u32::from(number) | u32::from(is_failure) << 16
}

/// The number of an immediate, and what it says besides.
pub(super) fn decode_imm(imm: u32) -> (u16, u16) {
    (imm as u16, (imm >> 16) as u16)
}

/// The bytes of a room in use: one piece behind the other, given back in their order.
pub(super) struct Ring {
    granules: u64,
    /// Granules that were ever taken, and given back.
    taken: u64,
    given: u64,
}

/// A piece of a room.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct RingAllocation {
    /// Its first granule.
    pub(super) at: u16,
    /// Granules that were ever taken once it is.
    end: u64,
}

impl RingAllocation {
    /// Its first byte.
    pub(super) fn byte(self) -> usize {
        usize::from(self.at) * GRANULE
    }
}

impl Ring {
    pub(super) fn new(bytes: u32) -> Self {
        Self {
            granules: u64::from(bytes) / GRANULE as u64,
            taken: 0,
            given: 0,
        }
    }

    /// Whether a piece of so many bytes fits when nothing else is there.
    pub(super) fn can_hold(&self, bytes: usize) -> bool {
        granules_of(bytes) <= self.granules
    }

    /// Where a piece of so many bytes can be now.
    pub(super) fn find(&self, bytes: usize) -> Option<RingAllocation> {
        let wanted = granules_of(bytes);
        let at = self.taken % self.granules;
        // It is in one piece: what is left at the end of the room is skipped.
        let skipped = if at + wanted > self.granules {
            self.granules - at
        } else {
            0
        };
        let end = self.taken + skipped + wanted;
        let is_free = wanted <= self.granules && end - self.given <= self.granules;
        is_free.then(|| RingAllocation {
            at: ((end - wanted) % self.granules) as u16,
            end,
        })
    }

    /// Takes a place that was found just now.
    pub(super) fn take(&mut self, place: RingAllocation) {
        self.taken = place.end;
    }

    /// Gives back a place, and all before it.
    pub(super) fn give_back(&mut self, place: RingAllocation) {
        self.given = place.end;
        if self.given == self.taken {
            // All of the room is in one piece again.
            (self.given, self.taken) = (0, 0);
        }
    }
}

fn granules_of(bytes: usize) -> u64 {
    bytes.div_ceil(GRANULE).max(1) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    #[test]
    fn the_longest_request_and_reply_fit_into_a_room() {
        let ring = Ring::new(ROOM as u32);
        assert!(ring.can_hold(HEAD_BYTES + LONGEST) && !ring.can_hold(HEAD_BYTES + LONGEST + 1));
        assert!(ring.can_hold(reply_room(LONGEST)) && ring.can_hold(reply_room(0)));
    }

    proptest! {
        #[test]
        fn pieces_of_a_room_are_apart(
            granules in 1u32..40,
            sizes in proptest::collection::vec((0usize..1500, any::<bool>()), 1..200),
        ) {
            let mut ring = Ring::new(granules * GRANULE as u32);
            let mut used: VecDeque<(RingAllocation, usize)> = VecDeque::new();
            for (bytes, gives_back) in sizes {
                prop_assert_eq!(ring.can_hold(bytes), granules_of(bytes) <= u64::from(granules));
                match ring.find(bytes) {
                    Some(place) => {
                        let range = place.byte()..place.byte() + bytes.max(1);
                        prop_assert!(range.end <= granules as usize * GRANULE);
                        for (other, bytes) in &used {
                            let other = other.byte()..other.byte() + (*bytes).max(1);
                            prop_assert!(range.end <= other.start || other.end <= range.start);
                        }
                        ring.take(place);
                        used.push_back((place, bytes));
                    }
                    // Whatever can be held has room when nothing else is there.
                    None => prop_assert!(!used.is_empty() || !ring.can_hold(bytes)),
                }
                if gives_back && let Some((place, _)) = used.pop_front() {
                    ring.give_back(place);
                }
            }
        }

        #[test]
        fn halves_and_heads_arrive_as_they_were_sent(
            number in 0u32..1 << 24,
            slots in 1..=SLOTS,
            key: u32,
            granules in 1u32..=(ROOM / GRANULE) as u32,
            address in 0u64..1 << 47,
            region: u16,
            at: u16,
            bytes: u32,
        ) {
            let end = QueuePairAddress {
                number,
                first_packet: 7,
                gid: [3; 16],
                lid: 1,
                mtu: 5,
                reads_at_once: 1,
                is_ethernet: true,
            };
            let bytes_of_room = granules * GRANULE as u32;
            let half = Half { end, slots, key, bytes: bytes_of_room, address };
            prop_assert_eq!(Half::decode(half.encode(FrameKind::Calls)), Ok(Some(half)));
            let head = CallHeader { region: RegionId(region), reply_at: at, reply_bytes: bytes };
            prop_assert_eq!(CallHeader::decode(head.encode()), head);
            prop_assert_eq!(decode_imm(request_imm(region, at)), (region, at));
            prop_assert_eq!(decode_imm(reply_imm(region, true)), (region, 1));
        }

        #[test]
        fn no_words_of_a_half_panic(words: [u64; CALLS_WORDS]) {
            let _ = Half::decode(words);
            let _ = CallHeader::decode(words[0]).room();
        }
    }

    #[test]
    fn a_refusal_and_rooms_that_cannot_be_are_told_apart() {
        assert_eq!(Half::decode(no_calls()), Ok(None));
        let end = QueuePairAddress {
            number: 1,
            first_packet: 1,
            gid: [0; 16],
            lid: 0,
            mtu: 1,
            reads_at_once: 1,
            is_ethernet: false,
        };
        let half = Half {
            end,
            slots: SLOTS,
            key: 1,
            bytes: ROOM as u32,
            address: 4096,
        };
        for wrong in [
            Half {
                slots: SLOTS + 1,
                ..half
            },
            Half { bytes: 0, ..half },
            Half { bytes: 100, ..half },
            Half {
                bytes: ROOM as u32 + 64,
                ..half
            },
            Half {
                address: u64::MAX - 5,
                ..half
            },
        ] {
            assert!(
                Half::decode(wrong.encode(FrameKind::Calls)).is_err(),
                "{wrong:?}"
            );
        }
    }
}
