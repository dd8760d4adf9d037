//! The bytes of a snapshot's file. No other file takes them apart.
//!
//! ```text
//! file   | magic, 8 bytes | version, 4 | length of the JSON, 4 | sum, 8 | JSON of the head |
//!        | frame, payload | frame, payload | ... | last frame |
//! frame  | kind, 4 | partition, 4 | next, 8 | records, 8 | bytes, 8 | sum of the payload, 8 |
//!        | chain, 8 |
//! payload  records: | length of the key, 4 | length of the value, 4 | key | value |
//! ```
//! Numbers are little-endian, sums are XXH3 with 64 bits. The sum of the head is that of the JSON,
//! seeded with the sum of the 16 bytes before it. A frame's *chain* is the sum of its other bytes,
//! seeded with the chain of the frame before it, or with the sum of the head. So the chain of the
//! last frame is a checksum of the whole file, and can be computed from the frames alone. The last
//! frame has the totals, and nothing may follow it.
//!
//! `next` is where the scan of the partition continues behind the block: [`MIDDLE`] if the block
//! ends within a piece of the scan, [`DONE`] behind the last one.

use crate::Result;
use crate::catalog::record::{PartitionMap, PartitionNode, Scheme};
use crate::names::check_name;
use crate::slot_map::{MOST_NODES, SlotMap};
use farslot_index::Record;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

const MAGIC: [u8; 8] = *b"farsnap\n";
/// The version of the format.
pub(super) const VERSION: u32 = 2;
/// Bytes before the JSON.
pub(super) const PREFIX_BYTES: usize = 24;
/// The most bytes of the JSON: several times what 256 partitions need.
const MOST_JSON: u32 = 1 << 20;
/// Bytes of a frame.
pub(super) const FRAME_BYTES: usize = 48;
/// A block is written once it has so many bytes: it is longer by one record at most.
pub(super) const BLOCK_BYTES: usize = 1 << 20;
/// Bytes before each record.
const LENGTHS_BYTES: usize = 8;

/// The `next` of a block behind which more of the same piece of the scan follows. No piece but the
/// first starts at 0.
pub(super) const MIDDLE: u64 = 0;
/// The `next` of a partition's last block.
pub(super) const DONE: u64 = u64::MAX;

/// What the file says of the table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct SnapshotHead {
    /// Drawn when the snapshot was begun.
    pub(super) id: u64,
    /// The table's name.
    pub(super) table: String,
    /// When the snapshot was begun, in seconds of Unix time.
    pub(super) begun: u64,
    /// The ids of the table's records, by partition.
    pub(super) sources: Vec<u64>,
    /// The schemes, by partition.
    pub(super) schemes: Vec<Scheme>,
    /// Which partition a key belongs to, if there are several.
    pub(super) slots: Option<SlotMap>,
    /// Whether the table was made of records that were there before it, and never changes.
    pub(super) built: bool,
    /// What told whether records have moved, when it was begun, by partition
    /// ([`Admin::Moves`](farslot_index::Admin::Moves)): none, where they do not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) moves: Vec<u64>,
    /// Which part of a table over several nodes this is, as one of them has written its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) part: Option<PartOf>,
    /// How the table is sharded over several nodes, if this is all of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) sharded: Option<ShardOrigin>,
    /// The nodes as they were when the snapshot was begun, by partition: none in files of versions
    /// of this program that did not note them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) nodes: Vec<PartitionNode>,
    /// The partitions that this lacks, because their nodes had lost them when it was begun.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) missing: Vec<u16>,
}

/// A table over several nodes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct ShardOrigin {
    /// That of the whole table: its parts have the same.
    pub(super) creation: u64,
    /// Whether the table was made of records that were there before it.
    pub(super) prebuilt: bool,
    /// How it is sharded.
    pub(super) map: PartitionMap,
}

/// What makes a table on one node the part of one over several.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct PartOf {
    /// The part's number.
    pub(super) number: u16,
    #[serde(flatten)]
    pub(super) of: ShardOrigin,
}

