//! The queue as a remote data structure: its three callbacks.

use super::layout::{HEAD, QueueShape, SLOT_HEAD, TAIL};
use super::wire::{
    MOST_BYTES, MOST_ITEMS, QueueItem, Request, item_bytes, place_of, positions_of, put_item,
    read_told,
};
use crate::error::RefusalReason;
use crate::sum::{bytes_of, put_bytes, sum};
use crate::{Found, LookupVerdict, RemoteError, RemoteStructure, Start};
use farslot_fabric::OwnerMemory;
use farslot_rpc::{Fault, put};
use std::ops::Range;

/// A queue's description.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Queue {
    shape: QueueShape,
}

/// Where the front was when the owner last told, or a READ found it.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct FrontHint(Option<u64>);

impl Queue {
    /// The queue of a shape.
    ///
    /// # Errors
    /// [`RemoteError::BadShape`].
    pub fn new(shape: QueueShape) -> Result<Self, RemoteError> {
        shape.check()?;
        Ok(Self { shape })
    }

    /// How it is laid out.
    #[must_use]
    pub fn shape(&self) -> &QueueShape {
        &self.shape
    }

    /// Whether a request changes nothing.
    #[must_use]
    pub fn is_lookup(request: &[u8]) -> bool {
        matches!(
            Request::decode(request),
            Some(Request::Tell { .. } | Request::Count)
        )
    }

    /// Room for a reply of several items: one at least.
    pub(super) fn room(&self) -> usize {
        8 + 8 + MOST_BYTES.max(item_bytes(self.shape.value_bytes as usize))
    }

    /// The item of a position, if these are its words.
    fn item(&self, position: u64, words: &[u64]) -> Option<QueueItem> {
        if words.len() != self.shape.slot_words() {
            return None;
        }
        let (head, value) = words.split_at(SLOT_HEAD);
        let is_intact = head[0] == sum(self.shape.slot_at(position), &words[1..]);
        if !is_intact || head[1] != position {
            return None;
        }
        let value = bytes_of(value, usize::try_from(head[2]).ok()?)?.to_vec();
        Some(QueueItem { position, value })
    }

    /// The positions of the front and behind the back.
    fn ends(&self, memory: &dyn OwnerMemory) -> Result<(u64, u64), Fault> {
        let head = memory.load(self.shape.at + HEAD)?;
        let tail = memory.load(self.shape.at + TAIL)?;
        match tail.checked_sub(head) {
            Some(items) if items <= self.shape.slots.into() => Ok((head, tail)),
            _ => Err(Fault::Damaged),
        }
    }

    /// Puts items of positions one after the other, as far as there is room; returns how many. One
    /// that does not fit alone is none.
    fn put_items(
        &self,
        memory: &dyn OwnerMemory,
        positions: Range<u64>,
        room: usize,
        to: &mut Vec<u8>,
    ) -> Result<u64, Fault> {
        let mut words = vec![0; self.shape.slot_words()];
        let mut number = 0;
        for position in positions.take(MOST_ITEMS) {
            memory.copy_out(self.shape.slot_at(position), &mut words)?;
            let item = self.item(position, &words).ok_or(Fault::Damaged)?;
            let before = if number == 0 { 8 } else { 0 };
            let bytes = to.len() + before + item_bytes(item.value.len());
            match number {
                0 if bytes > room => return Err(Fault::NoRoom(bytes)),
                0 => to.extend_from_slice(&position.to_le_bytes()),
                _ if bytes > room => break,
                _ => {}
            }
            put_item(&item.value, to);
            number += 1;
        }
        Ok(number)
    }

    fn tell(
        &self,
        memory: &dyn OwnerMemory,
        (place, most): (u64, u32),
        reply: &mut [u8],
    ) -> Result<usize, Fault> {
        let Range { start, end } = positions_of(place, self.ends(memory)?);
        let mut items = vec![0; 8];
        let asked = start..end.min(start.saturating_add(most.into()));
        let next = start + self.put_items(memory, asked, reply.len(), &mut items)?;
        items[..8].copy_from_slice(&place_of(next, end).to_le_bytes());
        put(reply, &items)
    }

