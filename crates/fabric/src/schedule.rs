//! Threads that reach mapped memory in an order that a seed draws: for tests (feature `schedule`).
//!
//! What a client does in memory that is mapped is loads, stores and swaps of the processor, which
//! no simulated fabric sees. Under a schedule one thread of several runs at a time. Before a word
//! is loaded, stored or swapped, and whenever a thread would wait, the seed says which goes on. So
//! every order of accesses can come about, a copy of several words is torn as it is on a machine,
//! and a thread can stop for good before any access. The clock of a shared-memory endpoint counts
//! accesses then. A run of a seed is always the same, as long as what the threads do depends on
//! nothing else.
//!
//! Not found by this is what a processor or a compiler may reorder: that is what loom models are
//! for.

use crate::Nanos;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// By how much the clock goes on when a thread waits.
const WAIT: Nanos = 1_000;
/// How often the clock jumps where a turn ends.
const JUMPS: f64 = 0.02;

/// How threads take turns.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What all else is drawn from.
    pub seed: u64,
    /// The time of the clock at first.
    pub begins_at: Nanos,
    /// The longest turn, in accesses; 1 or more.
    pub longest_turn: u64,
    /// By the threads' numbers, before which access each stops for good, if it does.
    pub stops: Vec<Option<u64>>,
    /// How far the clock may jump where a turn ends, as if the next thread had waited for long; 0
    /// for not at all.
    pub longest_jump: Nanos,
    /// Whether swaps now and then take place although the word is another: a mistake that a test is
    /// to find.
    pub swaps_blindly: bool,
}

struct State {
    rng: ChaCha8Rng,
    clock: Nanos,
    current: usize,
    alive: Vec<bool>,
    accesses: u64,
}

struct ScheduleCore {
    plan: Plan,
    state: Mutex<State>,
    /// One for each thread.
    turned: Vec<Condvar>,
}

/// A thread's place in a schedule.
#[derive(Clone)]
struct ScheduledThread {
    shared: Arc<ScheduleCore>,
    number: usize,
}

/// The payload of a thread that has stopped.
struct StopPayload;

thread_local! {
    static PLACE: RefCell<Option<ScheduledThread>> = const { RefCell::new(None) };
    /// Accesses until the turn is over; those of threads without a schedule never are.
    static LEFT: Cell<u64> = const { Cell::new(u64::MAX) };
    /// Accesses of the turn, and those of all turns before.
    static TURN: Cell<(u64, u64)> = const { Cell::new((0, 0)) };
}

/// What threads under a schedule have come to.
#[derive(Debug)]
pub struct Ended<T> {
    /// Their results, by their numbers; nothing of those that stopped.
    pub results: Vec<Option<T>>,
    /// Accesses of all.
    pub accesses: u64,
    /// The time of the clock at last.
    pub at: Nanos,
}

/// Runs so many threads under a plan.
///
/// # Panics
/// If one of the threads does.
pub fn run<T: Send>(plan: &Plan, threads: usize, work: impl Fn(usize) -> T + Sync) -> Ended<T> {
    let shared = Arc::new(ScheduleCore {
        state: Mutex::new(State {
            rng: ChaCha8Rng::seed_from_u64(plan.seed),
            clock: plan.begins_at,
            current: 0,
            alive: vec![true; threads],
            accesses: 0,
        }),
        turned: (0..threads).map(|_| Condvar::new()).collect(),
        plan: plan.clone(),
    });
    let work = &work;
    let results = std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads)
            .map(|number| {
                let place = ScheduledThread {
                    shared: Arc::clone(&shared),
                    number,
                };
                scope.spawn(move || place.take_turns(|| work(number)))
            })
            .collect();
        let ended = running.into_iter().map(std::thread::ScopedJoinHandle::join);
        ended.collect::<Vec<_>>()
    });
    let results = results.into_iter().map(|result| match result {
        Ok(result) => result,
        Err(panic) => resume_unwind(panic),
    });
    let results = results.collect();
    let state = shared.lock();
    Ended {
        results,
        accesses: state.accesses,
        at: state.clock,
    }
}

