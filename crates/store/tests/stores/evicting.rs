//! Which records a cache forgets.

use farslot::layout::RaceShape;
use farslot::{Evicting, FieldSize, OpenOptions, Store, Table, TableOptions};

fn cache(heap_bytes: u64) -> Table {
    let store = Store::embedded_with(16 << 20, OpenOptions::default()).unwrap();
    let options = TableOptions::new(10_000)
        .race(RaceShape::default())
        .keys(FieldSize::Fixed(8))
        .values(FieldSize::UpTo(8_000))
        .heap_bytes(heap_bytes)
        .evicting(Evicting::All);
    store.create("objects", &options).unwrap();
    store.table("objects").unwrap()
}

/// For the room of a large record many small ones stay, though nobody has read any.
#[test]
fn small_records_outlive_large_ones() {
    let table = cache(2 << 20);
    for number in 0..3_000_u64 {
        let bytes = if number % 2 == 0 { 100 } else { 8_000 };
        table.put(&number.to_le_bytes(), &vec![7; bytes]).unwrap();
    }
    let (mut small, mut large) = (0, 0);
    let count = |_: &[u8], value: &[u8]| match value.len() {
        100 => small += 1,
        _ => large += 1,
    };
    table.for_each(count).unwrap();
    assert!(large > 100, "{large} large ones, {small} small ones");
    assert!(small > 2 * large, "{large} large ones, {small} small ones");
}

/// None is small among records of one size: they go in the order in which they came.
#[test]
fn of_records_of_one_size_the_latest_stay() {
    let table = cache(1 << 20);
    let put = |number: u64| table.put(&number.to_le_bytes(), &[7; 1_000]);
    (0..5_000).for_each(|number| assert!(put(number).unwrap()));
    let mut there: Vec<u64> = Vec::new();
    let note = |key: &[u8], _: &[u8]| there.push(u64::from_le_bytes(key.try_into().unwrap()));
    table.for_each(note).unwrap();
    let oldest = *there.iter().min().unwrap();
    assert!((500..1_050).contains(&there.len()), "{}", there.len());
    assert!(oldest > 3_900, "{oldest}");
}
