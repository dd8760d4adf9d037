//! Threads of one simulated world that take turns: one runs at a time. Wherever one waits for a
//! verb, a seed decides which runs next, and by how much the clock jumps before it does. So a seed
//! fixes all that happens, though each thread blocks as the threads of a program do.

use farslot_fabric::Nanos;
use farslot_fabric::sim::World;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::cell::RefCell;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// How often the clock jumps where a thread waits.
const JUMPS: f64 = 0.06;
/// How far at the most.
const LONGEST_JUMP: Nanos = 3_000_000;

thread_local! {
    static OWN: RefCell<Option<(Arc<TurnSchedule>, usize)>> = const { RefCell::new(None) };
}

/// Whose turn it is.
pub(crate) struct TurnSchedule {
    world: World,
    state: Mutex<State>,
    passed: Condvar,
}

struct State {
    rng: ChaCha8Rng,
    /// The threads that have not ended.
    running: Vec<usize>,
    turn: usize,
}

impl TurnSchedule {
    /// Of so many threads.
    pub(crate) fn new(seed: u64, threads: usize, world: World) -> Arc<Self> {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let turn = rng.random_range(0..threads);
        Arc::new(Self {
            world,
            state: Mutex::new(State {
                rng,
                running: (0..threads).collect(),
                turn,
            }),
            passed: Condvar::new(),
        })
    }

    /// Runs one of the threads to its end, on the thread that calls this.
    pub(crate) fn run<T>(self: &Arc<Self>, thread: usize, does: impl FnOnce() -> T) -> T {
        /// Ends the thread also where it panics.
        struct ThreadEnd(usize);
        impl Drop for ThreadEnd {
            fn drop(&mut self) {
                if let Some((turns, _)) = OWN.take() {
                    let mut state = turns.lock();
                    state.running.retain(|thread| *thread != self.0);
                    turns.choose(&mut state);
                }
            }
        }
        OWN.set(Some((Arc::clone(self), thread)));
        let _end = ThreadEnd(thread);
        self.await_turn(self.lock(), thread);
        does()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives the turn to any thread that has not ended.
    fn choose(&self, state: &mut State) {
        if !state.running.is_empty() {
            let at = state.rng.random_range(0..state.running.len());
            state.turn = state.running[at];
            self.passed.notify_all();
        }
    }

    fn await_turn(&self, state: MutexGuard<'_, State>, thread: usize) {
        let waiting = self.passed.wait_while(state, |state| state.turn != thread);
        drop(waiting.unwrap_or_else(PoisonError::into_inner));
    }
}

/// Lets another thread run, if this is one of those that take turns, and returns when it is this
/// one's turn again.
pub(crate) fn pass_on() {
    let current = OWN.with_borrow(Clone::clone);
    let Some((turns, thread)) = current else {
        return;
    };
    let mut state = turns.lock();
    if state.rng.random_bool(JUMPS) {
        let span = state.rng.random_range(0..LONGEST_JUMP);
        turns.world.advance_to(turns.world.now() + span);
    }
    turns.choose(&mut state);
    turns.await_turn(state, thread);
}
