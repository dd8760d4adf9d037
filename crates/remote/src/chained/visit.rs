//! Visits of all keys, some buckets at a time.
//!
//! ```text
//! reply    | the place to go on with, or 0, 64 bits | record | record | ...
//! record   | key length, 16 | value length, 16 | key | value |
//! place    | bucket, 32 bits | tag, 16 | 0, 16 |
//! ```
//! One bucket with its chain may have more than a reply has room for. So its keys are told in the
//! order of their *tags*, 16 bits of their hashes, and a place is a bucket and the tag from which
//! on it is to be told: whatever becomes of the bucket's other keys meanwhile, a key keeps its tag.

use super::layout::Slot;
use super::owner::Owner;
use super::walk::ChainCursor;
use farslot_rpc::Fault;

/// Bytes of a reply that a client asks with: a record, or several of one tag, may need more.
pub(super) const VISIT_ROOM: usize = 32 << 10;
/// Slots that are looked at for a reply, but for the last bucket's: others of the node wait
/// meanwhile.
const MOST_SLOTS: usize = 1024;

/// Where a visit goes on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct VisitPlace {
    bucket: u32,
    /// Keys of lower tags were told.
    tag: u16,
}

impl VisitPlace {
    const fn of_number(number: u64) -> Self {
        Self {
            bucket: number as u32,
            tag: (number >> 32) as u16,
        }
    }

    const fn number(self) -> u64 {
        self.bucket as u64 | (self.tag as u64) << 32
    }
}

/// A record of a bucket.
struct Record {
    tag: u16,
    slot: u64,
    /// Bytes of it in a reply.
    bytes: usize,
}

/// What a bucket has for a visit.
#[derive(Default)]
struct BucketContent {
    records: Vec<Record>,
    /// Slots that had to be looked at.
    slots: usize,
}

impl Owner<'_> {
    /// Puts the keys from a place on for which there is room.
    pub(super) fn visit(&self, from: u64, reply: &mut [u8]) -> Result<usize, Fault> {
        let buckets = u64::from(self.shape.buckets) + self.extra()?;
        let mut payload = vec![0; 8];
        let (mut place, mut looked) = (VisitPlace::of_number(from), 0);
        let next = loop {
            if u64::from(place.bucket) >= buckets {
                break 0;
            }
            if looked >= MOST_SLOTS {
                break place.number();
            }
            let BucketContent { mut records, slots } = self.content(place)?;
            looked += slots;
            records.sort_unstable_by_key(|record| record.tag);
            let groups = records.chunk_by(|record, other| record.tag == other.tag);
            if let Some(tag) = self.put_groups(groups, reply.len(), &mut payload)? {
                break VisitPlace { tag, ..place }.number();
            }
            place = VisitPlace {
                bucket: place.bucket + 1,
                tag: 0,
            };
        };
        payload[..8].copy_from_slice(&next.to_le_bytes());
        farslot_rpc::put(reply, &payload)
    }

    /// The records of a bucket from a place on.
    fn content(&self, place: VisitPlace) -> Result<BucketContent, Fault> {
        let at = self.shape.bucket_at(place.bucket.into());
        let mut content = BucketContent::default();
        for slot in 0..self.shape.slots {
            self.look_at(self.shape.slot_at(at, slot), place.tag, &mut content)?;
        }
        let mut chain = ChainCursor::of(at);
        while let Some(spot) = self.next_in(&mut chain)? {
            self.look_at(spot.slot, place.tag, &mut content)?;
        }
        Ok(content)
    }

    fn look_at(&self, at: u64, from: u16, content: &mut BucketContent) -> Result<(), Fault> {
        content.slots += 1;
        let words = self.words(at)?;
        let slot = Slot(&words);
        if slot.check() == 0 || slot.is_reserved() {
            return Ok(());
        }
        let key = slot.key().ok_or(Fault::Damaged)?;
        let value = slot.value(self.shape).ok_or(Fault::Damaged)?;
        // Bits that tell no bucket.
        let tag = (self.shape.hash(key) >> 48) as u16;
        if tag >= from {
            content.records.push(Record {
                tag,
                slot: at,
                bytes: 4 + key.len() + value.len(),
            });
        }
        Ok(())
    }

    /// Puts the records of one tag after the other; returns the tag of those for which there is no
    /// room any more.
    fn put_groups<'r>(
        &self,
        groups: impl Iterator<Item = &'r [Record]>,
        room: usize,
        payload: &mut Vec<u8>,
    ) -> Result<Option<u16>, Fault> {
        for group in groups {
            let bytes = group.iter().map(|record| record.bytes).sum::<usize>();
            if payload.len() + bytes > room {
                if payload.len() == 8 {
                    return Err(Fault::NoRoom(8 + bytes));
                }
                return Ok(Some(group[0].tag));
            }
            for record in group {
                self.put_record(record, payload)?;
            }
        }
        Ok(None)
    }

    fn put_record(&self, record: &Record, payload: &mut Vec<u8>) -> Result<(), Fault> {
        let words = self.words(record.slot)?;
        let key = Slot(&words).key().ok_or(Fault::Damaged)?;
        let value = Slot(&words).value(self.shape).ok_or(Fault::Damaged)?;
        payload.extend_from_slice(&(key.len() as u16).to_le_bytes());
        payload.extend_from_slice(&(value.len() as u16).to_le_bytes());
        payload.extend_from_slice(key);
        payload.extend_from_slice(value);
        Ok(())
    }
}

/// Visits what a reply tells; returns where to go on. Nothing of a reply that makes no sense, as
/// one that leads back.
pub(super) fn read_visited(
    from: u64,
    reply: &[u8],
    visit: &mut impl FnMut(&[u8], &[u8]),
) -> Option<Option<u64>> {
    let (next, mut rest) = reply.split_first_chunk()?;
    let next = u64::from_le_bytes(*next);
    let place = VisitPlace::of_number(next);
    let leads_on = place.number() == next && place > VisitPlace::of_number(from);
    if next != 0 && !leads_on {
        return None;
    }
    while !rest.is_empty() {
        let (&[a, b, c, d], records) = rest.split_first_chunk()?;
        let (key, records) = records.split_at_checked(u16::from_le_bytes([a, b]).into())?;
        let (value, records) = records.split_at_checked(u16::from_le_bytes([c, d]).into())?;
        visit(key, value);
        rest = records;
    }
    Some((next != 0).then_some(next))
}
