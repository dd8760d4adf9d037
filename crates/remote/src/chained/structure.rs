//! The table as a remote data structure: its three callbacks.

use super::cache::Cache;
use super::item::VersionedValue;
use super::layout::{Meta, Shape, Slot, stamp_of};
use super::owner::Owner;
use super::request::{Answer, ChainedRequest, Operation, Outcome};
use super::witness::{Observation, Witness};
use crate::error::RefusalReason;
use crate::{Found, Lock, LookupVerdict, RemoteError, RemoteStructure, Start};
use farslot_fabric::OwnerMemory;
use farslot_rpc::Fault;

/// A table's description.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Table {
    shape: Shape,
}

impl Table {
    /// The table of a shape.
    ///
    /// # Errors
    /// [`RemoteError::BadShape`].
    pub fn new(shape: Shape) -> Result<Self, RemoteError> {
        shape.check()?;
        Ok(Self { shape })
    }

    /// How it is laid out.
    #[must_use]
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Whether a request changes nothing.
    #[must_use]
    pub fn is_lookup(request: &[u8]) -> bool {
        let lookups = [Operation::Get as u8, Operation::Visit as u8];
        request
            .first()
            .is_some_and(|operation| lookups.contains(operation))
    }

    /// What the owner's reply tells: the outcome, the item, and who holds it. Where a chained key
    /// is, is remembered.
    pub(super) fn read_reply(
        &self,
        key: &[u8],
        reply: &[u8],
        cache: &mut Cache,
    ) -> Option<(Outcome, Option<VersionedValue>, Option<Lock>)> {
        let answer = Answer::decode(reply)?;
        // Buckets that there are not would be READ past the table's end.
        let most = self.shape.most_buckets - self.shape.buckets;
        if answer.extra > most.into() {
            return None;
        }
        cache.extra = answer.extra;
        let holder = answer.slot.get(1).and_then(|word| Lock::of_word(*word));
        if answer.slot.len() < self.shape.slot_words() {
            return Some((answer.outcome, None, holder));
        }
        let item = self.item(answer.at, Slot(&answer.slot))?;
        let chains = self.shape.bucket_at(self.shape.most_buckets.into());
        let last = self.shape.at + self.shape.bytes() - self.shape.slot_bytes();
        if answer.outcome == Outcome::Present && (chains..=last).contains(&answer.at) {
            cache.remember(key, answer.at);
        } else {
            cache.forget(key);
        }
        Some((answer.outcome, Some(item), holder))
    }

    fn item(&self, at: u64, slot: Slot<'_>) -> Option<VersionedValue> {
        Some(VersionedValue {
            value: slot.value(&self.shape)?.to_vec(),
            version: slot.version(),
            lock: Lock::of_word(slot.lock()),
            at,
        })
    }

    /// What the key's slot tells.
    pub(super) fn observe_slot(&self, at: u64, slot: Slot<'_>) -> Option<Observation> {
        let item = match slot.is_reserved() {
            true => None,
            false => Some(self.item(at, slot)?),
        };
        Some(Observation {
            item,
            lock: Lock::of_word(slot.lock()),
            witness: Witness {
                at,
                word: slot.check(),
                removals: 0,
            },
        })
    }

    /// What a bucket without the key tells.
    fn observe_absence(at: u64, stamp: u64, meta: u64) -> Observation {
        Observation {
            item: None,
            lock: None,
            witness: Witness {
                at,
                word: stamp,
                removals: Meta::of_word(meta).removals,
            },
        }
    }

    /// What a READ of one slot tells.
    fn judge_slot(&self, key: &[u8], at: u64, words: &[u64]) -> Option<Observation> {
        let slot = Slot(words);
        if !slot.is_of(key) || !slot.is_whole(at) {
            return None;
        }
        self.observe_slot(at, slot)
    }

