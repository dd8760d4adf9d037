//! Readers beside a writer's batches, which are done at once in mapped memory: a key that stays is
//! always there, whole, and never with a value older than one that was seen.

use crate::common::cuckoo::{self, ways};
use crate::common::duo::{Dimensions, region_bytes};
use crate::common::{HEAP, INLINE, INLINE_SHORT, Slot, TABLE, TORN, WORD};
use farslot_fabric::Rights;
use farslot_index::cuckoo::{CuckooTable, LookupOrder};
use farslot_index::duo::{DuoOwner, DuoReader};
use farslot_index::{Got, Index, IndexError, IndexExt, Operation};
use farslot_testbed::Fabric;
use std::sync::atomic::{AtomicBool, Ordering};

/// Keys that stay.
const KEYS: u64 = 24;
/// Keys that come and go, and are moved and make others move.
const OTHERS: u64 = 12;
const SLOTS: u64 = 40;
/// What each key that stays is updated to, one after the other: as many as a byte can say.
const ROUNDS: u64 = 200;

/// Tells readers to end when the writer does, however it does.
struct Ends<'s>(&'s AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Puts the keys, then updates them again and again beside others that come and go.
async fn write(table: &impl Index, slot: Slot) {
    let keys: Vec<_> = (0..KEYS + OTHERS).map(|key| slot.key(key)).collect();
    let (stay, go) = keys.split_at(KEYS as usize);
    for round in 0..ROUNDS {
        let value = slot.value(round);
        let come = go.iter().map(|key| Operation::FindOrPut(key, &value));
        let leave = go.iter().map(|key| Operation::Remove(key));
        let change = stay.iter().map(|key| match round % 2 {
            0 => Operation::Put(key, &value),
            _ => Operation::Update(key, &value),
        });
        let all: Vec<_> = change.chain(come).chain(leave).collect();
        let mut done = 0;
        table
            .run_each(&all, |number, outcome| {
                assert!(outcome.is_ok(), "{:?}: {outcome:?}", all[number]);
                done += 1;
            })
            .await;
        assert_eq!(done, all.len());
    }
}

/// Looks the keys that stay up until it is told that all is written, and once more; returns how
/// often it has.
async fn read(
    look_up: impl AsyncFn(&[&[u8]], &mut dyn FnMut(usize, Got)),
    slot: Slot,
    stop: &AtomicBool,
) -> u64 {
    let keys: Vec<_> = (0..KEYS).map(|key| slot.key(key)).collect();
    let keys: Vec<_> = keys.iter().map(|key| &key[..]).collect();
    let (mut last, mut rounds) = ([None; KEYS as usize], 0);
    loop {
        let is_last = stop.load(Ordering::Acquire);
        let mut judge = |key: usize, got: Got| {
            let found = match got {
                // Where the key was changed at every look there is no answer.
                Err(IndexError::Contended { .. } | IndexError::Unreadable { .. }) => return,
                got => got.unwrap().map(|value| slot.number(&value)),
            };
            let is_torn = found == Some(TORN);
            assert!(
                !is_torn && found >= last[key],
                "key {key}: {found:?} behind {:?}",
                last[key]
            );
            last[key] = found;
        };
        look_up(&keys, &mut judge).await;
        rounds += 1;
        if is_last {
            break;
        }
    }
    assert_eq!(last, [Some(slot.fitted(ROUNDS - 1)); KEYS as usize]);
    rounds
}

#[test]
fn of_a_cuckoo_table() {
    for slot in [WORD, INLINE, HEAP] {
        for seed in 0..8 {
            let layout = cuckoo::options(slot, SLOTS, ways(3, 4), seed);
            let layout = layout.layout().unwrap();
            let node = cuckoo::new_node(Fabric::Shm, &layout);
            let stop = AtomicBool::new(false);
            let rounds = node.run_clients(3, Fabric::limits(), async move |client, endpoint| {
                let order = LookupOrder::Parallel;
                let opening = CuckooTable::open(endpoint, TABLE, layout.clone(), order);
                let table = opening.await.unwrap();
                if client > 0 {
                    let look_up = async |keys: &[&[u8]], done: &mut dyn FnMut(usize, Got)| {
                        table
                            .look_up(keys, &mut |answers| answers.each(&mut *done))
                            .await;
                    };
                    return read(look_up, slot, &stop).await;
                }
                let _ends = Ends(&stop);
                write(&table, slot).await;
                0
            });
            println!("{}: rounds of lookups {:?}", slot.name, &rounds[1..]);
        }
    }
}

#[test]
fn of_a_duo_table() {
    for slot in [INLINE, INLINE_SHORT] {
        for seed in 0..8 {
            let layout = Dimensions::of_paper(SLOTS + 8)
                .with_readers()
                .layout(slot, seed);
            let node = Fabric::Shm.start(&[(region_bytes(&layout), Rights::ALL)]);
            let owner = DuoOwner::new(TABLE, layout.clone()).unwrap();
            let stop = AtomicBool::new(false);
            let rounds = node.run_clients(3, Fabric::limits(), async move |client, endpoint| {
                if client > 0 {
                    let reader = DuoReader::open(endpoint, TABLE, layout.clone()).unwrap();
                    let look_up = async |keys: &[&[u8]], done: &mut dyn FnMut(usize, Got)| {
                        reader
                            .look_up(keys, &mut |answers| answers.each(&mut *done))
                            .await;
                    };
                    return read(look_up, slot, &stop).await;
                }
                let _ends = Ends(&stop);
                write(&owner.table(endpoint), slot).await;
                0
            });
            println!("{}: rounds of lookups {:?}", slot.name, &rounds[1..]);
        }
    }
}