impl ScheduleCore {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ScheduledThread {
    /// Does a thread's work in its turns.
    fn take_turns<T>(self, work: impl FnOnce() -> T) -> Option<T> {
        PLACE.set(Some(self.clone()));
        self.await_turn(self.shared.lock());
        let result = catch_unwind(AssertUnwindSafe(work));
        let mut state = self.shared.lock();
        self.count(&mut state);
        PLACE.set(None);
        LEFT.set(u64::MAX);
        state.alive[self.number] = false;
        self.pass_on(&mut state);
        drop(state);
        match result {
            Ok(result) => Some(result),
            Err(panic) if is_stop(&*panic) => None,
            Err(panic) => resume_unwind(panic),
        }
    }

    /// Adds what this thread has done of its turn to what all have done.
    fn count(&self, state: &mut State) {
        let (turn, before) = TURN.get();
        let done = turn.saturating_sub(LEFT.get());
        TURN.set((LEFT.get(), before + done));
        state.clock += done;
        state.accesses += done;
    }

    /// Has another thread that is alive go on, or this one.
    fn pass_on(&self, state: &mut State) {
        let alive: Vec<usize> = (0..state.alive.len())
            .filter(|at| state.alive[*at])
            .collect();
        if !alive.is_empty() {
            state.current = alive[state.rng.random_range(0..alive.len())];
            self.shared.turned[state.current].notify_one();
        }
    }

    /// Waits until it is this thread's turn, and draws how long that is.
    fn await_turn(&self, mut state: MutexGuard<'_, State>) {
        while state.current != self.number {
            let turned = self.shared.turned[self.number].wait(state);
            state = turned.unwrap_or_else(PoisonError::into_inner);
        }
        let (_, before) = TURN.get();
        let mut turn = state.rng.random_range(1..=self.shared.plan.longest_turn);
        if let Some(stop) = self.stops_at() {
            turn = turn.min(stop.saturating_sub(before).max(1));
        }
        LEFT.set(turn);
        TURN.set((turn, before));
    }

    fn stops_at(&self) -> Option<u64> {
        self.shared.plan.stops.get(self.number).copied().flatten()
    }

    /// Ends this thread's turn before an access, and perhaps this thread.
    fn give_way(&self) {
        let mut state = self.shared.lock();
        self.count(&mut state);
        let (_, before) = TURN.get();
        if self.stops_at().is_some_and(|stop| before >= stop) {
            LEFT.set(u64::MAX);
            TURN.set((u64::MAX, before));
            drop(state);
            PLACE.set(None);
            resume_unwind(Box::new(StopPayload));
        }
        let longest = self.shared.plan.longest_jump;
        if longest > 0 && state.rng.random_bool(JUMPS) {
            state.clock += state.rng.random_range(0..longest);
        }
        self.pass_on(&mut state);
        self.await_turn(state);
    }

