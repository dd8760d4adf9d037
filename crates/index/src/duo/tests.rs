//! What threads and coroutines of one owner keep to beside each other. What one of them holds is
//! held by the test here, or its verbs are given up half way: chance, in the histories, seldom does
//! both.

use super::bytes::{SlotNumber, live_head};
use super::growth::GROWTH_LOCK;
use super::{DuoGrowth, DuoLayout, DuoOptions, DuoOwner, DuoTable, GrowthMemory};
use crate::{FieldSize, Index, IndexError, IndexExt, Operation, Sizing, SlotKind};
use farslot_fabric::shm::{Node, RegionSpec, ShmEndpoint};
use farslot_fabric::sim::{NicProfile, SimEndpoint, World};
use farslot_fabric::{
    Endpoint, EndpointExt, Executor, Limits, Nanos, NodeId, RegionId, RemoteAddr, Rights, both,
};
use std::rc::Rc;
use std::sync::Arc;

const TABLE: RemoteAddr = RemoteAddr {
    node: NodeId(0),
    region: RegionId(0),
    offset: 4096,
};
/// Longer than anything takes that waits for nobody.
const LONG: Nanos = 10_000_000;
/// As in paper 001.
const ROUND_TRIP: Nanos = 3_200;
const VERB_TIMEOUT: Nanos = 1_000_000;

/// A table that can grow, in a world of its own.
struct Bed {
    world: World,
    layout: DuoLayout,
    memory: GrowthMemory,
}

impl Bed {
    fn new(options: &DuoOptions) -> Self {
        let layout = options.layout().unwrap();
        let end = TABLE.offset + u64::try_from(layout.table_bytes()).unwrap();
        let memory = GrowthMemory {
            mark: RemoteAddr { offset: 0, ..TABLE },
            start: RemoteAddr {
                offset: end.next_multiple_of(4096),
                ..TABLE
            },
            bytes: 2 * end + (1 << 20),
        };
        let profile = NicProfile {
            read_latency_ns: ROUND_TRIP as f64,
            ..NicProfile::connectx5_edr()
        };
        let world = World::new(1, profile);
        world.add_node(&[(memory.start.offset + memory.bytes, Rights::ALL)]);
        Self {
            world,
            layout,
            memory,
        }
    }

    /// An owner of several threads.
    fn owner(&self) -> Arc<DuoOwner> {
        DuoOwner::new(TABLE, self.layout.clone()).unwrap()
    }

    fn endpoint(&self) -> Rc<SimEndpoint> {
        self.world.endpoint(Limits {
            verb_timeout: VERB_TIMEOUT,
            ..Limits::default()
        })
    }

    fn thread_of(&self, owner: &Arc<DuoOwner>) -> (Executor<SimEndpoint>, DuoTable<SimEndpoint>) {
        let endpoint = self.endpoint();
        let growth = DuoGrowth::from(self.memory);
        let table = owner.table(Rc::clone(&endpoint)).with_growth(growth);
        (Executor::new(endpoint), table.unwrap())
    }
}

fn options() -> DuoOptions {
    let word = FieldSize::Fixed(8);
    DuoOptions::new(Sizing::new(1_000, word, word, 7))
}

fn key(number: u64) -> [u8; 8] {
    number.to_le_bytes()
}

async fn fill(table: &DuoTable<SimEndpoint>, keys: u64) {
    for number in 0..keys {
        assert!(table.put(&key(number), &key(!number)).await.unwrap());
    }
}

/// Two that each waited for what the other holds would wait for ever: so who holds some buckets
/// takes of the others those that are free.
#[test]
fn a_step_of_growth_leaves_what_others_hold_for_later() {
    let bed = Bed::new(&options());
    let (executor, table) = bed.thread_of(&bed.owner());
    executor.block_on(async {
        fill(&table, 600).await;
        table.grow(&bed.memory, 2).await.unwrap();
        let before = table.unsplit();
        let bucket = table.locks.take(&[3]).await;
        let held = table.locks.take(&[GROWTH_LOCK]).await;
        let stepping = table.endpoint.timeout(LONG, table.split_piece(&held, 0));
        stepping.await.expect("it waits for nobody").unwrap();
        drop(held);
        assert!(table.unsplit() < before);
        assert!(table.index.borrow().to_split(3).is_some());
        drop(bucket);
        table.sweep().await.unwrap();
        assert_eq!(table.unsplit(), 0);
    });
}

/// A sweep waits for all buckets, but never with any in its hands.
#[test]
fn who_sweeps_holds_nothing_while_it_waits() {
    let bed = Bed::new(&options());
    let (executor, table) = bed.thread_of(&bed.owner());
    executor.block_on(async {
        fill(&table, 600).await;
        table.grow(&bed.memory, 2).await.unwrap();
        let buckets = table.unsplit();
        let bucket = table.locks.take(&[3]).await;
        let looking = async {
            table.endpoint.sleep(LONG).await;
            assert_eq!(table.unsplit(), 1);
            drop(bucket);
            assert!((0..2 * buckets).all(|bucket| !table.locks.is_held(bucket)));
        };
        let (swept, ()) = both(table.split_rest(8), looking).await;
        swept.unwrap();
        assert_eq!(table.unsplit(), 0);
    });
}

