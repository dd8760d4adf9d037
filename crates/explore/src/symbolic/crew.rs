//! The workers of a symbolic exploration: how they stop together, and what they give each other to
//! do.
//!
//! A worker is a thread of one of the processes, its *ranks*. All words below lie in memory that
//! all of them have mapped.
//!
//! ```text
//! each rank's region, in words; each item on a cache line of its own:
//!   request | failed | order | memory | room | entries            rank 0's are used
//!   then for each of the rank's threads: arrived | head | tail | slots of hints
//! ```
//!
//! **Stopping.** Any worker may request that all of them stop, for one of several [`StopReason`]s,
//! by swapping the request's number for the next one. Workers look at it with every operation that
//! they put into the cache. Whoever sees it comes to a barrier; behind it all do their shares of
//! what was requested, with barriers in between. A worker arrives at a barrier by storing how many
//! it has come to, and waits until all others have stored as much. If the process of one that is
//! waited for has ended, or a worker has failed, the others end with an error.
//!
//! **Hints.** Before a worker does several independent operations, it lists all but the first as
//! hints. Others take the oldest of them, do them, and put what comes out into the cache, where the
//! worker finds it when it comes to that operation. Nobody waits for a result: an operation that is
//! not in the cache yet is done once more. So a hint that is lost, or done twice, or in vain, costs
//! time only.

use crate::error::{ExploreError, RankError};
use farslot_fabric::shm::MappedWords;
use farslot_set::Share;
use farslot_set::job::JobError;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Words of a cache line.
const LINE: usize = 8;
const REQUEST: usize = 0;
const FAILED: usize = LINE;
const ARGUMENTS: usize = 2 * LINE;
/// Words before those of the first thread.
const HEADER: usize = 6 * LINE;
/// Words of a thread: where it has arrived, and its hints.
const ARRIVED: usize = 0;
const HEAD: usize = LINE;
const TAIL: usize = 2 * LINE;
const SLOTS: usize = 3 * LINE;
/// Hints that a thread lists at most.
const HINTS: usize = 256;
const OF_THREAD: usize = SLOTS + HINTS;

/// Most threads of a process.
pub(super) const MAX_THREADS: usize = 1 << 10;

/// Turns of a waiting worker before it lets others run, and before it sleeps.
const SPINS: u32 = 200;
const YIELDS: u32 = 400;
const NAP: Duration = Duration::from_micros(50);
const NAPS: u32 = 40;

/// Why all workers stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StopReason {
    /// To use more memory. Whatever they are doing goes on afterwards.
    Grow = 1,
    /// To drop what is not live. Only worker 0's diagrams are kept: the others give up what they
    /// are doing.
    Collect = 2,
    /// To begin anew, with another order of the places.
    Restart = 3,
    /// For good.
    End = 4,
}

impl StopReason {
    fn of(number: u64) -> Option<Self> {
        let all = [Self::Grow, Self::Collect, Self::Restart, Self::End];
        all.into_iter().find(|stop| *stop as u64 == number)
    }
}

/// What a stop is for, in numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Arguments {
    /// The order of the places, by its number.
    pub(super) order: u64,
    /// Bytes that nodes and cache may take.
    pub(super) memory: u64,
    /// Pairs, and cache entries, of each rank from then on.
    pub(super) room: u64,
    pub(super) entries: u64,
}

/// One of the operations that a worker has listed for others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WorkHint {
    /// Fire this transition in this node.
    Fire { transition: u32, node: u32 },
    /// The union of two nodes.
    Union { one: u32, two: u32 },
}

const IS_UNION: u64 = 1 << 63;
const NODE_BITS: u32 = 31;

impl WorkHint {
    fn to_word(self) -> u64 {
        match self {
            Self::Fire { transition, node } => u64::from(transition) << NODE_BITS | u64::from(node),
            Self::Union { one, two } => IS_UNION | u64::from(one) << NODE_BITS | u64::from(two),
        }
    }

    fn of_word(word: u64) -> Self {
        let node = (word & ((1 << NODE_BITS) - 1)) as u32;
        if word & IS_UNION != 0 {
            let one = (word >> NODE_BITS) & ((1 << NODE_BITS) - 1);
            return Self::Union {
                one: one as u32,
                two: node,
            };
        }
        Self::Fire {
            transition: (word >> NODE_BITS) as u32,
            node,
        }
    }
}

