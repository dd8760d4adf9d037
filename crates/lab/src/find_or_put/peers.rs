//! Concurrent maps of other crates, filled by threads of one process.

use super::stream::{BATCH, Stream};
use super::{Options, Timed};
use crate::{LabError, Result};
use foldhash::fast::FixedState;
use std::sync::Barrier;
use std::time::Instant;

/// A set that threads fill together.
trait Peer: Sync {
    const NAME: &'static str;
    /// What a thread keeps while it works.
    type Guard<'a>
    where
        Self: 'a;

    fn with_room(elements: usize) -> Self;
    fn guard(&self) -> Self::Guard<'_>;
    /// Whether the element was absent; it is there now.
    fn put(&self, guard: &Self::Guard<'_>, element: u64) -> bool;
}

impl Peer for papaya::HashSet<u64, FixedState> {
    const NAME: &'static str = "papaya";
    type Guard<'a> = papaya::LocalGuard<'a>;

    fn with_room(elements: usize) -> Self {
        Self::builder()
            .capacity(elements)
            .hasher(FixedState::default())
            .build()
    }

    fn guard(&self) -> Self::Guard<'_> {
        papaya::HashSet::guard(self)
    }

    fn put(&self, guard: &Self::Guard<'_>, element: u64) -> bool {
        self.insert(element, guard)
    }
}

impl Peer for dashmap::DashSet<u64, FixedState> {
    const NAME: &'static str = "dashmap";
    type Guard<'a> = ();

    fn with_room(elements: usize) -> Self {
        Self::with_capacity_and_hasher(elements, FixedState::default())
    }

    fn guard(&self) -> Self::Guard<'_> {}

    fn put(&self, (): &Self::Guard<'_>, element: u64) -> bool {
        self.insert(element)
    }
}

/// Measures all of them under one mix, in turns.
pub(super) fn measure(options: &Options, found: u32, threads: u32) -> Result<Vec<Timed>> {
    let mut all = vec![
        empty::<papaya::HashSet<u64, FixedState>>(found),
        empty::<dashmap::DashSet<u64, FixedState>>(found),
    ];
    for _ in 0..options.rounds {
        let rounds = [
            round::<papaya::HashSet<u64, FixedState>>(options, found, threads)?,
            round::<dashmap::DashSet<u64, FixedState>>(options, found, threads)?,
        ];
        for (timed, (operations, spans)) in all.iter_mut().zip(rounds) {
            timed.operations = operations;
            timed.rounds.push(spans);
        }
    }
    Ok(all)
}

fn empty<P: Peer>(found: u32) -> Timed {
    Timed {
        system: P::NAME,
        found,
        operations: Vec::new(),
        rounds: Vec::new(),
    }
}

/// Operations of all threads and the slowest one's time, of each band.
fn round<P: Peer>(options: &Options, found: u32, threads: u32) -> Result<(Vec<u64>, Vec<u64>)> {
    let set = P::with_room(options.buckets as usize);
    let barrier = Barrier::new(threads as usize);
    let of_threads: Vec<Vec<(u64, u64, u64)>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads)
            .map(|thread| {
                let (set, barrier) = (&set, &barrier);
                let stream = Stream::new(options.seed, thread, threads, found);
                scope.spawn(move || thread_of(set, barrier, stream, options.buckets, threads))
            })
            .collect();
        let ends = threads.into_iter().map(|thread| thread.join());
        ends.map(|end| end.unwrap_or_default()).collect()
    });
    let bands = super::LOADS.len() - 1;
    let (mut operations, mut spans) = (vec![0; bands], vec![0; bands]);
    for thread in &of_threads {
        if thread.len() < bands {
            return Err(LabError::Checker {
                checker: P::NAME.into(),
                reason: "a thread has panicked".into(),
            });
        }
        for (band, (of_thread, span, wrong)) in thread.iter().enumerate() {
            if *wrong > 0 {
                return Err(LabError::wrong(*wrong, *of_thread));
            }
            operations[band] += of_thread;
            spans[band] = spans[band].max(*span);
        }
    }
    Ok((operations, spans))
}

/// Of each band: operations, nanoseconds, wrong answers.
fn thread_of<P: Peer>(
    set: &P,
    barrier: &Barrier,
    mut stream: Stream,
    buckets: u64,
    threads: u32,
) -> Vec<(u64, u64, u64)> {
    let mut bands = Vec::new();
    let mut batch = Vec::with_capacity(BATCH);
    for target in Stream::targets(buckets, threads) {
        barrier.wait();
        let started = Instant::now();
        let (mut operations, mut wrong) = (0, 0);
        while stream.inserted() < target {
            let new = stream.fill(&mut batch, target);
            let guard = set.guard();
            let absent = batch.iter().filter(|element| set.put(&guard, **element));
            wrong += (absent.count() as u64).abs_diff(new);
            operations += batch.len() as u64;
        }
        bands.push((operations, started.elapsed().as_nanos() as u64, wrong));
    }
    bands
}