    fn add(&self, values: &[&[u8]], memory: &mut dyn OwnerMemory) -> Result<u64, Fault> {
        let (head, tail) = self.ends(memory)?;
        let next = tail
            .checked_add(values.len() as u64)
            .ok_or(Fault::Damaged)?;
        if next - head > self.shape.slots.into() {
            return Err(RefusalReason::Full.into());
        }
        let mut words = vec![0; self.shape.slot_words()];
        for (position, value) in (tail..).zip(values) {
            (words[1], words[2]) = (position, value.len() as u64);
            put_bytes(&mut words[SLOT_HEAD..], value);
            let at = self.shape.slot_at(position);
            words[0] = sum(at, &words[1..]);
            memory.copy_in(at + 8, &words[1..])?;
            memory.store(at, words[0])?;
        }
        memory.store(self.shape.at + TAIL, next)?;
        Ok(tail)
    }

    /// Takes the first items, which readers see no more from the first store on.
    fn take(
        &self,
        most: u32,
        memory: &mut dyn OwnerMemory,
        reply: &mut [u8],
    ) -> Result<usize, Fault> {
        let (head, tail) = self.ends(memory)?;
        let asked = head..tail.min(head.saturating_add(most.into()));
        let mut items = Vec::new();
        // Before they are taken: what the reply has no room for stays.
        let taken = self.put_items(memory, asked, reply.len(), &mut items)?;
        for position in head..head + taken {
            memory.store(self.shape.slot_at(position), 0)?;
        }
        if taken > 0 {
            memory.store(self.shape.at + HEAD, head + taken)?;
        }
        put(reply, &items)
    }
}

impl RemoteStructure for Queue {
    type Key = ();
    type Item = QueueItem;
    type Cache = FrontHint;

    fn lookup_start(&self, (): &(), cache: &mut FrontHint) -> Start {
        match cache.0 {
            Some(position) => Start::Read {
                offset: self.shape.slot_at(position),
                bytes: self.shape.slot_bytes(),
            },
            None => Start::Call,
        }
    }

    fn lookup_end(
        &self,
        (): &(),
        found: Found<'_>,
        cache: &mut FrontHint,
    ) -> LookupVerdict<QueueItem> {
        let found = match found {
            Found::Read { words, .. } => match cache.0 {
                Some(position) => self.item(position, words).map(Some),
                None => None,
            },
            Found::Reply(reply) => read_told(reply).map(|(_, items)| items.into_iter().next()),
        };
        match found {
            Some(Some(front)) => {
                cache.0 = Some(front.position);
                LookupVerdict::Found(front)
            }
            Some(None) => {
                cache.0 = None;
                LookupVerdict::Absent
            }
            None => LookupVerdict::Unknown,
        }
    }

    fn lookup_request(&self, (): &()) -> Vec<u8> {
        Request::Tell { place: 0, most: 1 }.encode()
    }

    fn reply_bytes(&self) -> usize {
        8 + 8 + item_bytes(self.shape.value_bytes as usize)
    }

    fn rpc_handler(
        &self,
        request: &[u8],
        memory: &mut dyn OwnerMemory,
        reply: &mut [u8],
    ) -> Result<usize, Fault> {
        match Request::decode(request).ok_or(RefusalReason::Malformed)? {
            Request::Tell { place, most } => self.tell(memory, (place, most), reply),
            Request::Add(values) => {
                let limit = self.shape.value_bytes as usize;
                if values.iter().any(|value| value.len() > limit) {
                    return Err(RefusalReason::Malformed.into());
                }
                if reply.len() < 8 {
                    return Err(Fault::NoRoom(8));
                }
                put(reply, &self.add(&values, memory)?.to_le_bytes())
            }
            Request::Take { most } => self.take(most, memory, reply),
            Request::Count => {
                let (head, tail) = self.ends(memory)?;
                put(reply, &(tail - head).to_le_bytes())
            }
        }
    }
}

impl FrontHint {
    /// Notes that the item of a position was taken.
    pub(super) fn taken(&mut self, position: u64) {
        self.0 = Some(position + 1);
    }
}
