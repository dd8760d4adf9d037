//! RACE as paper 001 compares itself with it: fixed size, one client, and the records themselves in
//! the slots, so that a lookup moves 4d whole records (its Table I). For use there is
//! [`farslot::index::race`], with records out of band.
//!
//! ```text
//! 0        bucket 0: d slots | bucket 1 | ...       in groups of three: main, overflow, main
//! slot     | 0 if free, else 1 | key | value |      fields of fixed sizes, to a multiple of 8
//! ```
//! A lookup reads both places of a key, in one batch: a main bucket and the overflow bucket beside
//! it, each. A write reads them, then writes the slot: two round trips. Keys without room go to a
//! stash in the client's memory. Operations may run side by side on different keys; two on one key,
//! as experiments never have them, would both insert it.

use super::race::{Pair, pairs};
use farslot::fabric::{Buffer, Endpoint, EndpointExt, NodeId, RemoteAddr, both};
use farslot::index::{
    ClientState, Cursor, Hasher, IndexError, Occupancy, Operation, Outcome, Result, SchemeClient,
    Value,
};
use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::rc::Rc;

/// Bytes of a slot before its key.
const HEAD: usize = 8;

/// The sizes of a table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InlineRaceShape {
    groups: u64,
    bucket_slots: u64,
    field_bytes: usize,
    stash: usize,
    seed: u64,
}

impl InlineRaceShape {
    /// So many slots at least, in whole groups of buckets; keys and values have the same bytes.
    pub(crate) fn new(slots: u64, bucket_slots: u32, field_bytes: u32, seed: u64) -> Self {
        let bucket_slots = u64::from(bucket_slots.max(1));
        Self {
            groups: slots.div_ceil(3 * bucket_slots).max(1),
            bucket_slots,
            field_bytes: field_bytes as usize,
            stash: super::published::STASH as usize,
            seed,
        }
    }

    pub(crate) const fn slots(&self) -> u64 {
        3 * self.groups * self.bucket_slots
    }

    pub(crate) const fn slot_bytes(&self) -> usize {
        HEAD + (2 * self.field_bytes).next_multiple_of(8)
    }

    /// Where the key is in a slot.
    const fn key(&self) -> Range<usize> {
        HEAD..HEAD + self.field_bytes
    }

    /// Where the value is in a slot.
    const fn value(&self) -> Range<usize> {
        HEAD + self.field_bytes..HEAD + 2 * self.field_bytes
    }

    pub(crate) fn table_bytes(&self) -> u128 {
        u128::from(self.slots()) * self.slot_bytes() as u128
    }
}

/// Records that found no slot, by their keys.
type InlineStash = HashMap<Box<[u8]>, Rc<[u8]>>;

/// A table as its one client's coroutines see it.
pub(crate) struct InlineRace<E> {
    endpoint: Rc<E>,
    at: RemoteAddr,
    shape: InlineRaceShape,
    hasher: Hasher,
    stash: RefCell<InlineStash>,
    /// Free slots that insertions under way are about to fill: RACE's compare-and-swap would let
    /// one of them win.
    taken: RefCell<HashSet<u64>>,
    entries: Cell<u64>,
}

/// Both places of a key, as they were read.
struct PairSnapshot {
    pairs: [Pair; 2],
    bytes: [Buffer; 2],
}

/// A slot with a record: its number, and the record's value.
type InlineRecordHit = (u64, Rc<[u8]>);

impl<E: Endpoint> InlineRace<E> {
    /// A new table in memory of zeros.
    pub(crate) fn create(endpoint: Rc<E>, at: RemoteAddr, shape: InlineRaceShape) -> Self {
        Self {
            endpoint,
            at,
            shape,
            hasher: Hasher::Xxh3 { seed: shape.seed },
            stash: RefCell::default(),
            taken: RefCell::default(),
            entries: Cell::new(0),
        }
    }

    fn slot_at(&self, slot: u64) -> RemoteAddr {
        self.at.plus(slot * self.shape.slot_bytes() as u64)
    }

    /// The first slot of a place: the buckets are side by side.
    fn first_slot(&self, pair: Pair) -> u64 {
        pair.main.min(pair.overflow) * self.shape.bucket_slots
    }

    async fn read(&self, key: &[u8]) -> Result<PairSnapshot> {
        let pairs = pairs(self.hasher.hash(key), self.shape.groups);
        let len = 2 * self.shape.bucket_slots as usize * self.shape.slot_bytes();
        let read = async |pair| {
            let at = self.slot_at(self.first_slot(pair));
            Ok::<_, IndexError>(self.endpoint.read(at, len).await?)
        };
        let (one, other) = both(read(pairs[0]), read(pairs[1])).await;
        Ok(PairSnapshot {
            pairs,
            bytes: [one?, other?],
        })
    }

