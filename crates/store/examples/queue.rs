//! A queue: what some threads push, others pop, each item once. In another program, open the store
//! at an address that both can reach.

use farslot::{ErrorKind, FieldSize, Result, Store, TableOptions};
use std::thread;

const JOBS: u64 = 10_000;

fn main() -> Result<()> {
    let store = Store::embedded()?;
    let jobs = TableOptions::new(1_000).values(FieldSize::UpTo(32)).queue();
    store.create("jobs", &jobs)?;
    thread::scope(|scope| {
        let worker = scope.spawn(|| work(&store));
        let jobs = store.queue("jobs")?;
        for number in 0..JOBS {
            let job = format!("resize photo {number}");
            // Nobody waits in the queue: a push to a full one fails at once.
            while let Err(error) = jobs.push(job.as_bytes()) {
                match error.kind() {
                    ErrorKind::Full => thread::yield_now(),
                    _ => return Err(error),
                }
            }
        }
        let done = worker.join().expect("the worker has not panicked")?;
        println!("{done} jobs are done");
        Ok(())
    })
}

/// Does jobs, several of which are taken by one call.
fn work(store: &Store) -> Result<u64> {
    let jobs = store.queue("jobs")?;
    let mut done = 0;
    while done < JOBS {
        let popped = jobs.pop_many(100)?;
        if popped.is_empty() {
            thread::yield_now();
        }
        done += popped.len() as u64;
    }
    Ok(done)
}
