//! How two queue pairs are connected: what the sides tell each other of their ends, and the states
//! that each end goes through.
//!
//! ```text
//! client                                              agent
//!    |  (handshake, as over TCP, to its WELCOME)        |
//!    |  PAIR    its end                                 |   makes a queue pair, ready to receive
//!    |------------------------------------------------->|
//!    |  PAIRED  its end | a row an area                  |
//!    |<-------------------------------------------------|  (or REFUSED)
//!    |  ready to send; from now on the NICs speak       |
//!    |  ASK     why was this verb refused?              |
//!    |------------------------------------------------->|
//!    |  FAILURE                                         |  (or REFUSED, once the grant is revoked)
//!    |  CALLS, CALLED: another pair, for calls: see `rooms.rs`
//!    |<-------------------------------------------------|
//!
//! PAIR, PAIRED  0 header | 1..5 end | PAIRED: 5.. rows
//! ASK           0 header | 1 region, 16 bits; needed rights, 8; bytes, 32 bits from 32 on |
//!               2 offset
//! an end        0 queue pair, 24 bits; packet number, 24 bits from 32 on | 1..3 GID |
//!               3 LID, 16 bits; MTU, 8; READs and atomics at once, 8; 1 on Ethernet, 8
//! a row         0 region, 16 bits; rights, 8; key, 32 bits from 32 on |
//!               1 first byte in the region | 2 bytes | 3 address
//! ```
//! The rows are in the order of the regions and of their bytes. The keys of the WELCOME are not
//! used.

use super::abi::{
    IBV_QP_ACCESS_FLAGS, IBV_QP_AV, IBV_QP_DEST_QPN, IBV_QP_MAX_DEST_RD_ATOMIC,
    IBV_QP_MAX_QP_RD_ATOMIC, IBV_QP_MIN_RNR_TIMER, IBV_QP_PATH_MTU, IBV_QP_PKEY_INDEX, IBV_QP_PORT,
    IBV_QP_RETRY_CNT, IBV_QP_RNR_RETRY, IBV_QP_RQ_PSN, IBV_QP_SQ_PSN, IBV_QP_STATE, IBV_QP_TIMEOUT,
    IBV_QPS_ERR, IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS, ibv_ah_attr, ibv_gid, ibv_global_route,
    ibv_qp_attr,
};
use super::device::Device;
use super::resource::{QueuePair, access_flags};
use crate::error::Malformed;
use crate::net::wire::{FrameKind, Header};
use crate::{Nanos, RegionId, Result, Rights};

/// Words of an end.
pub(super) const END_WORDS: usize = 4;
/// Words of a PAIR.
pub(super) const PAIR_WORDS: usize = 1 + END_WORDS;
/// Words of a row of a PAIRED.
const ROW_WORDS: usize = 4;
/// Words of an ASK.
pub(super) const ASK_WORDS: usize = 3;
/// How often a packet that nobody answers is sent again, and a message that has no room. One more
/// would mean for ever.
const RETRIES: u8 = 6;

/// What a side tells the other of its queue pair.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct QueuePairAddress {
    /// The queue pair's number, of 24 bits.
    pub(super) number: u32,
    /// The number of its first packet, of 24 bits.
    pub(super) first_packet: u32,
    pub(super) gid: [u8; 16],
    pub(super) lid: u16,
    /// The largest packet, as the code of the verbs: 1 to 5.
    pub(super) mtu: u8,
    /// READs and atomics that it can have under way: a client as their sender, an agent as their
    /// receiver.
    pub(super) reads_at_once: u8,
    pub(super) is_ethernet: bool,
}

impl QueuePairAddress {
    /// The end that is `queue_pair`.
    pub(super) fn of(queue_pair: &QueuePair, device: &Device, reads_at_once: i32) -> Self {
        let port = &device.port;
        Self {
            number: queue_pair.number(),
            first_packet: rand::random::<u32>() & 0xff_ffff,
            gid: port.gid,
            lid: port.attributes.lid,
            mtu: port.attributes.active_mtu.clamp(1, 5) as u8,
            reads_at_once: reads_at_once.clamp(1, 255) as u8,
            is_ethernet: port.is_ethernet(),
        }
    }