    /// All slots of a key's places, with their numbers.
    fn slots_of<'s>(&self, snapshot: &'s PairSnapshot) -> impl Iterator<Item = (u64, &'s [u8])> {
        let firsts = snapshot.pairs.map(|pair| self.first_slot(pair));
        let places = firsts.into_iter().zip(&snapshot.bytes);
        let slot_bytes = self.shape.slot_bytes();
        places.flat_map(move |(first, bytes)| (first..).zip(bytes.chunks_exact(slot_bytes)))
    }

    fn find(&self, snapshot: &PairSnapshot, key: &[u8]) -> Option<InlineRecordHit> {
        let is_key = |bytes: &[u8]| !is_free(bytes) && bytes[self.shape.key()] == *key;
        let (slot, bytes) = self.slots_of(snapshot).find(|(_, bytes)| is_key(bytes))?;
        Some((slot, bytes[self.shape.value()].into()))
    }

    /// A free slot for a new key: in the emptier place, in its main bucket first.
    fn free_slot(&self, snapshot: &PairSnapshot) -> Option<u64> {
        let taken = self.taken.borrow();
        let free: Vec<u64> = self
            .slots_of(snapshot)
            .filter(|(slot, bytes)| is_free(bytes) && !taken.contains(slot))
            .map(|(slot, _)| slot)
            .collect();
        let bucket_slots = self.shape.bucket_slots;
        let free_in = |pair: Pair| {
            let of_pair = move |slot: &&u64| {
                let bucket = **slot / bucket_slots;
                bucket == pair.main || bucket == pair.overflow
            };
            free.iter().filter(of_pair)
        };
        let emptier =
            usize::from(free_in(snapshot.pairs[1]).count() > free_in(snapshot.pairs[0]).count());
        let pair = snapshot.pairs[emptier];
        free_in(pair)
            .copied()
            .min_by_key(|slot| (slot / bucket_slots != pair.main, *slot))
    }

    async fn write(&self, slot: u64, key: &[u8], value: &[u8]) -> Result<()> {
        let mut record = self.endpoint.core().buffers.take(self.shape.slot_bytes())?;
        record.fill(0);
        record[0] = 1;
        record[self.shape.key()].copy_from_slice(key);
        record[self.shape.value()].copy_from_slice(value);
        Ok(self.endpoint.write(self.slot_at(slot), record).await?)
    }

    async fn look_up(&self, key: &[u8]) -> Result<Option<Value>> {
        if let Some(value) = self.stash.borrow().get(key) {
            return Ok(Some(Value::from(&**value)));
        }
        let snapshot = self.read(key).await?;
        Ok(self
            .find(&snapshot, key)
            .map(|(_, value)| Value::from(&*value)))
    }

    /// Puts a record; the value that was there before, if there was one, which stays if `keeps`.
    async fn put_record(&self, key: &[u8], value: &[u8], keeps: bool) -> Result<Option<Rc<[u8]>>> {
        if let Some(there) = self.stash.borrow_mut().get_mut(key) {
            let before = Rc::clone(there);
            if !keeps {
                *there = value.into();
            }
            return Ok(Some(before));
        }
        let snapshot = self.read(key).await?;
        if let Some((slot, there)) = self.find(&snapshot, key) {
            if !keeps {
                self.write(slot, key, value).await?;
            }
            return Ok(Some(there));
        }
        match self.free_slot(&snapshot) {
            Some(slot) => {
                self.taken.borrow_mut().insert(slot);
                let written = self.write(slot, key, value).await;
                self.taken.borrow_mut().remove(&slot);
                written?;
            }
            None => self.put_aside(key, value)?,
        }
        self.entries.set(self.entries.get() + 1);
        Ok(None)
    }

    fn put_aside(&self, key: &[u8], value: &[u8]) -> Result<()> {
        let mut stash = self.stash.borrow_mut();
        if stash.len() == self.shape.stash {
            return Err(IndexError::Full {
                probed: 4 * self.shape.bucket_slots,
                slots: self.shape.slots(),
            });
        }
        stash.insert(key.into(), value.into());
        Ok(())
    }

    async fn update_record(&self, key: &[u8], value: &[u8]) -> Result<bool> {
        if let Some(there) = self.stash.borrow_mut().get_mut(key) {
            *there = value.into();
            return Ok(true);
        }
        let snapshot = self.read(key).await?;
        let Some((slot, _)) = self.find(&snapshot, key) else {
            return Ok(false);
        };
        self.write(slot, key, value).await?;
        Ok(true)
    }

    async fn remove_record(&self, key: &[u8]) -> Result<bool> {
        if self.stash.borrow_mut().remove(key).is_none() {
            let snapshot = self.read(key).await?;
            let Some((slot, _)) = self.find(&snapshot, key) else {
                return Ok(false);
            };
            let mut free = self.endpoint.core().buffers.take(HEAD)?;
            free.fill(0);
            self.endpoint.write(self.slot_at(slot), free).await?;
        }
        self.entries.set(self.entries.get() - 1);
        Ok(true)
    }

    /// Visits a group of buckets; the stash comes after the last one.
    async fn scan_group(
        &self,
        Cursor(group): Cursor,
        mut visit: impl FnMut(&[u8], &[u8]),
    ) -> Result<Option<Cursor>> {
        if group >= self.shape.groups {
            let stash = self.stash.borrow();
            stash.iter().for_each(|(key, value)| visit(key, value));
            return Ok(None);
        }
        let (slots, slot_bytes) = (3 * self.shape.bucket_slots, self.shape.slot_bytes());
        let at = self.slot_at(group * slots);
        let bytes = self.endpoint.read(at, slots as usize * slot_bytes).await?;
        for slot in bytes.chunks_exact(slot_bytes).filter(|slot| !is_free(slot)) {
            visit(&slot[self.shape.key()], &slot[self.shape.value()]);
        }
        Ok(Some(Cursor(group + 1)))
    }
}