    fn wait(&self, deadline: Option<Nanos>) {
        let mut state = self.shared.lock();
        self.count(&mut state);
        state.clock += WAIT;
        let is_alone = state.alive.iter().filter(|alive| **alive).count() == 1;
        if let (true, Some(deadline)) = (is_alone, deadline) {
            state.clock = state.clock.max(deadline);
        }
        self.pass_on(&mut state);
        self.await_turn(state);
    }
}

fn is_stop(panic: &(dyn Any + Send)) -> bool {
    panic.is::<StopPayload>()
}

/// Nothing on a thread that has ended but for what it drops.
fn place() -> Option<ScheduledThread> {
    PLACE
        .try_with(|place| place.borrow().clone())
        .ok()
        .flatten()
}

/// To be called before each access of a word. Never inlined: where tests are compiled without
/// optimisation, this still is not.
#[inline(never)]
pub(crate) fn before_access() {
    let left = LEFT.get();
    LEFT.set(left - 1);
    if left == 1 {
        turn_is_over();
    }
}

#[cold]
fn turn_is_over() {
    LEFT.set(0);
    // One that stops drops what it has, without a schedule: that writes nothing.
    if let Some(place) = place()
        && !std::thread::panicking()
    {
        place.give_way();
    } else {
        LEFT.set(u64::MAX);
    }
}

/// Whether a swap is to take place whatever the word is.
#[inline(never)]
pub(crate) fn swaps_blindly() -> bool {
    let blindly = |place: &ScheduledThread| {
        place.shared.plan.swaps_blindly && place.shared.lock().rng.random_bool(0.1)
    };
    LEFT.get() < u64::MAX / 2 && place().is_some_and(|place| blindly(&place))
}

/// The time of the schedule that this thread is in: no two calls get the same.
#[must_use]
pub fn now() -> Option<Nanos> {
    let place = place()?;
    let mut state = place.shared.lock();
    place.count(&mut state);
    state.clock += 1;
    Some(state.clock)
}

/// Lets others go on where this thread would wait; false without a schedule.
pub(crate) fn wait(deadline: Option<Nanos>) -> bool {
    let Some(place) = place() else { return false };
    place.wait(deadline);
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::SharedWords;
    use std::sync::atomic::AtomicU64;

    fn plan(seed: u64, stops: Vec<Option<u64>>) -> Plan {
        Plan {
            seed,
            begins_at: 0,
            longest_turn: 1 + seed % 4,
            stops,
            longest_jump: 0,
            swaps_blindly: false,
        }
    }

    /// What three threads leave that each count to 20 by a load and a store.
    fn counted(plan: &Plan) -> (u64, u64) {
        let memory = [AtomicU64::new(0)];
        let words = SharedWords::new(&memory);
        let ended = run(plan, 3, |_| {
            for _ in 0..20 {
                let seen = words.load(0);
                words.copy_in(0, 8, &[seen + 1]);
            }
        });
        (words.load(0), ended.accesses)
    }

    #[test]
    fn a_seed_is_one_order_and_orders_differ() {
        let all: Vec<_> = (0..30).map(|seed| counted(&plan(seed, vec![]))).collect();
        for (seed, first) in (0..).zip(&all) {
            assert_eq!(counted(&plan(seed, vec![])), *first, "seed {seed}");
            assert_eq!(first.1, 3 * 40, "each load and each store is an access");
        }
        let lost: std::collections::HashSet<_> = all.iter().map(|(sum, _)| *sum).collect();
        assert!(
            lost.len() > 5 && lost.iter().all(|sum| *sum < 60),
            "{lost:?}"
        );
    }

    #[test]
    fn a_thread_stops_before_the_access_that_it_is_to() {
        for stop in 1..40 {
            let memory = [AtomicU64::new(0)];
            let words = SharedWords::new(&memory);
            let ended = run(&plan(stop, vec![Some(stop), None]), 2, |number| {
                for _ in 0..40 {
                    if number == 0 {
                        words.fetch_add(0, 1);
                    } else {
                        words.load(0);
                    }
                }
                number
            });
            assert_eq!(ended.results, [None, Some(1)]);
            assert_eq!(words.load(0), stop - 1);
        }
    }

    #[test]
    fn copies_are_torn() {
        let memory: Vec<AtomicU64> = (0..4).map(|_| AtomicU64::new(0)).collect();
        let words = SharedWords::new(&memory);
        let ended = run(&plan(3, vec![]), 2, |number| {
            let mut torn = 0;
            for turn in 1..50 {
                let mut copy = [turn; 4];
                match number {
                    0 => words.copy_in(0, 32, &copy),
                    _ => words.copy_out(0, 32, &mut copy),
                }
                torn += u64::from(copy.iter().any(|word| *word != copy[0]));
            }
            torn
        });
        assert!(ended.results[1] > Some(10), "{ended:?}");
    }
}