    pub(super) fn encode(&self) -> [u64; END_WORDS] {
        let [low, high]: [u64; 2] = bytemuck::cast(self.gid);
        [
            u64::from(self.number) | u64::from(self.first_packet) << 32,
            low,
            high,
            u64::from(self.lid)
                | u64::from(self.mtu) << 16
                | u64::from(self.reads_at_once) << 24
                | u64::from(self.is_ethernet) << 32,
        ]
    }

    pub(super) fn decode(words: [u64; END_WORDS]) -> std::result::Result<Self, Malformed> {
        let [numbers, low, high, rest] = words;
        let end = Self {
            number: numbers as u32,
            first_packet: (numbers >> 32) as u32,
            gid: bytemuck::cast([low, high]),
            lid: rest as u16,
            mtu: (rest >> 16) as u8,
            reads_at_once: (rest >> 24) as u8,
            is_ethernet: rest >> 32 == 1,
        };
        let in_range = end.number < 1 << 24
            && end.first_packet < 1 << 24
            && (1..=5).contains(&end.mtu)
            && end.reads_at_once > 0
            && rest >> 33 == 0;
        in_range.then_some(end).ok_or(Malformed::Handshake {
            reason: "an end of a queue pair is not of its form",
        })
    }
}

/// The client's PAIR.
pub(super) fn pair(end: &QueuePairAddress) -> [u64; PAIR_WORDS] {
    let [a, b, c, d] = end.encode();
    [header(FrameKind::Pair, 0, PAIR_WORDS), a, b, c, d]
}

/// The end of a PAIR.
///
/// # Errors
/// [`Malformed`].
pub(super) fn decode_pair(
    words: [u64; PAIR_WORDS],
) -> std::result::Result<QueuePairAddress, Malformed> {
    let [_, end @ ..] = words;
    QueuePairAddress::decode(end)
}

/// A part of a region that the client may use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct KeyedArea {
    pub(super) region: RegionId,
    pub(super) rights: Rights,
    /// The NIC's key to it.
    pub(super) key: u32,
    /// Its first byte in the region.
    pub(super) offset: u64,
    pub(super) bytes: u64,
    /// Where the NIC has its first byte.
    pub(super) address: u64,
}

/// The agent's PAIRED: its end, and what the client may use.
pub(super) fn paired(end: &QueuePairAddress, opened: &[KeyedArea]) -> Vec<u64> {
    let words = PAIR_WORDS + ROW_WORDS * opened.len();
    let mut frame = vec![header(FrameKind::Paired, opened.len() as u16, words)];
    frame.extend(end.encode());
    frame.extend(opened.iter().flat_map(|area| {
        [
            u64::from(area.region.0)
                | u64::from(area.rights.bits()) << 16
                | u64::from(area.key) << 32,
            area.offset,
            area.bytes,
            area.address,
        ]
    }));
    frame
}

/// The end of a PAIRED, and what the client may use of so many regions.
///
/// # Errors
/// [`Malformed`].
pub(super) fn decode_paired(
    words: &[u64],
    regions: usize,
) -> std::result::Result<(QueuePairAddress, Vec<KeyedArea>), Malformed> {
    let wrong = |reason| Malformed::Handshake { reason };
    let [_, a, b, c, d, rows @ ..] = words else {
        return Err(wrong("a PAIRED is too short"));
    };
    let (rows, []) = rows.as_chunks::<ROW_WORDS>() else {
        return Err(wrong("a PAIRED's rows are not whole"));
    };
    let opened: Vec<_> = rows
        .iter()
        .map(|[head, offset, bytes, address]| KeyedArea {
            region: RegionId(*head as u16),
            rights: Rights::from_bits((head >> 16) as u8),
            key: (head >> 32) as u32,
            offset: *offset,
            bytes: *bytes,
            address: *address,
        })
        .collect();
    let place = |area: &KeyedArea| (area.region.0, area.offset);
    let is_known = |area: &KeyedArea| {
        usize::from(area.region.0) < regions && area.offset.checked_add(area.bytes).is_some()
    };
    if !opened.iter().all(is_known) || !opened.is_sorted_by_key(place) {
        return Err(wrong("a PAIRED's rows are not those of the node's regions"));
    }
    Ok((QueuePairAddress::decode([*a, *b, *c, *d])?, opened))
}

