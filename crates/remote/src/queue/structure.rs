//! The queue as a remote data structure: its three callbacks.

use super::item::Front;
use super::layout::{HEAD, QueueShape, SLOT_HEAD, TAIL};
use crate::error::Refusal;
use crate::sum::{bytes_of, put_bytes, sum};
use crate::{End, Found, RemoteError, RemoteStructure, Start};
use farslot_fabric::OwnerMemory;
use farslot_rpc::{Fault, put};

/// A queue's description.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Queue {
    shape: QueueShape,
}

/// Where the front was when the owner last told, or a READ found it.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Head(Option<u64>);

/// What the owner is asked for: the first byte of a request.
pub(super) const PEEK: u8 = 0;
pub(super) const PUSH: u8 = 1;
pub(super) const POP: u8 = 2;
pub(super) const LEN: u8 = 3;

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

    /// The item of a position, if these are its words.
    fn item(&self, position: u64, words: &[u64]) -> Option<Front> {
        if words.len() != self.shape.slot_words() {
            return None;
        }
        let (head, value) = words.split_at(SLOT_HEAD);
        let whole = head[0] == sum(self.shape.slot_at(position), &words[1..]);
        if !whole || head[1] != position {
            return None;
        }
        let value = bytes_of(value, usize::try_from(head[2]).ok()?)?.to_vec();
        Some(Front { position, value })
    }

    /// What a reply tells: the position of an item and its bytes, or nothing of an empty queue.
    pub(super) fn read_reply(reply: &[u8]) -> Option<Option<Front>> {
        let Some((position, value)) = reply.split_first_chunk() else {
            return reply.is_empty().then_some(None);
        };
        Some(Some(Front {
            position: u64::from_le_bytes(*position),
            value: value.to_vec(),
        }))
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

    fn front(&self, memory: &dyn OwnerMemory) -> Result<Option<Front>, Fault> {
        let (head, tail) = self.ends(memory)?;
        if head == tail {
            return Ok(None);
        }
        let mut words = vec![0; self.shape.slot_words()];
        memory.copy_out(self.shape.slot_at(head), &mut words)?;
        self.item(head, &words).ok_or(Fault::Damaged).map(Some)
    }

    fn push(&self, value: &[u8], memory: &mut dyn OwnerMemory) -> Result<u64, Fault> {
        let (head, tail) = self.ends(memory)?;
        if tail - head == u64::from(self.shape.slots) {
            return Err(Refusal::Full.into());
        }
        let mut words = vec![0; self.shape.slot_words()];
        (words[1], words[2]) = (tail, value.len() as u64);
        put_bytes(&mut words[SLOT_HEAD..], value);
        let at = self.shape.slot_at(tail);
        words[0] = sum(at, &words[1..]);
        memory.copy_in(at + 8, &words[1..])?;
        memory.store(at, words[0])?;
        memory.store(self.shape.at + TAIL, tail + 1)?;
        Ok(tail)
    }

    /// Takes the front, which readers see no more from the first store on.
    fn pop(&self, front: &Front, memory: &mut dyn OwnerMemory) -> Result<(), Fault> {
        memory.store(self.shape.slot_at(front.position), 0)?;
        memory.store(self.shape.at + HEAD, front.position + 1)?;
        Ok(())
    }
}

/// Puts an item as a reply.
fn put_front(front: Option<&Front>, reply: &mut [u8]) -> Result<usize, Fault> {
    let Some(Front { position, value }) = front else {
        return Ok(0);
    };
    let bytes = 8 + value.len();
    let room = reply.get_mut(..bytes).ok_or(Fault::NoRoom(bytes))?;
    room[..8].copy_from_slice(&position.to_le_bytes());
    room[8..].copy_from_slice(value);
    Ok(bytes)
}

impl RemoteStructure for Queue {
    type Key = ();
    type Item = Front;
    type Cache = Head;

    fn lookup_start(&self, (): &(), cache: &mut Head) -> Start {
        match cache.0 {
            Some(position) => Start::Read {
                offset: self.shape.slot_at(position),
                bytes: self.shape.slot_bytes(),
            },
            None => Start::Call,
        }
    }

    fn lookup_end(&self, (): &(), found: Found<'_>, cache: &mut Head) -> End<Front> {
        let found = match found {
            Found::Read { words, .. } => match cache.0 {
                Some(position) => self.item(position, words).map(Some),
                None => None,
            },
            Found::Reply(reply) => Self::read_reply(reply),
        };
        match found {
            Some(Some(front)) => {
                cache.0 = Some(front.position);
                End::Found(front)
            }
            Some(None) => {
                cache.0 = None;
                End::Absent
            }
            None => End::Unknown,
        }
    }

    fn lookup_request(&self, (): &()) -> Vec<u8> {
        vec![PEEK]
    }

    fn reply_bytes(&self) -> usize {
        8 + self.shape.value_bytes as usize
    }

    fn rpc_handler(
        &self,
        request: &[u8],
        memory: &mut dyn OwnerMemory,
        reply: &mut [u8],
    ) -> Result<usize, Fault> {
        match request {
            [PEEK] => put_front(self.front(memory)?.as_ref(), reply),
            [PUSH, value @ ..] if value.len() <= self.shape.value_bytes as usize => {
                if reply.len() < 8 {
                    return Err(Fault::NoRoom(8));
                }
                put(reply, &self.push(value, memory)?.to_le_bytes())
            }
            [POP] => {
                let front = self.front(memory)?;
                // Before it is taken: an item that the reply has no room for stays.
                let bytes = put_front(front.as_ref(), reply)?;
                if let Some(front) = front {
                    self.pop(&front, memory)?;
                }
                Ok(bytes)
            }
            [LEN] => {
                let (head, tail) = self.ends(memory)?;
                put(reply, &(tail - head).to_le_bytes())
            }
            _ => Err(Refusal::Malformed.into()),
        }
    }
}

impl Head {
    /// Notes that the item of a position was taken.
    pub(super) fn taken(&mut self, position: u64) {
        self.0 = Some(position + 1);
    }
}