/// A new owner writes how often the index has changed. Should that be given up half way, it may
/// still land: what another thread counts before it does would be taken back.
#[test]
fn counts_that_may_still_be_written_keep_other_threads_waiting() {
    let bed = Bed::new(&DuoOptions {
        readers: true,
        ..options()
    });
    let (executor, table) = bed.thread_of(&bed.owner());
    executor.block_on(async {
        fill(&table, 600).await;
        table.grow(&bed.memory, 2).await.unwrap();
        table.resign().await.unwrap();
    });
    let owner = bed.owner();
    let (first, of_first) = bed.thread_of(&owner);
    let (second, of_second) = bed.thread_of(&owner);
    first.block_on(of_first.start()).unwrap();
    // From before the counts have been read to after they are written.
    for (number, span) in (600..).zip((200..16_000).step_by(400)) {
        let counting = of_first.endpoint.timeout(span, of_first.count_splits());
        let ended = first.block_on(counting).is_ok();
        assert_eq!(owner.is_settled(), ended, "{span} ns");
        let begun = of_second.endpoint.now();
        let putting = async { of_second.put(&key(number), &key(!number)).await };
        assert!(second.block_on(putting).unwrap());
        let took = of_second.endpoint.now() - begun;
        assert_eq!(took >= VERB_TIMEOUT, !ended, "{span} ns: {took} ns");
    }
}

/// What one endpoint sees of a write that is under way, another may not see yet: told too early,
/// the next lookup would answer with what was before.
#[test]
fn a_lookup_does_not_tell_what_is_still_being_written() {
    for readers in [false, true] {
        let bed = Bed::new(&DuoOptions {
            readers,
            ..options()
        });
        let (executor, table) = bed.thread_of(&bed.owner());
        executor.block_on(async {
            fill(&table, 10).await;
            let hash = bed.layout.hash_of(&key(3));
            let buckets = {
                let index = table.index.borrow();
                index.buckets_of(&index.candidates(hash))
            };
            for bucket in buckets {
                let writing = table.locks.take(&[bucket]).await;
                let asked = key(3);
                let looking = table.endpoint.timeout(LONG, table.get(&asked));
                assert!(looking.await.is_err(), "bucket {bucket} is held");
                drop(writing);
                let found = table.get(&key(3)).await.unwrap();
                assert_eq!(found.as_deref(), Some(&key(!3)[..]));
            }
        });
        // An owner of one thread, with no readers, has nobody to whom it could be news.
        let alone = DuoTable::open(bed.endpoint(), TABLE, bed.layout.clone()).unwrap();
        let executor = Executor::new(Rc::clone(&alone.endpoint));
        executor.block_on(async {
            alone.take_over().await.unwrap();
            let all: Vec<u64> = (0..2 * bed.layout.buckets).collect();
            let _held = alone.locks.take(&all).await;
            let asked = key(3);
            let looking = alone.endpoint.timeout(LONG, alone.get(&asked));
            assert_eq!(looking.await.is_ok(), !readers);
        });
    }
}

/// What one of an owner's writes finds, the others go by: else they would overwrite what the next
/// owner has acknowledged.
#[test]
fn writes_that_are_under_way_change_nothing_once_one_has_found_another_owner() {
    for readers in [false, true] {
        let bed = Bed::new(&DuoOptions {
            readers,
            ..options()
        });
        let (executor, table) = bed.thread_of(&bed.owner());
        executor.block_on(async {
            fill(&table, 10).await;
            let deposed = async {
                table.endpoint.sleep(ROUND_TRIP / 4).await;
                table.lost(SlotNumber(0));
            };
            let (updated, ()) = both(table.update(&key(3), &key(3)), deposed).await;
            assert!(
                matches!(updated, Err(IndexError::WriterLost { .. })),
                "{updated:?}"
            );
            // It becomes the owner again, as nobody else is.
            let found = table.get(&key(3)).await.unwrap();
            assert_eq!(found.as_deref(), Some(&key(!3)[..]));
        });
    }
}

/// So do those of a batch in mapped memory, which hold their buckets while others are looked at.
#[test]
fn a_batch_in_mapped_memory_changes_nothing_once_a_write_has_found_another_owner() {
    let size = FieldSize::UpTo(64);
    let layout = DuoOptions {
        slot: SlotKind::Heap,
        ..DuoOptions::new(Sizing::new(1_000, size, size, 7))
    };
    let layout = layout.layout().unwrap();
    let region = RegionSpec {
        len: TABLE.offset + u64::try_from(layout.table_bytes()).unwrap(),
        rights: Rights::ALL,
    };
    let node = Node::embedded(&[region]).unwrap();
    let endpoint = Rc::new(ShmEndpoint::new(vec![node], Limits::default()));
    let table = DuoTable::open(Rc::clone(&endpoint), TABLE, layout.clone()).unwrap();
    Executor::new(Rc::clone(&endpoint)).block_on(async {
        for number in 0..10 {
            table.put(&key(number), b"old").await.unwrap();
        }
        // Another owner has removed the second of these.
        let hash = layout.hash_of(&key(7));
        let slot = table.index.borrow().matches(hash).next().unwrap();
        let killing = endpoint.compare_swap(table.slot_at(slot), live_head(hash), 0);
        assert_eq!(killing.await, Ok(live_head(hash)));
        let keys = [key(3), key(7)];
        let puts = keys.each_ref().map(|key| Operation::Put(key, b"new"));
        let mut lost = 0;
        table
            .run_each(&puts, |number, outcome| {
                let is_lost = matches!(outcome, Err(IndexError::WriterLost { .. }));
                assert!(is_lost, "{number}: {outcome:?}");
                lost += 1;
            })
            .await;
        assert_eq!(lost, 2);
        table.take_over().await.unwrap();
        let found = table.get(&key(3)).await.unwrap();
        assert_eq!(found.as_deref(), Some(&b"old"[..]));
    });
}