/// A verb that a NIC has refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct RefusedVerb {
    pub(super) region: RegionId,
    pub(super) offset: u64,
    pub(super) bytes: u32,
    pub(super) needed: Rights,
}

/// The client's ASK.
pub(super) fn ask(verb: &RefusedVerb) -> [u64; ASK_WORDS] {
    [
        header(FrameKind::Ask, 0, ASK_WORDS),
        u64::from(verb.region.0)
            | u64::from(verb.needed.bits()) << 16
            | u64::from(verb.bytes) << 32,
        verb.offset,
    ]
}

/// The verb of an ASK.
pub(super) fn decode_ask([_, about, offset]: [u64; ASK_WORDS]) -> RefusedVerb {
    RefusedVerb {
        region: RegionId(about as u16),
        offset,
        bytes: (about >> 32) as u32,
        needed: Rights::from_bits((about >> 16) as u8),
    }
}

pub(super) fn header(kind: FrameKind, count: u16, words: usize) -> u64 {
    let words = words as u32;
    Header { kind, count, words }.encode()
}

fn blank() -> ibv_qp_attr {
    // SAFETY: zeros are a value of this plain structure of integers.
    unsafe { std::mem::zeroed() }
}

/// The first state: the peer may do no more than `rights`, whatever its keys say.
pub(super) fn initialise(queue_pair: &QueuePair, device: &Device, rights: Rights) -> Result<()> {
    let mut attributes = ibv_qp_attr {
        qp_state: IBV_QPS_INIT,
        port_num: device.port.number,
        qp_access_flags: access_flags(rights),
        ..blank()
    };
    let mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
    queue_pair.modify(&mut attributes, mask, "ibv_modify_qp(INIT)")
}

/// Ready to receive what `peer` sends. A message that finds no room is refused, and comes again
/// after the time of `room_timer` (see [`room_timer`]).
pub(super) fn receive(
    queue_pair: &QueuePair,
    device: &Device,
    peer: &QueuePairAddress,
    reads_at_once: u8,
    room_timer: u8,
) -> Result<()> {
    let port = &device.port;
    let mtu = (port.attributes.active_mtu as u8).min(peer.mtu);
    let mut attributes = ibv_qp_attr {
        qp_state: IBV_QPS_RTR,
        path_mtu: mtu.into(),
        dest_qp_num: peer.number,
        rq_psn: peer.first_packet,
        max_dest_rd_atomic: reads_at_once,
        min_rnr_timer: room_timer,
        ah_attr: ibv_ah_attr {
            grh: ibv_global_route {
                dgid: ibv_gid { raw: peer.gid },
                flow_label: 0,
                sgid_index: port.gid_index,
                hop_limit: 64,
                traffic_class: 0,
            },
            dlid: peer.lid,
            is_global: port.is_ethernet().into(),
            port_num: port.number,
            ..blank().ah_attr
        },
        ..blank()
    };
    let mask = IBV_QP_STATE
        | IBV_QP_AV
        | IBV_QP_PATH_MTU
        | IBV_QP_DEST_QPN
        | IBV_QP_RQ_PSN
        | IBV_QP_MAX_DEST_RD_ATOMIC
        | IBV_QP_MIN_RNR_TIMER;
    queue_pair.modify(&mut attributes, mask, "ibv_modify_qp(RTR)")
}

/// Ready to send as well, from `own` on. Who does not answer is given up within about
/// `verb_timeout`.
pub(super) fn send(
    queue_pair: &QueuePair,
    local: &QueuePairAddress,
    reads_at_once: u8,
    verb_timeout: Nanos,
) -> Result<()> {
    let mut attributes = ibv_qp_attr {
        qp_state: IBV_QPS_RTS,
        sq_psn: local.first_packet,
        timeout: answer_timer(verb_timeout),
        retry_cnt: RETRIES,
        rnr_retry: RETRIES,
        max_rd_atomic: reads_at_once,
        ..blank()
    };
    let mask = IBV_QP_STATE
        | IBV_QP_TIMEOUT
        | IBV_QP_RETRY_CNT
        | IBV_QP_RNR_RETRY
        | IBV_QP_SQ_PSN
        | IBV_QP_MAX_QP_RD_ATOMIC;
    queue_pair.modify(&mut attributes, mask, "ibv_modify_qp(RTS)")
}

