//! Batches keep dozens of operations in flight: on a network, one round trip then serves many keys.

use farslot::{FieldSize, Operation, Outcome, Result, Store, TableOptions};

fn main() -> Result<()> {
    // A simulated network, so that the counted round trips are those of a real one.
    let store = Store::open("sim://cx5-edr?seed=1")?;
    let options = TableOptions::new(10_000)
        .keys(FieldSize::Fixed(8))
        .values(FieldSize::Fixed(8));
    store.create("squares", &options)?;
    let squares = store.table("squares")?;

    let records: Vec<([u8; 8], [u8; 8])> = (0..1_000_u64)
        .map(|number| (number.to_be_bytes(), (number * number).to_be_bytes()))
        .collect();
    let slices: Vec<(&[u8], &[u8])> = records.iter().map(|(k, v)| (&k[..], &v[..])).collect();
    squares.put_many(&slices, |_, is_new| assert!(is_new))?;

    let keys: Vec<&[u8]> = slices.iter().map(|(key, _)| *key).collect();
    let began = squares.now();
    let mut found = 0;
    squares.get_many(&keys, |number, value| {
        assert_eq!(value, Some(slices[number].1));
        found += 1;
    })?;
    let together = squares.now() - began;
    let began = squares.now();
    for key in &keys[..100] {
        squares.get(key)?;
    }
    let alone = (squares.now() - began) / 100;
    println!(
        "{found} gets in one batch: {} ns each; alone: {alone} ns",
        together / 1_000
    );

    // One batch may mix operations.
    let operations = [
        Operation::Get(keys[7]),
        Operation::Remove(keys[8]),
        Operation::Put(b"12345678", b"a value!"),
    ];
    let ran = squares.run_many(&operations, |number, outcome| match outcome {
        Outcome::Value(value) => {
            println!("{number}: {} bytes", value.map_or(0, |value| value.len()))
        }
        outcome => println!("{number}: {outcome:?}"),
    });
    // What fails keeps nothing else from being done. Here it is told one by one; `?` tells the
    // first, and how many there are.
    for (number, error) in ran.err().into_iter().flatten() {
        println!("{number}: {error}");
    }
    Ok(())
}
