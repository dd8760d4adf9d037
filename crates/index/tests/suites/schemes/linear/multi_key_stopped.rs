//! Keys with several records, some of whose slots are dead.

use crate::common::from_sim;
use crate::common::{HEAP, HYBRID, HYBRID_SHORT, INLINE, PAIR, Reads, TABLE, WORD, region_bytes};
use crate::common::{new_client, new_node};
use farslot_fabric::sim::{
    ClientStop, FaultPlan, FaultTime, HostId, NicProfile, Simulation, World,
};
use farslot_fabric::{Executor, Limits, Rights};
use farslot_index::Sizing;
use farslot_index::linear::{KeyRule, LinearOptions, LinearTable};
use farslot_index::{Index, IndexExt};
use farslot_testbed::Fabric;
use std::rc::Rc;

/// All values of the key.
async fn all_of(table: &impl Index, key: &[u8]) -> Vec<Vec<u8>> {
    let found = table.get_all(key).await.unwrap();
    found.iter().map(|value| value.to_vec()).collect()
}

/// A remover that stops half way leaves a dead slot in front of a live one.
#[test]
fn a_record_behind_a_dead_slot_is_found() {
    for slot in [WORD, PAIR, INLINE, HEAP, HYBRID, HYBRID_SHORT] {
        let mut dead_in_front = 0;
        for last in 1..8 {
            let options = LinearOptions {
                sizing: Sizing {
                    keys: KeyRule::Multi,
                    ..slot.options(16, 3).sizing
                },
                ..slot.options(16, 3)
            };
            let layout = options.layout().unwrap();
            let world = World::new(last, NicProfile::connectx5_edr());
            world.add_node(&[(region_bytes(&layout), Rights::ALL)]);
            let open = async |endpoint: Rc<_>| {
                let sizes = Reads::fixed(4).sizes(&layout);
                LinearTable::open(from_sim(endpoint), TABLE, layout.clone(), sizes)
                    .await
                    .unwrap()
            };
            let key = slot.key(5);
            let [first, second, other] = [1, 2, 3].map(|number| slot.value(number));
            let endpoint = world.endpoint(Limits::default());
            let writer = Executor::new(Rc::clone(&endpoint));
            let table = writer.block_on(open(endpoint));
            writer.block_on(async {
                assert!(table.put(&key, &first).await.unwrap());
                assert!(table.put(&key, &second).await.unwrap());
            });

            let mut simulation = Simulation::new(world.clone());
            let remover = simulation.add_client(HostId(0), Limits::default());
            world.set_faults(FaultPlan {
                client_stops: vec![ClientStop {
                    client: remover,
                    when: FaultTime::AfterVerbs(last),
                }],
                ..FaultPlan::default()
            });
            let (of_layout, of_key) = (layout.clone(), key.clone());
            simulation.spawn(remover, async move |endpoint| {
                let sizes = Reads::fixed(4).sizes(&of_layout);
                let opening = LinearTable::open(from_sim(endpoint), TABLE, of_layout, sizes);
                opening.await.unwrap().remove(&of_key).await.unwrap()
            });
            simulation.run();
            world.advance_to(world.now() + 1_000_000);

            writer.block_on(async {
                let left = all_of(&table, &key).await;
                if left == [second.clone()] {
                    dead_in_front += 1;
                    let got = table.get(&key).await.unwrap();
                    assert_eq!(got.as_deref(), Some(&second[..]));
                    match table.find_or_put(&key, &other).await.unwrap() {
                        Some(found) => assert_eq!(&*found, &second[..]),
                        None => panic!("{}: the key is present", slot.name),
                    }
                    assert!(table.put(&key, &other).await.unwrap());
                    assert_eq!(all_of(&table, &key).await.len(), 2);
                    assert!(table.remove(&key).await.unwrap());
                }
                if left.is_empty() {
                    let put = table.find_or_put(&key, &other).await.unwrap();
                    assert!(put.is_none());
                }
            });
        }
        assert!(dead_in_front > 0, "{}", slot.name);
    }
}

/// The key's first dead slot lies in a chunk before the one with the empty slot, and the heap has
/// no room for the record that is to go there: the slots are left, and the record goes into that
/// one.
#[test]
fn dead_slots_far_in_front_are_left_where_the_heap_is_full() {
    for slot in [INLINE, HYBRID] {
        let options = slot.options(16, 3);
        let options = LinearOptions {
            sizing: Sizing {
                keys: KeyRule::Multi,
                heap_bytes: Some(16),
                ..options.sizing
            },
            ..options
        };
        let layout = options.layout().unwrap();
        let node = new_node(Fabric::Sim, &layout);
        let (executor, table) = new_client(&node, &layout, Reads::fixed(4));
        executor.block_on(async {
            let key = slot.key(5);
            // One that fits into a slot.
            let short = (1..100).map(|number| slot.value(number));
            let value = short.min_by_key(Vec::len).unwrap();
            for _ in 0..6 {
                assert!(table.put(&key, &value).await.unwrap());
            }
            assert!(table.remove(&key).await.unwrap());
            let put = table.find_or_put(&key, &value).await.unwrap();
            assert!(put.is_none());
            assert_eq!(all_of(&table, &key).await, [value]);
        });
    }
}