/// Sweeping keeps the network busy, and operations wait only for the piece that their bucket is in.
#[test]
fn nobody_waits_ten_round_trips_while_a_table_is_swept() {
    for field in [8, 64, 512] {
        let size = FieldSize::Fixed(field);
        let bed = Bed::new(&DuoOptions::new(Sizing {
            load_factor: Some(1.0),
            ..Sizing::new(1 << 14, size, size, 7)
        }));
        let bytes = |number: u64| number.to_le_bytes().repeat(field as usize / 8);
        let (executor, table) = bed.thread_of(&bed.owner());
        executor.block_on(async {
            let keys = (1 << 14) * 8 / 10;
            for number in 0..keys {
                table.put(&bytes(number), &bytes(number)).await.unwrap();
            }
            table.grow(&bed.memory, 2).await.unwrap();
            let begun = table.now();
            let (mut longest, mut done) = (0, 0);
            let working = async {
                while table.unsplit() > 0 {
                    let (begun, number) = (table.now(), done * 97 % keys);
                    let right = match done % 3 {
                        0 => table.get(&bytes(number)).await.unwrap().is_some(),
                        1 => table.update(&bytes(number), &bytes(number)).await.unwrap(),
                        _ => table.put(&bytes(keys + done), &bytes(done)).await.unwrap(),
                    };
                    assert!(right, "operation {done}");
                    longest = longest.max(table.now() - begun);
                    done += 1;
                }
            };
            let (swept, ()) = both(table.sweep(), working).await;
            swept.unwrap();
            let took = table.now() - begun;
            println!(
                "{field} bytes: swept in {took} ns, {done} operations of {longest} ns at most"
            );
            assert!(done > 4);
            assert!(longest <= 10 * ROUND_TRIP, "{longest} ns");
        });
    }
}

/// New buckets are written in parts where they are zeros still. Where a split that did not come
/// about has left something, they are written whole: else a key that was removed in between would
/// be there again.
#[test]
fn what_a_split_left_that_did_not_come_about_is_written_over() {
    let word = FieldSize::Fixed(512);
    let bytes = |number: u64| number.to_le_bytes().repeat(64);
    let mut given_up = 0;
    for span in (3_500..12_000).step_by(500) {
        let bed = Bed::new(&DuoOptions::new(Sizing::new(200, word, word, 7)));
        let (executor, first) = bed.thread_of(&bed.owner());
        executor.block_on(async {
            for number in 0..150 {
                first.put(&bytes(number), &bytes(number)).await.unwrap();
            }
            first.grow(&bed.memory, 2).await.unwrap();
            let sweeping = first.endpoint.timeout(span, first.sweep());
            given_up += u64::from(sweeping.await.is_err());
        });
        // The next owner removes some, which only the vault's old buckets show to be dead.
        let (executor, second) = bed.thread_of(&bed.owner());
        executor.block_on(async {
            second.take_over().await.unwrap();
            for number in (0..150).step_by(2) {
                assert!(second.remove(&bytes(number)).await.unwrap());
            }
            second.sweep().await.unwrap();
            second.resign().await.unwrap();
        });
        let (executor, third) = bed.thread_of(&bed.owner());
        executor.block_on(async {
            third.start().await.unwrap();
            for number in 0..150 {
                let found = third.get(&bytes(number)).await.unwrap();
                let expected = (number % 2 == 1).then(|| bytes(number));
                assert_eq!(found.as_deref(), expected.as_deref(), "{span} ns, {number}");
            }
        });
    }
    assert!(given_up > 5, "{given_up}");
}

/// A write that is cut off while a lookup reads may be undone: the lookup settles it first.
#[test]
fn a_lookup_that_finds_a_key_waits_until_nothing_is_in_doubt() {
    let bed = Bed::new(&options());
    let (executor, table) = bed.thread_of(&bed.owner());
    executor.block_on(async {
        fill(&table, 1).await;
        let cut_off = async {
            table.endpoint.sleep(ROUND_TRIP / 4).await;
            drop(table.doubt(Vec::new()));
            assert!(!table.is_settled());
        };
        let (found, ()) = both(table.get(&key(0)), cut_off).await;
        assert!(found.unwrap().is_some());
        assert!(table.is_settled());
    });
}
