//! Find-or-puts of threads of one process: Farslot's set beside concurrent sets that a program
//! could have instead, `papaya` and `dashmap`.
//!
//! The measurement is that of [`farslot_bench::find_or_put`], with threads as ranks. The others are
//! given room for all elements before, hash with the same hasher (foldhash), and have no batches:
//! they are asked for one element after the other. Load factors are those of Farslot's table; the
//! others hold as many elements.

use crate::{LabError, Progress, Result};
use farslot_bench::find_or_put::{Answers, MappedSet, Options, Ranks, Subject, measure};
use farslot_bench::{BenchError, BenchReport, BenchRow};
use foldhash::fast::RandomState;
use std::sync::{Condvar, Mutex, PoisonError, RwLock};

type Papaya = papaya::HashSet<u64, RandomState>;
type Dashmap = dashmap::DashSet<u64, RandomState>;

/// Measures with each of these numbers of threads.
///
/// # Errors
/// [`BadOption`](BenchError::BadOption); [`WrongAnswers`](BenchError::WrongAnswers).
pub(crate) fn run(
    options: &Options,
    threads: &[usize],
    progress: Progress<'_>,
) -> Result<BenchReport> {
    let mut rows = Vec::new();
    let mut page = 0;
    for threads in threads {
        LabError::check_ranges([("threads", *threads as u64, 1..=1024)])?;
        let (measured, bytes) = together(options, *threads, progress)?;
        rows.extend(measured);
        page = bytes >> 10;
    }
    Ok(BenchReport {
        bench: "find-or-put",
        fabric: format!("memory of one process, in pages of {page} KiB for the set"),
        rows,
    })
}

/// Measures with so many threads; returns the rows, and bytes of a page of the set's memory.
fn together(
    options: &Options,
    threads: usize,
    progress: Progress<'_>,
) -> Result<(Vec<BenchRow>, u64)> {
    let memory = MappedSet::memory_of_threads(options.slots)?;
    let (papaya, dashmap) = (RwLock::<Papaya>::default(), RwLock::<Dashmap>::default());
    let rendezvous = ThreadRendezvous::new(threads);
    let work = |rank: usize| -> farslot_bench::Result<(Vec<BenchRow>, u64)> {
        let mut ranks = Thread {
            rank,
            rendezvous: &rendezvous,
        };
        let mut set = MappedSet::of_threads(&memory, options.slots)?;
        let mut others = (
            LockedSet {
                name: "papaya",
                set: &papaya,
                slots: options.slots,
            },
            LockedSet {
                name: "dashmap",
                set: &dashmap,
                slots: options.slots,
            },
        );
        let others: &mut [&mut dyn Subject] = &mut [&mut others.0, &mut others.1];
        let quiet: Progress<'_> = &|_| ();
        let progress = if rank == 0 { progress } else { quiet };
        let rows = measure(options, &mut ranks, &mut set, others, "thread", progress);
        if rows.is_err() {
            rendezvous.fail();
        }
        Ok((rows?, set.page_bytes()))
    };
    let work = &work;
    std::thread::scope(|scope| {
        let helpers: Vec<_> = (1..threads)
            .map(|rank| scope.spawn(move || work(rank)))
            .collect();
        let mut end = work(0);
        for helper in helpers {
            let helped = helper.join();
            let helped = helped.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            // What went wrong first, rather than that another thread has failed.
            if let Err(error) = helped
                && matches!(end, Ok(_) | Err(BenchError::RankFailed))
            {
                end = Err(error);
            }
        }
        Ok(end?)
    })
}

/// Where threads meet.
struct ThreadRendezvous {
    state: Mutex<Meeting>,
    changed: Condvar,
    threads: usize,
}

#[derive(Default)]
struct Meeting {
    /// Meetings that are over.
    number: u64,
    came: Vec<(usize, [u64; 3])>,
    /// What all brought to the last one.
    last: Vec<[u64; 3]>,
    failed: bool,
}

impl ThreadRendezvous {
    fn new(threads: usize) -> Self {
        Self {
            state: Mutex::default(),
            changed: Condvar::new(),
            threads,
        }
    }

    fn fail(&self) {
        self.state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .failed = true;
        self.changed.notify_all();
    }
}

struct Thread<'b> {
    rank: usize,
    rendezvous: &'b ThreadRendezvous,
}

impl Ranks for Thread<'_> {
    fn rank(&self) -> usize {
        self.rank
    }

    fn ranks(&self) -> usize {
        self.rendezvous.threads
    }

    fn gather(&mut self, numbers: [u64; 3]) -> farslot_bench::Result<Vec<[u64; 3]>> {
        let rendezvous = self.rendezvous;
        let mut state = rendezvous
            .state
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let number = state.number;
        state.came.push((self.rank, numbers));
        if state.came.len() == rendezvous.threads {
            let mut came = std::mem::take(&mut state.came);
            came.sort_unstable();
            state.last = came.into_iter().map(|(_, numbers)| numbers).collect();
            state.number += 1;
            rendezvous.changed.notify_all();
        }
        while state.number == number && !state.failed {
            let waited = rendezvous.changed.wait(state);
            state = waited.unwrap_or_else(PoisonError::into_inner);
        }
        if state.number == number {
            return Err(BenchError::RankFailed);
        }
        Ok(state.last.clone())
    }
}

/// A set of another crate.
trait LibrarySet: Default {
    fn with_room(elements: usize) -> Self;

    /// Inserts words one after the other; returns how many were new.
    fn insert_all(&self, words: &[u64]) -> u64;
}

impl LibrarySet for Papaya {
    fn with_room(elements: usize) -> Self {
        Self::with_capacity_and_hasher(elements, RandomState::default())
    }

    fn insert_all(&self, words: &[u64]) -> u64 {
        let pinned = self.pin();
        words
            .iter()
            .map(|word| u64::from(pinned.insert(*word)))
            .sum()
    }
}

impl LibrarySet for Dashmap {
    fn with_room(elements: usize) -> Self {
        Self::with_capacity_and_hasher(elements, RandomState::default())
    }

    fn insert_all(&self, words: &[u64]) -> u64 {
        words.iter().map(|word| u64::from(self.insert(*word))).sum()
    }
}

/// One thread's handle of a set behind a lock, which is taken once for many elements.
struct LockedSet<'s, S> {
    name: &'static str,
    set: &'s RwLock<S>,
    slots: u64,
}

impl<S: LibrarySet> Subject for LockedSet<'_, S> {
    fn name(&self) -> &str {
        self.name
    }

    fn renew(&mut self, rank: usize) -> farslot_bench::Result<()> {
        if rank == 0 {
            let mut set = self.set.write().unwrap_or_else(PoisonError::into_inner);
            // The old one's memory first.
            *set = S::default();
            *set = S::with_room(self.slots as usize);
        }
        Ok(())
    }

    fn find_or_put_all(&mut self, words: &[u64]) -> farslot_bench::Result<Answers> {
        let set = self.set.read().unwrap_or_else(PoisonError::into_inner);
        let inserted = set.insert_all(words);
        Ok(Answers { inserted, full: 0 })
    }
}