impl SnapshotHead {
    /// Refuses what no table has.
    pub(super) fn check(&self) -> std::result::Result<(), String> {
        let checked = || -> Result<()> {
            check_name(&self.table)?;
            self.schemes.iter().try_for_each(Scheme::check)
        };
        checked().map_err(|error| error.to_string())?;
        let partitions = self.schemes.len();
        if !(1..=MOST_NODES).contains(&partitions) || self.sources.len() != partitions {
            let ids = self.sources.len();
            return Err(format!("{partitions} schemes and {ids} ids"));
        }
        let mapped = self.slots.as_ref().map_or(1, SlotMap::partitions);
        if usize::from(mapped) != partitions {
            return Err(format!(
                "{partitions} partitions, of which a map has {mapped}"
            ));
        }
        if let Some(part) = &self.part
            && (usize::from(part.number) >= part.of.map.nodes.len()
                || usize::from(part.of.map.slots.partitions()) != part.of.map.nodes.len()
                || partitions != 1)
        {
            let (number, nodes) = (part.number, part.of.map.nodes.len());
            return Err(format!("part {number} of a table over {nodes} nodes"));
        }
        if let Some(sharded) = &self.sharded
            && (self.part.is_some()
                || sharded.map.nodes.len() != partitions
                || self.slots.as_ref() != Some(&sharded.map.slots))
        {
            let nodes = sharded.map.nodes.len();
            return Err(format!(
                "{partitions} partitions sharded over {nodes} nodes"
            ));
        }
        if !self.nodes.is_empty() && self.nodes.len() != partitions {
            let nodes = self.nodes.len();
            return Err(format!("{partitions} partitions on {nodes} nodes"));
        }
        let is_none = |number: &&u16| usize::from(**number) >= self.nodes.len();
        if let Some(number) = self.missing.iter().find(is_none) {
            return Err(format!("without part {number} of {partitions}"));
        }
        let kind = self.schemes[0].kind();
        match self.schemes.iter().find(|scheme| scheme.kind() != kind) {
            Some(other) => Err(format!("a {kind} table with a {} partition", other.name())),
            None => Ok(()),
        }
    }

    /// The table over several nodes that this is, or is a part of.
    pub(super) fn shard_origin(&self) -> Option<&ShardOrigin> {
        self.part
            .as_ref()
            .map(|part| &part.of)
            .or(self.sharded.as_ref())
    }

    /// The most bytes of a block.
    pub(super) fn most_block(&self) -> u64 {
        let records = self.schemes.iter().map(|scheme| {
            let (key, value) = scheme.stored_sizes();
            key.most() as u64 + value.most() as u64
        });
        (BLOCK_BYTES + LENGTHS_BYTES) as u64 + records.max().unwrap_or(0)
    }

    /// The bytes of the file up to the first frame, and their sum.
    pub(super) fn encode(&self) -> std::result::Result<(Vec<u8>, u64), String> {
        let json = serde_json::to_vec(self).map_err(|error| error.to_string())?;
        let length = u32::try_from(json.len()).unwrap_or(u32::MAX);
        if length > MOST_JSON {
            return Err(format!("{length} bytes of a head, of at most {MOST_JSON}"));
        }
        let mut bytes = [&MAGIC[..], &VERSION.to_le_bytes(), &length.to_le_bytes()].concat();
        let sum = sum_of_head(&bytes, &json);
        bytes.extend_from_slice(&sum.to_le_bytes());
        bytes.extend_from_slice(&json);
        Ok((bytes, sum))
    }
}

fn sum_of_head(before: &[u8], json: &[u8]) -> u64 {
    xxh3_64_with_seed(json, xxh3_64(before))
}

/// What stands before the JSON of the head.
pub(super) struct Prefix<'b> {
    bytes: &'b [u8; PREFIX_BYTES],
    /// Bytes of the JSON.
    pub(super) length: u32,
}

impl<'b> Prefix<'b> {
    /// Nothing if this is not the start of a snapshot.
    pub(super) fn decode(bytes: &'b [u8; PREFIX_BYTES]) -> Option<Self> {
        let length = u32_at(bytes, 12);
        (bytes[..8] == MAGIC && length <= MOST_JSON).then_some(Self { bytes, length })
    }

    /// The sum that the file says, and that of what is there.
    pub(super) fn sums(&self, json: &[u8]) -> (u64, u64) {
        (u64_at(self.bytes, 16), sum_of_head(&self.bytes[..16], json))
    }

    /// The version of the format.
    pub(super) fn version(&self) -> u32 {
        u32_at(self.bytes, 8)
    }
}

/// What a frame is of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Block = 1,
    /// The last frame.
    End = 2,
}

/// What stands before a payload; at the end of the file, the totals.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Frame {
    pub(super) kind: Kind,
    pub(super) partition: u32,
    pub(super) next: u64,
    /// Records of the payload, or of all.
    pub(super) records: u64,
    /// Bytes of the payload, or of all.
    pub(super) bytes: u64,
    /// The payload's sum; 0 at the end.
    pub(super) sum: u64,
}

