//! Tables that evict: they refuse nothing, keep what is read, and count what they forget.

use crate::common::{HEAP, Slot, race};
use farslot_index::heap::Evicting;
use farslot_index::race::RaceLayout;
use farslot_index::{FieldSize, Index, IndexExt, Result, SchemeClient, Value};
use farslot_testbed::Fabric;

/// Records of any sizes up to 64 KiB.
const OBJECTS: Slot = Slot {
    name: "objects",
    key: FieldSize::UpTo(16),
    value: FieldSize::UpTo(64 << 10),
    ..HEAP
};

fn layout(heap_bytes: u64, slots: u64) -> RaceLayout {
    let dimensions = race::Dimensions::fixed(slots, 8);
    RaceLayout {
        evicting: Some(Evicting::All),
        ..dimensions.layout(OBJECTS, 3, Some(heap_bytes))
    }
}

fn key(number: u64) -> [u8; 8] {
    number.to_le_bytes()
}

/// Many times what it holds, in records of all sizes; the last ones are there.
pub fn a_cache_refuses_nothing(fabric: Fabric) {
    let layout = layout(2 << 20, 1 << 12);
    let node = race::new_node(fabric, &layout);
    let (executor, table) = race::new_client(&node, &layout);
    let puts = fabric.cases(6_000).into();
    let size = |number: u64| (100 << (number * 7 % 10)) as usize;
    executor.block_on(async {
        for number in 0..puts {
            let value = vec![number as u8; size(number)];
            assert!(table.put(&key(number), &value).await.unwrap());
        }
        let mut held = 0;
        for number in 0..puts {
            if let Some(value) = table.get(&key(number)).await.unwrap() {
                assert_eq!(*value, vec![number as u8; size(number)]);
                held += value.len();
            }
        }
        assert!(held > 1 << 20, "{held} bytes are held");
        let last = table.get(&key(puts - 1)).await.unwrap();
        assert!(last.is_some(), "what was put last is there");
        let counted = table.read_occupancy().await.unwrap();
        assert_eq!(counted.evicted + counted.entries, puts);
    });
}

/// What is read now and then stays while ten times the heap passes through it, once each.
pub fn what_is_read_stays_while_others_pass(fabric: Fabric) {
    const HOT: u64 = 200;
    let layout = layout(1 << 20, 1 << 12);
    let node = race::new_node(fabric, &layout);
    let (executor, table) = race::new_client(&node, &layout);
    executor.block_on(async {
        for number in 0..HOT {
            table.put(&key(number), &[1; 1_000]).await.unwrap();
        }
        let mut found = 0;
        let passing = fabric.cases(10_000).into();
        for number in 0..passing {
            table.put(&key(HOT + number), &[2; 1_000]).await.unwrap();
            found += u64::from(table.get(&key(number % HOT)).await.unwrap().is_some());
        }
        assert!(found > passing * 95 / 100, "{found} of {passing}");
    });
}

/// Buckets may be full before the heap is.
pub fn full_buckets_forget_too(fabric: Fabric) {
    let layout = layout(8 << 20, 96);
    let node = race::new_node(fabric, &layout);
    let (executor, table) = race::new_client(&node, &layout);
    executor.block_on(async {
        for number in 0..1_000 {
            assert!(table.put(&key(number), &[3; 100]).await.unwrap());
        }
        let counted = table.read_occupancy().await.unwrap();
        assert_eq!(counted.evicted + counted.entries, 1_000);
        assert!(counted.entries > 60, "{counted:?}");
    });
}

/// Readers that only read in batches keep what they read, however little it is.
pub fn what_is_read_in_batches_stays(fabric: Fabric) {
    const HOT: u64 = 20;
    let layout = layout(1 << 20, 1 << 12);
    let node = race::new_node(fabric, &layout);
    let (writer_executor, writer) = race::new_client(&node, &layout);
    let (reader_executor, reader) = race::new_client(&node, &layout);
    let hot: Vec<_> = (0..HOT).map(key).collect();
    let hot: Vec<&[u8]> = hot.iter().map(|key| &key[..]).collect();
    writer_executor.block_on(async {
        for key in &hot {
            writer.put(key, &[1; 1_000]).await.unwrap();
        }
    });
    let (rounds, mut found) = (fabric.cases(200).into(), 0);
    for round in 0..rounds {
        reader_executor.block_on(async {
            for _ in 0..5 {
                let count =
                    |_, got: Result<Option<Value>>| found += u64::from(got.unwrap().is_some());
                reader.get_many(hot.iter().copied(), count).await;
            }
        });
        writer_executor.block_on(async {
            for number in 0..50 {
                let key = key(HOT + round * 50 + number);
                writer.put(&key, &[2; 1_000]).await.unwrap();
            }
        });
    }
    let asked = rounds * 5 * HOT;
    assert!(found > asked * 9 / 10, "{found} of {asked}");
}

/// A cache of records that end at some time keeps the others, and refuses these when they alone
/// would fill it.
pub fn what_does_not_end_stays(fabric: Fabric) {
    const KEPT: u64 = 600;
    let layout = RaceLayout {
        evicting: Some(Evicting::Expiring),
        ..layout(1 << 20, 1 << 12)
    };
    let node = race::new_node(fabric, &layout);
    let (executor, table) = race::new_client(&node, &layout);
    let (kept, ending) = ([0; 1_200], [9; 1_200]);
    executor.block_on(async {
        let mut passing = 0;
        for number in 0..KEPT {
            table.put(&key(number), &kept).await.unwrap();
            table.put(&key(10_000 + number), &ending).await.unwrap();
        }
        let others = fabric.cases(5_000).into();
        for number in 0..others {
            table.put(&key(20_000 + number), &ending).await.unwrap();
            passing += u64::from(table.get(&key(20_000 + number)).await.unwrap().is_some());
        }
        assert_eq!(passing, others, "each is there at first");
        for number in 0..KEPT {
            let got = table.get(&key(number)).await.unwrap();
            assert_eq!(got.as_deref(), Some(&kept[..]), "{number}");
        }
        let mut more = 0;
        while let Ok(is_new) = table.put(&key(50_000 + more), &kept).await {
            assert!(is_new);
            more += 1;
        }
        assert!(more > 50, "{more} more are kept");
    });
}

/// Values whose bytes seem to be the heads of records hold nothing up.
pub fn values_that_seem_to_be_records_are_forgotten_too(fabric: Fabric) {
    let layout = layout(1 << 20, 1 << 12);
    let node = race::new_node(fabric, &layout);
    let (executor, table) = race::new_client(&node, &layout);
    executor.block_on(async {
        for generation in 1..fabric.cases(400).into() {
            let head = (generation % 8 + 1) << 32;
            let words = [head, 30_000 << 32].map(u64::to_le_bytes).concat();
            let value = words.repeat(2_000);
            assert!(table.put(&key(generation), &value).await.unwrap());
        }
    });
}
