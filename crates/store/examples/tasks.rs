//! A thousand tasks share a table by a handle: what they ask for leaves together, in batches.
//!
//! ```sh
//! cargo run --release -p farslot --example tasks -- tcp://127.0.0.1:7000
//! ```

use farslot::{FieldSize, Handle, HandleOptions, Store, TableOptions};
use std::time::Instant;

const TASKS: u64 = 1_000;
const LOOKUPS: u64 = 1_000;
const KEYS: u64 = 100_000;

/// Any key, and the next one: a walk over all of them.
fn next(number: u64) -> u64 {
    (number * 5 + 7) % KEYS
}

async fn look_up(squares: Handle, mut number: u64) -> farslot::Result<u64> {
    let mut found = 0;
    for _ in 0..LOOKUPS {
        number = next(number);
        let value = squares.get(&number.to_be_bytes()).await?;
        found += u64::from(value.as_deref() == Some(&(number * number).to_be_bytes()[..]));
    }
    Ok(found)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args().nth(1);
    let store = Store::open(address.as_deref().unwrap_or("embedded"))?;
    let options = TableOptions::new(KEYS)
        .keys(FieldSize::Fixed(8))
        .values(FieldSize::Fixed(8));
    store.create("squares", &options)?;
    let table = store.table("squares")?;
    let records: Vec<([u8; 8], [u8; 8])> = (0..KEYS)
        .map(|number| (number.to_be_bytes(), (number * number).to_be_bytes()))
        .collect();
    let slices: Vec<(&[u8], &[u8])> = records.iter().map(|(k, v)| (&k[..], &v[..])).collect();
    table.put_many(&slices, |_, _| ())?;

    let squares = Handle::open(&store, "squares", HandleOptions::default())?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .build()?;
    let began = Instant::now();
    let found = runtime.block_on(async {
        let tasks = (0..TASKS).map(|task| tokio::spawn(look_up(squares.clone(), task)));
        let tasks: Vec<_> = tasks.collect();
        let mut found = 0;
        for task in tasks {
            found += task.await??;
        }
        squares.close().await;
        Ok::<u64, Box<dyn std::error::Error>>(found)
    })?;
    assert_eq!(found, TASKS * LOOKUPS);
    let rate = |lookups: u64, since: Instant| lookups as f64 / since.elapsed().as_secs_f64() / 1e6;
    println!("{TASKS} tasks: {:.2} million lookups/s", rate(found, began));

    // The thread-bound table beside it, which is given the keys of a batch at once.
    let began = Instant::now();
    for _ in 0..TASKS * LOOKUPS / KEYS {
        let keys: Vec<&[u8]> = slices.iter().map(|(key, _)| *key).collect();
        table.get_many(&keys, |number, value| {
            assert_eq!(value, Some(slices[number].1))
        })?;
    }
    println!("get_many:   {:.2} million lookups/s", rate(found, began));
    store.drop_table("squares")?;
    Ok(())
}
