//! Threads share a table: each opens its own handle, and one thread's writes are visible to all.

use farslot::{FieldSize, Result, Store, TableOptions};
use std::thread;

const THREADS: u64 = 4;
const WORDS: u64 = 5_000;

fn main() -> Result<()> {
    let store = Store::embedded()?;
    let options = TableOptions::new(WORDS)
        .keys(FieldSize::Fixed(8))
        .values(FieldSize::Fixed(8));
    store.create("first-seen-by", &options)?;

    // All threads meet the same keys; `find_or_put` lets exactly one of them be the first.
    let workers: Vec<_> = (0..THREADS)
        .map(|me| {
            let store = store.clone();
            thread::spawn(move || -> Result<u64> {
                let table = store.table("first-seen-by")?;
                let mut first = 0;
                for word in 0..WORDS {
                    let key = word.to_be_bytes();
                    if table.find_or_put(&key, &me.to_be_bytes())?.is_none() {
                        first += 1;
                    }
                }
                Ok(first)
            })
        })
        .collect();
    let mut total = 0;
    for (me, worker) in workers.into_iter().enumerate() {
        let first = worker.join().expect("no thread panics")?;
        println!("thread {me} was the first to see {first} keys");
        total += first;
    }
    assert_eq!(total, WORDS);
    Ok(())
}