impl Frame {
    /// The bytes, and the chain behind the frame.
    pub(super) fn encode(&self, before: u64) -> ([u8; FRAME_BYTES], u64) {
        let mut bytes = [0; FRAME_BYTES];
        bytes[..4].copy_from_slice(&(self.kind as u32).to_le_bytes());
        bytes[4..8].copy_from_slice(&self.partition.to_le_bytes());
        let words = [self.next, self.records, self.bytes, self.sum];
        for (to, word) in bytes[8..40].chunks_exact_mut(8).zip(words) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        let chain = xxh3_64_with_seed(&bytes[..40], before);
        bytes[40..].copy_from_slice(&chain.to_le_bytes());
        (bytes, chain)
    }

    /// What the bytes say, unchecked; nothing if they are no frame.
    pub(super) fn parse(bytes: &[u8; FRAME_BYTES]) -> Option<Self> {
        let kind = match u32_at(bytes, 0) {
            1 => Kind::Block,
            2 => Kind::End,
            _ => return None,
        };
        Some(Self {
            kind,
            partition: u32_at(bytes, 4),
            next: u64_at(bytes, 8),
            records: u64_at(bytes, 16),
            bytes: u64_at(bytes, 24),
            sum: u64_at(bytes, 32),
        })
    }

    /// The frame and the chain behind it.
    ///
    /// # Errors
    /// The chain that it should have, and the one that it has.
    pub(super) fn decode(
        bytes: &[u8; FRAME_BYTES],
        before: u64,
    ) -> std::result::Result<(Self, u64), (u64, u64)> {
        let chain = u64_at(bytes, 40);
        let expected = xxh3_64_with_seed(&bytes[..40], before);
        match Self::parse(bytes) {
            Some(frame) if chain == expected => Ok((frame, chain)),
            _ => Err((expected, chain)),
        }
    }
}

/// Records that will be a payload.
#[derive(Default)]
pub(super) struct Payload {
    pub(super) bytes: Vec<u8>,
    pub(super) records: u64,
}

impl Payload {
    pub(super) fn push(&mut self, key: &[u8], value: &[u8]) {
        self.records += 1;
        for part in [key, value] {
            // A field's size has 32 bits.
            let length = part.len() as u32;
            self.bytes.extend_from_slice(&length.to_le_bytes());
        }
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value);
    }

    pub(super) fn is_long(&self) -> bool {
        self.bytes.len() >= BLOCK_BYTES
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.records = 0;
    }
}

/// The records of a payload; nothing in place of the first that is not whole, and no more then.
pub(super) struct Records<'p>(pub(super) &'p [u8]);

impl<'p> Iterator for Records<'p> {
    type Item = Option<Record<'p>>;

    fn next(&mut self) -> Option<Self::Item> {
        let bytes = std::mem::take(&mut self.0);
        if bytes.is_empty() {
            return None;
        }
        let record = || {
            let (lengths, rest) = bytes.split_at_checked(LENGTHS_BYTES)?;
            let (key, rest) = rest.split_at_checked(u32_at(lengths, 0) as usize)?;
            let (value, rest) = rest.split_at_checked(u32_at(lengths, 4) as usize)?;
            Some(((key, value), rest))
        };
        Some(record().map(|(record, rest)| {
            self.0 = rest;
            record
        }))
    }
}

/// The sum of a payload.
pub(super) fn sum_of(payload: &[u8]) -> u64 {
    xxh3_64(payload)
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let word = bytes.get(at..).and_then(|bytes| bytes.first_chunk());
    word.map_or(0, |word| u32::from_le_bytes(*word))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let word = bytes.get(at..).and_then(|bytes| bytes.first_chunk());
    word.map_or(0, |word| u64::from_le_bytes(*word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_and_records_come_back_and_others_do_not() {
        let frame = Frame {
            kind: Kind::Block,
            partition: 3,
            next: 77,
            records: 2,
            bytes: 30,
            sum: 5,
        };
        let (bytes, chain) = frame.encode(9);
        assert_eq!(Frame::decode(&bytes, 9), Ok((frame, chain)));
        assert!(Frame::decode(&bytes, 8).is_err(), "behind another frame");
        for at in 0..FRAME_BYTES {
            let mut other = bytes;
            other[at] ^= 1;
            assert!(Frame::decode(&other, 9).is_err(), "byte {at}");
        }
        let mut payload = Payload::default();
        payload.push(b"key", b"value");
        payload.push(b"k", b"");
        let records: Option<Vec<_>> = Records(&payload.bytes).collect();
        assert_eq!(
            records,
            Some(vec![(&b"key"[..], &b"value"[..]), (b"k", b"")])
        );
        for end in (1..payload.bytes.len()).filter(|end| *end != 16) {
            assert_eq!(Records(&payload.bytes[..end]).last(), Some(None), "{end}");
        }
    }
}