/// What a worker knows of the others.
#[derive(Debug)]
pub(super) struct Crew {
    parts: Arc<[MappedWords]>,
    rank: usize,
    thread: usize,
    threads: usize,
    /// The request that was followed last.
    seen: u64,
    /// Barriers that this worker has come to.
    arrived: u64,
    /// Hints are taken from this worker next.
    victim: usize,
}

/// Bytes of a rank's region for so many threads.
pub(super) const fn region_bytes(threads: usize) -> u64 {
    ((HEADER + threads * OF_THREAD) * 8) as u64
}

impl Crew {
    /// Worker `thread` of `rank`, where each rank has `threads` threads and `parts` are all ranks'
    /// regions, zeros in the beginning.
    pub(super) fn new(
        parts: Arc<[MappedWords]>,
        rank: usize,
        thread: usize,
        threads: usize,
    ) -> Result<Self, ExploreError> {
        let needed = region_bytes(threads);
        for (rank, part) in parts.iter().enumerate() {
            let found = part.len() as u64 * 8;
            if found < needed {
                return Err(RankError::WrongMemory {
                    rank,
                    found,
                    needed,
                }
                .into());
            }
        }
        Ok(Self {
            rank,
            thread,
            threads,
            seen: 0,
            arrived: 0,
            victim: rank * threads + thread,
            parts,
        })
    }

    fn workers(&self) -> usize {
        self.parts.len() * self.threads
    }

    /// This worker's share of what all do.
    pub(super) fn share(&self) -> Share {
        Share {
            worker: (self.rank * self.threads + self.thread) as u64,
            workers: self.workers() as u64,
        }
    }

    /// Whether there is no other worker.
    pub(super) fn is_alone(&self) -> bool {
        self.workers() == 1
    }

    fn of_worker(&self, worker: usize) -> &[AtomicU64] {
        let part = &self.parts[worker / self.threads];
        &part[HEADER + worker % self.threads * OF_THREAD..][..OF_THREAD]
    }

    fn hints(&self) -> &[AtomicU64] {
        self.of_worker(self.rank * self.threads + self.thread)
    }

    /// Whether all are to stop. To be asked often.
    #[inline]
    pub(super) fn is_requested(&self) -> bool {
        self.parts[0][REQUEST].load(Ordering::Relaxed) != self.seen
    }

    /// What all are to stop for.
    pub(super) fn requested(&self) -> Option<StopReason> {
        let request = self.parts[0][REQUEST].load(Ordering::Acquire);
        (request != self.seen).then(|| StopReason::of(request & 0xff))?
    }

    /// Requests that all stop; false where another has done so.
    pub(super) fn request(&mut self, stop: StopReason, arguments: Arguments) -> bool {
        let next = ((self.seen >> 8) + 1) << 8 | stop as u64;
        let (done, missed) = (Ordering::AcqRel, Ordering::Relaxed);
        let request = &self.parts[0][REQUEST];
        if request
            .compare_exchange(self.seen, next, done, missed)
            .is_err()
        {
            return false;
        }
        // Before the barrier, behind which all read them.
        let Arguments {
            order,
            memory,
            room,
            entries,
        } = arguments;
        for (at, word) in [order, memory, room, entries].into_iter().enumerate() {
            self.parts[0][ARGUMENTS + at * LINE].store(word, Ordering::Relaxed);
        }
        true
    }

    /// Comes to the barrier that a request begins with. Behind it all workers know what it is for.
    pub(super) fn stop(&mut self) -> Result<(StopReason, Arguments), ExploreError> {
        let request = self.parts[0][REQUEST].load(Ordering::Acquire);
        self.barrier()?;
        self.seen = request;
        let [order, memory, room, entries] =
            [0, 1, 2, 3].map(|at| self.parts[0][ARGUMENTS + at * LINE].load(Ordering::Relaxed));
        let arguments = Arguments {
            order,
            memory,
            room,
            entries,
        };
        let stop = StopReason::of(request & 0xff);
        let stop = stop.ok_or_else(|| RankError::malformed(0, "a request of no kind"))?;
        Ok((stop, arguments))
    }

    /// Waits until all workers have come to this barrier.
    pub(super) fn barrier(&mut self) -> Result<(), ExploreError> {
        self.arrived += 1;
        self.hints()[ARRIVED].store(self.arrived, Ordering::Release);
        for worker in 0..self.workers() {
            let mut idle = Idle::default();
            while self.of_worker(worker)[ARRIVED].load(Ordering::Acquire) < self.arrived {
                self.check()?;
                idle.wait();
                let rank = worker / self.threads;
                if idle.is_long() && rank != self.rank && self.parts[rank].is_gone() {
                    self.fail();
                    let rank = rank as u32;
                    return Err(RankError::Job(JobError::RankDied { rank }).into());
                }
            }
        }
        Ok(())
    }

