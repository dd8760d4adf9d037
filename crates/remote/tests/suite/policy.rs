//! What lookups cost under the default policy beside those that always READ first and those that
//! always call, on the machines of paper 003.

use crate::sim::{OBJECT, client, limits, serve_in};
use farslot_fabric::sim::{NicProfile, World};
use farslot_fabric::{Endpoint, Executor, VerbKind};
use farslot_remote::PolicyOptions;
use farslot_remote::chained::{Chained, Shape, Table};
use std::rc::Rc;

const BUCKETS: u32 = 1 << 10;
const LOOKUPS: u32 = 8_000;

/// What a lookup takes in the mean.
#[derive(Clone, Copy, Debug)]
struct Cost {
    /// A READ is one, a call one each way.
    messages: f64,
    ns: f64,
}

fn cost(keys_a_bucket: f64, policy: PolicyOptions) -> Cost {
    let shape = Shape {
        at: 0,
        key_bytes: 8,
        value_bytes: 72,
        slots: 1,
        buckets: BUCKETS,
        most_buckets: BUCKETS,
        overflow: 8 * BUCKETS,
        split_after: 0,
        seed: 7,
    };
    let table = Table::new(shape).unwrap();
    let world = World::new(1, NicProfile::connectx4_edr());
    let world = serve_in(world, &table, shape.bytes());
    let endpoint = world.endpoint(limits());
    let table = Chained::new(table, OBJECT, client(&endpoint), 0, policy);
    let keys = (keys_a_bucket * f64::from(BUCKETS)) as u32;
    Executor::new(Rc::clone(&endpoint)).block_on(async {
        for key in 0..keys {
            let (key, value) = (u64::from(key).to_le_bytes(), [key as u8; 72]);
            table.put(&key, &value).await.unwrap();
        }
        let (since, before) = (endpoint.now(), endpoint.core().counters.snapshot());
        for lookup in 0..LOOKUPS {
            let key = lookup.wrapping_mul(2_654_435_761) >> 8;
            let key = key % keys;
            let item = table.get(&u64::from(key).to_le_bytes()).await.unwrap();
            assert_eq!(item.unwrap().value, [key as u8; 72]);
        }
        let posted = endpoint.core().counters.snapshot().since(&before);
        let messages = posted.verbs_of(VerbKind::Read) + 2 * posted.verbs_of(VerbKind::Call);
        Cost {
            messages: messages as f64 / f64::from(LOOKUPS),
            ns: (endpoint.now() - since) as f64 / f64::from(LOOKUPS),
        }
    })
}

#[test]
fn lookups_cost_no_more_than_by_the_better_of_always_reading_and_always_calling() {
    for keys_a_bucket in [0.1, 0.4, 0.5, 0.6, 0.65, 0.7, 0.8, 0.9, 4.0] {
        let ours = cost(keys_a_bucket, PolicyOptions::default());
        let reads = cost(keys_a_bucket, PolicyOptions::READS);
        let calls = cost(keys_a_bucket, PolicyOptions::CALLS);
        let told = format!("{keys_a_bucket} keys a bucket: {ours:?}, {reads:?}, {calls:?}");
        assert!(
            ours.messages < 1.02 * reads.messages.min(calls.messages),
            "{told}"
        );
        assert!(ours.ns < 1.02 * reads.ns.min(calls.ns), "{told}");
    }
}