/// Receives and sends nothing any more.
pub(super) fn stop(queue_pair: &QueuePair) -> Result<()> {
    let mut attributes = ibv_qp_attr {
        qp_state: IBV_QPS_ERR,
        ..blank()
    };
    queue_pair.modify(&mut attributes, IBV_QP_STATE, "ibv_modify_qp(ERR)")
}

/// The longest time that a packet may go without an answer, as the code of the verbs (4096 ns times
/// two to the code), so that all tries together take no longer than `verb_timeout`.
fn answer_timer(verb_timeout: Nanos) -> u8 {
    let each = verb_timeout / (u64::from(RETRIES) + 1);
    let code = (each / 4096).checked_ilog2().unwrap_or(0);
    // 0 would mean for ever.
    code.clamp(1, 31) as u8
}

/// The time after which a message that found no room comes again, as the code of the verbs, so that
/// it comes for the last time within about `wait`.
pub(super) fn room_timer(wait: Nanos) -> u8 {
    /// In units of 10 us, of the codes 1 to 31.
    const TIMERS: [u64; 31] = [
        1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536,
        2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
    ];
    let each = wait / 10_000 / u64::from(RETRIES);
    let fitting = TIMERS.iter().filter(|timer| **timer <= each).count();
    fitting.max(1) as u8
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn timers_stay_within_their_times() {
        for milliseconds in [1u64, 10, 300, 1000, 5000, 1 << 40] {
            let verb_timeout = milliseconds * 1_000_000;
            let timer = answer_timer(verb_timeout);
            let all = 7 * (4096u64 << timer);
            assert!(
                (1..=31).contains(&timer) && all <= verb_timeout,
                "{milliseconds}"
            );
            assert!(timer == 31 || all * 2 > verb_timeout, "{milliseconds}");
        }
        assert_eq!(answer_timer(0), 1);
        assert_eq!(room_timer(0), 1);
        assert_eq!(room_timer(200_000_000), 23, "6 times 30.72 ms");
        assert_eq!(room_timer(u64::MAX), 31);
    }

    proptest! {
        #[test]
        fn ends_arrive_as_they_were_sent(
            number in 0u32..1 << 24,
            first_packet in 0u32..1 << 24,
            gid: [u8; 16],
            lid: u16,
            mtu in 1u8..=5,
            reads_at_once in 1u8..,
            is_ethernet: bool,
            rows in proptest::collection::vec(any::<(u8, u32, u32, u32, u64)>(), 0..16),
        ) {
            let end = QueuePairAddress {
                number,
                first_packet,
                gid,
                lid,
                mtu,
                reads_at_once,
                is_ethernet,
            };
            prop_assert_eq!(decode_pair(pair(&end)), Ok(end));
            let rows = rows.into_iter().map(|(region, key, offset, bytes, address)| KeyedArea {
                region: RegionId(region.into()),
                rights: Rights::READ,
                key,
                offset: offset.into(),
                bytes: bytes.into(),
                address,
            });
            let mut rows: Vec<_> = rows.collect();
            rows.sort_by_key(|row| (row.region, row.offset));
            let frame = paired(&end, &rows);
            let regions = rows.last().map_or(0, |row| usize::from(row.region.0) + 1);
            prop_assert!(rows.is_empty() || decode_paired(&frame, regions - 1).is_err());
            prop_assert!(decode_paired(&frame[..frame.len() - 1], regions).is_err());
            prop_assert_eq!(decode_paired(&frame, regions), Ok((end, rows)));
            let verb = RefusedVerb {
                region: RegionId(lid),
                offset: u64::from(number) << 20,
                bytes: first_packet,
                needed: Rights::ATOMIC,
            };
            prop_assert_eq!(decode_ask(ask(&verb)), verb);
        }

        #[test]
        fn no_words_of_an_end_panic(words: [u64; PAIR_WORDS], more in proptest::collection::vec(any::<u64>(), 0..9)) {
            let _ = (decode_pair(words), decode_paired(&more, 2));
        }
    }
}