    /// Fails where another worker has.
    pub(super) fn check(&self) -> Result<(), ExploreError> {
        match self.parts[0][FAILED].load(Ordering::Relaxed) {
            0 => Ok(()),
            worker => Err(RankError::GaveUp {
                rank: (worker - 1) as usize / self.threads,
            }
            .into()),
        }
    }

    /// Says that this worker has failed, so that no other waits for it.
    pub(super) fn fail(&self) {
        let worker = 1 + self.share().worker;
        let failed = &self.parts[0][FAILED];
        let _ = failed.compare_exchange(0, worker, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Fails where another worker has, or where rank 0's process, which all depend on, has ended.
    pub(super) fn check_all(&self) -> Result<(), ExploreError> {
        if self.rank != 0 && self.parts[0].is_gone() {
            return Err(RankError::Job(JobError::RankDied { rank: 0 }).into());
        }
        self.check()
    }

    /// Where this worker's list of hints ends, to be given to [`Crew::unlist`].
    #[inline]
    pub(super) fn listed(&self) -> u64 {
        self.hints()[TAIL].load(Ordering::Relaxed)
    }

    /// Lists an operation that this worker is going to do; nothing where the list is full.
    #[inline]
    pub(super) fn list(&self, hint: WorkHint) {
        let hints = self.hints();
        let tail = hints[TAIL].load(Ordering::Relaxed);
        if tail.wrapping_sub(hints[HEAD].load(Ordering::Relaxed)) < HINTS as u64 {
            hints[SLOTS + tail as usize % HINTS].store(hint.to_word(), Ordering::Relaxed);
            hints[TAIL].store(tail + 1, Ordering::Release);
        }
    }

    /// Takes back what was listed since [`Crew::listed`] said `end`.
    #[inline]
    pub(super) fn unlist(&self, end: u64) {
        let hints = self.hints();
        let head = hints[HEAD].load(Ordering::Relaxed);
        hints[TAIL].store(end.max(head), Ordering::Relaxed);
    }

    /// Forgets all that this worker has listed: for when all have stopped.
    pub(super) fn unlist_all(&self) {
        let hints = self.hints();
        hints[TAIL].store(0, Ordering::Relaxed);
        hints[HEAD].store(0, Ordering::Relaxed);
    }

    /// Takes a hint of another worker's.
    pub(super) fn take(&mut self) -> Option<WorkHint> {
        let (worker_number, workers) = (self.share().worker as usize, self.workers());
        for ahead in 0..workers {
            let worker = (self.victim + ahead) % workers;
            if worker == worker_number {
                continue;
            }
            let of = self.of_worker(worker);
            let (head, tail) = (
                of[HEAD].load(Ordering::Relaxed),
                of[TAIL].load(Ordering::Acquire),
            );
            // The list ends before its head where hints were taken that are no longer listed.
            if tail <= head || tail - head > HINTS as u64 {
                continue;
            }
            let word = of[SLOTS + head as usize % HINTS].load(Ordering::Relaxed);
            let (done, missed) = (Ordering::Relaxed, Ordering::Relaxed);
            if of[HEAD]
                .compare_exchange(head, head + 1, done, missed)
                .is_ok()
            {
                self.victim = worker;
                return Some(WorkHint::of_word(word));
            }
        }
        None
    }
}

/// A worker that waits, ever less eagerly.
#[derive(Debug, Default)]
pub(super) struct Idle(u32);

impl Idle {
    pub(super) fn wait(&mut self) {
        self.0 = self.0.saturating_add(1);
        if self.0 <= SPINS {
            std::hint::spin_loop();
        } else if self.0 <= YIELDS {
            std::thread::yield_now();
        } else {
            std::thread::sleep(NAP);
        }
    }

    /// Whether it has waited for some milliseconds; now and then, for this to be asked about.
    pub(super) fn is_long(&self) -> bool {
        self.0 > YIELDS && self.0.is_multiple_of(NAPS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_come_back() {
        let most = (1 << NODE_BITS) - 1;
        for hint in [
            WorkHint::Fire {
                transition: u32::MAX,
                node: most,
            },
            WorkHint::Union {
                one: most,
                two: most - 1,
            },
            WorkHint::Fire {
                transition: 0,
                node: 2,
            },
        ] {
            assert_eq!(WorkHint::of_word(hint.to_word()), hint);
        }
    }
}