    /// What a READ of a bucket tells.
    fn judge_bucket(&self, key: &[u8], at: u64, words: &[u64]) -> Option<Observation> {
        let (head, slots) = words.split_at(2);
        let places = (0..self.shape.slots).map(|slot| self.shape.slot_at(at, slot));
        let slots = slots.chunks_exact(self.shape.slot_words());
        let mut is_intact = true;
        for (place, slot) in places.zip(slots.clone()) {
            if let Some(observation) = self.judge_slot(key, place, slot) {
                return Some(observation);
            }
            is_intact &= Slot(slot).check() == 0 || Slot(slot).is_whole(place);
        }
        let meta = Meta::of_word(head[1]);
        let bucket = (at - self.shape.bucket_at(0)) / self.shape.bucket_bytes();
        let checks = slots.map(|slot| Slot(slot).check());
        let proves = is_intact
            && meta.first == 0
            && head[0] == stamp_of(at, head[1], checks)
            && self.shape.is_for(bucket, meta.depth, self.shape.hash(key));
        proves.then(|| Self::observe_absence(at, head[0], head[1]))
    }

    /// What a lookup has seen of a key; nothing if what was READ does not tell, or a reply makes no
    /// sense.
    pub(super) fn observe(
        &self,
        key: &[u8],
        found: Found<'_>,
        cache: &mut Cache,
    ) -> Option<Observation> {
        match found {
            Found::Read { offset, words } if words.len() == self.shape.slot_words() => {
                let seen = self.judge_slot(key, offset, words);
                if seen.is_none() {
                    cache.forget(key);
                }
                seen
            }
            Found::Read { offset, words } => self.judge_bucket(key, offset, words),
            Found::Reply(reply) => {
                self.read_reply(key, reply, cache)?;
                self.observe_answer(&Answer::decode(reply)?)
            }
        }
    }

    /// What the owner's answer to a lookup tells.
    pub(super) fn observe_answer(&self, answer: &Answer<'_>) -> Option<Observation> {
        match (answer.outcome, &*answer.slot) {
            (Outcome::Absent, &[stamp, meta]) => {
                Some(Self::observe_absence(answer.at, stamp, meta))
            }
            (Outcome::Absent | Outcome::Present, slot) if slot.len() == self.shape.slot_words() => {
                self.observe_slot(answer.at, Slot(slot))
            }
            _ => None,
        }
    }
}

impl RemoteStructure for Table {
    type Key = [u8];
    /// Of an absent key as well: what shows later that it still is.
    type Item = Observation;
    type Cache = Cache;

    fn lookup_start(&self, key: &[u8], cache: &mut Cache) -> Start {
        if let Some(offset) = cache.place(key) {
            let bytes = self.shape.slot_bytes() as usize;
            return Start::Read { offset, bytes };
        }
        let bucket = self.shape.bucket_of(self.shape.hash(key), cache.extra);
        Start::Read {
            offset: self.shape.bucket_at(bucket),
            bytes: self.shape.bucket_bytes() as usize,
        }
    }

    fn lookup_end(
        &self,
        key: &[u8],
        found: Found<'_>,
        cache: &mut Cache,
    ) -> LookupVerdict<Observation> {
        let seen = self.observe(key, found, cache);
        seen.map_or(LookupVerdict::Unknown, LookupVerdict::Found)
    }

    fn lookup_request(&self, key: &[u8]) -> Vec<u8> {
        let request = ChainedRequest {
            operation: Operation::Get,
            lock: 0,
            key,
            value: &[],
        };
        request.encode()
    }

    fn reply_bytes(&self) -> usize {
        Answer::most_bytes(&self.shape)
    }

    fn rpc_handler(
        &self,
        request: &[u8],
        memory: &mut dyn OwnerMemory,
        reply: &mut [u8],
    ) -> Result<usize, Fault> {
        let request =
            ChainedRequest::decode(request, &self.shape).ok_or(RefusalReason::Malformed)?;
        let room = Answer::most_bytes(&self.shape);
        if reply.len() < room {
            return Err(Fault::NoRoom(room));
        }
        let shape = &self.shape;
        if request.operation == Operation::Visit {
            return Owner { shape, memory }.visit(request.lock, reply);
        }
        let answer = Owner { shape, memory }.execute(&request)?;
        answer.encode(reply).ok_or(Fault::NoRoom(room))
    }
}