fn is_free(slot: &[u8]) -> bool {
    slot[..HEAD].iter().all(|byte| *byte == 0)
}

impl<E: Endpoint> SchemeClient for InlineRace<E> {
    type Endpoint = E;

    const NAME: &'static str = "inline RACE";

    fn endpoint(&self) -> &E {
        &self.endpoint
    }

    fn node(&self) -> NodeId {
        self.at.node
    }

    async fn find(&self, key: &[u8]) -> Result<Option<Value>> {
        self.look_up(key).await
    }

    async fn write(&self, operation: Operation<'_>) -> Result<Outcome> {
        Ok(match operation {
            Operation::Put(key, value) => {
                Outcome::Changed(self.put_record(key, value, false).await?.is_none())
            }
            Operation::FindOrPut(key, value) => {
                let there = self.put_record(key, value, true).await?;
                Outcome::Value(there.map(|value| Value::from(&*value)))
            }
            Operation::Update(key, value) => {
                Outcome::Changed(self.update_record(key, value).await?)
            }
            Operation::Remove(key) => Outcome::Changed(self.remove_record(key).await?),
            _ => return Err(Self::not_atomic()),
        })
    }

    async fn scan_piece(
        &self,
        cursor: Cursor,
        // A group is the least that a piece has, and all that it has here.
        _most: u64,
        visit: impl FnMut(&[u8], &[u8]),
    ) -> Result<Option<Cursor>> {
        self.scan_group(cursor, visit).await
    }

    async fn read_occupancy(&self) -> Result<Occupancy> {
        Ok(Occupancy {
            entries: self.entries.get(),
            used_slots: self.entries.get() - self.stash.borrow().len() as u64,
            slots: self.shape.slots(),
            heap_used: 0,
            heap_dead: 0,
            heap_bytes: 0,
            evicted: 0,
        })
    }

    async fn report_all(&self) -> Result<()> {
        Ok(())
    }

    fn known(&self) -> ClientState {
        ClientState::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paper001::designs::trial::memory_of;
    use farslot::fabric::Executor;
    use farslot::index::{Index, IndexExt};
    use farslot_bench::simulated::TABLE_AT;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    #[test]
    fn it_answers_as_a_map_does_until_it_is_full() {
        let shape = InlineRaceShape::new(600, 4, 8, 7);
        let endpoint = memory_of(shape.table_bytes() as u64).unwrap();
        let executor = Executor::new(Rc::clone(&endpoint));
        let table = InlineRace::create(endpoint, TABLE_AT, shape);
        let (mut map, mut random) = (HashMap::new(), ChaCha8Rng::seed_from_u64(1));
        let mut was_full = false;
        for step in 0_u64..10_000 {
            let (key, value) = (
                random.random_range(0_u64..900).to_le_bytes(),
                step.to_le_bytes(),
            );
            match random.random_range(0..6) {
                0 => {
                    let updated = executor.block_on(table.update(&key, &value)).unwrap();
                    assert_eq!(updated, map.get_mut(&key).map(|v| *v = value).is_some());
                }
                1 => {
                    let removed = executor.block_on(table.remove(&key)).unwrap();
                    assert_eq!(removed, map.remove(&key).is_some());
                }
                2 => {
                    let found = executor.block_on(table.get(&key)).unwrap();
                    assert_eq!(found.as_deref(), map.get(&key).map(|value| &value[..]));
                }
                3 => match executor.block_on(table.find_or_put(&key, &value)) {
                    Ok(Some(there)) => assert_eq!(there[..], map[&key]),
                    Ok(None) => assert!(map.insert(key, value).is_none()),
                    Err(IndexError::Full { .. }) => was_full = true,
                    Err(error) => panic!("{error}"),
                },
                _ => match executor.block_on(table.put(&key, &value)) {
                    Ok(new) => assert_eq!(new, map.insert(key, value).is_none()),
                    Err(IndexError::Full { .. }) => was_full = true,
                    Err(error) => panic!("{error}"),
                },
            }
        }
        assert!(was_full && map.len() > 400, "{}", map.len());
        let mut scanned = HashMap::new();
        let mut cursor = Some(Cursor(0));
        while let Some(at) = cursor {
            let mut visit = |key: &[u8], value: &[u8]| {
                let field = |bytes: &[u8]| <[u8; 8]>::try_from(bytes).unwrap();
                assert!(scanned.insert(field(key), field(value)).is_none());
            };
            cursor = executor.block_on(table.scan(at, 1, &mut visit)).unwrap();
        }
        assert_eq!(scanned, map);
        let occupancy = executor.block_on(table.occupancy()).unwrap();
        assert_eq!(occupancy.entries, map.len() as u64);
    }
}
