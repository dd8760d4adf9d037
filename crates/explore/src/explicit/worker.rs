//! The threads of an exploration: how a level is expanded.

use super::level::{Blocks, Collector, ExpandedLevel};
use super::options::{Options, Progress};
use super::store::{Coder, StateStore};
use crate::error::ExploreError;
use crate::model::{Model, Successors, Tokens};
use farslot_set::Outcome;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Barrier, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};

/// Successors that are looked up together.
const BATCH: usize = 1024;

/// Sums over the states that were expanded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Totals {
    /// States found.
    pub(super) states: u64,
    pub(super) transitions: u64,
    pub(super) deadlocks: u64,
    /// The level of the states found last.
    pub(super) depth: u64,
    pub(super) tokens: Option<Tokens>,
    /// The code of a state that violates the invariant.
    pub(super) violation: Option<u64>,
}

impl Totals {
    /// Adds what one thread has found in a level.
    fn add(&mut self, other: &Self) {
        self.states += other.states;
        self.transitions += other.transitions;
        self.deadlocks += other.deadlocks;
        self.tokens = match (self.tokens, other.tokens) {
            (Some(one), Some(two)) => Some(one.max(two)),
            (one, two) => one.or(two),
        };
        // The same whichever thread came first.
        self.violation = match (self.violation, other.violation) {
            (Some(one), Some(two)) => Some(one.min(two)),
            (one, two) => one.or(two),
        };
    }
}

/// What the threads of an exploration share.
pub(super) struct Search<'m, M> {
    pub(super) model: &'m M,
    options: &'m Options,
    progress: &'m Progress,
    /// Held for reading by every thread that works with the set, for writing by the one that
    /// enlarges it.
    store: RwLock<StateStore>,
    /// The level that is being expanded. Written between barriers only.
    level: RwLock<Blocks>,
    /// The next block that no thread has taken.
    next_block: AtomicUsize,
    found: Mutex<(Blocks, Totals)>,
    failed: Mutex<Option<ExploreError>>,
    /// A thread has failed: the others need not go on.
    stop: AtomicBool,
    dismissed: AtomicBool,
    /// Passed by all threads before and after each level.
    barrier: Barrier,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<'m, M: Model> Search<'m, M> {
    pub(super) fn new(
        model: &'m M,
        options: &'m Options,
        progress: &'m Progress,
    ) -> Result<Self, ExploreError> {
        Ok(Self {
            model,
            options,
            progress,
            store: RwLock::new(StateStore::new(model.bits())?),
            level: RwLock::default(),
            next_block: AtomicUsize::new(0),
            found: Mutex::default(),
            failed: Mutex::default(),
            stop: AtomicBool::new(false),
            dismissed: AtomicBool::new(false),
            barrier: Barrier::new(options.threads.get()),
        })
    }

    pub(super) fn checks_invariant(&self) -> bool {
        self.options.check_invariant
    }

    pub(super) fn read_store(&self) -> RwLockReadGuard<'_, StateStore> {
        self.store.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn bytes(&self) -> u64 {
        self.read_store().bytes()
    }

    pub(super) fn words(&self) -> usize {
        self.model.bits().div_ceil(64)
    }

    /// Tells whoever looks where the search is.
    pub(super) fn show(&self, totals: &Totals) {
        let progress = self.progress;
        progress.states.store(totals.states, Ordering::Relaxed);
        progress
            .transitions
            .store(totals.transitions, Ordering::Relaxed);
        progress.depth.store(totals.depth, Ordering::Relaxed);
        progress.bytes.store(self.bytes(), Ordering::Relaxed);
    }

    /// Expands a level, together with the helping threads.
    pub(super) fn expand(
        &self,
        worker: &mut Worker<'_, 'm, M>,
        level: Blocks,
        totals: &mut Totals,
    ) -> Result<ExpandedLevel, ExploreError> {
        *self.level.write().unwrap_or_else(PoisonError::into_inner) = level;
        self.next_block.store(0, Ordering::Relaxed);
        self.barrier.wait();
        self.take_part(worker);
        self.barrier.wait();
        if let Some(error) = lock(&self.failed).take() {
            return Err(error);
        }
        let (next, found) = std::mem::take(&mut *lock(&self.found));
        totals.add(&found);
        let mut level = self.level.write().unwrap_or_else(PoisonError::into_inner);
        let current = std::mem::take(&mut *level);
        Ok(ExpandedLevel { current, next })
    }

    /// A helping thread: takes part in every level until it is dismissed.
    pub(super) fn help(&self) {
        let mut worker = Worker::new(self);
        loop {
            self.barrier.wait();
            if self.dismissed.load(Ordering::Acquire) {
                return;
            }
            self.take_part(&mut worker);
            self.barrier.wait();
        }
    }

    /// Lets the helping threads end.
    pub(super) fn dismiss(&self) {
        self.dismissed.store(true, Ordering::Release);
        self.barrier.wait();
    }

    /// One thread's part of a level. It always returns, so that no thread waits for it for ever.
    fn take_part(&self, worker: &mut Worker<'_, 'm, M>) {
        let level = self.level.read().unwrap_or_else(PoisonError::into_inner);
        let worked = catch_unwind(AssertUnwindSafe(|| worker.expand(&level)));
        match worked {
            Ok(Ok(())) => {}
            Ok(Err(error)) => self.fail(error),
            Err(_) => self.fail(ExploreError::Panicked),
        }
        let mut found = lock(&self.found);
        found.1.add(&std::mem::take(&mut worker.totals));
        found.0.append(worker.found.finish());
    }

    fn fail(&self, error: ExploreError) {
        self.stop.store(true, Ordering::Relaxed);
        lock(&self.failed).get_or_insert(error);
    }

    /// Enlarges the set, unless another thread has done so meanwhile.
    fn grow(&self, bytes_before: u64) -> Result<(), ExploreError> {
        let mut store = self.store.write().unwrap_or_else(PoisonError::into_inner);
        if store.bytes() > bytes_before {
            return Ok(());
        }
        store.grow(self.options.memory)?;
        self.progress.bytes.store(store.bytes(), Ordering::Relaxed);
        Ok(())
    }
}

/// One thread, with what it works with.
pub(super) struct Worker<'s, 'm, M> {
    search: &'s Search<'m, M>,
    coder: Coder,
    successors: Successors,
    codes: Vec<u64>,
    found: Collector,
    totals: Totals,
}

impl<'s, 'm, M: Model> Worker<'s, 'm, M> {
    pub(super) fn new(search: &'s Search<'m, M>) -> Self {
        Self {
            search,
            coder: search.read_store().coder(),
            successors: Successors::new(search.words()),
            codes: Vec::with_capacity(BATCH),
            found: Collector::default(),
            totals: Totals::default(),
        }
    }

    pub(super) fn coder(&mut self) -> &mut Coder {
        &mut self.coder
    }

    /// Inserts the states with these words, and returns those that were new.
    pub(super) fn insert(&mut self, states: &[u64]) -> Result<Blocks, ExploreError> {
        for state in states.chunks_exact(self.search.words()) {
            self.successors.push(0, state);
        }
        self.look_up()?;
        self.totals = Totals::default();
        Ok(self.found.finish())
    }

    fn expand(&mut self, level: &Blocks) -> Result<(), ExploreError> {
        let search = self.search;
        let mut state = vec![0; search.words()];
        loop {
            let number = search.next_block.fetch_add(1, Ordering::Relaxed);
            let Some(block) = level.block(number) else {
                return self.look_up();
            };
            let mut store = search.read_store();
            for &code in block {
                store.decode(&mut self.coder, code, &mut state)?;
                self.expand_state(code, &state)?;
                if self.successors.len() >= BATCH {
                    drop(store);
                    self.look_up()?;
                    store = search.read_store();
                }
            }
            if search.stop.load(Ordering::Relaxed) {
                return Ok(());
            }
        }
    }

    #[inline]
    fn expand_state(&mut self, code: u64, state: &[u64]) -> Result<(), ExploreError> {
        let model = self.search.model;
        if let Some(tokens) = model.tokens(state) {
            let before = self.totals.tokens.unwrap_or_default();
            self.totals.tokens = Some(before.max(tokens));
        }
        if self.search.options.check_invariant && !model.invariant(state) {
            let first = self.totals.violation.map_or(code, |other| other.min(code));
            self.totals.violation = Some(first);
        }
        let before = self.successors.len();
        model.successors(state, &mut self.successors)?;
        let new = self.successors.len() - before;
        self.totals.deadlocks += u64::from(new == 0);
        self.totals.transitions += new as u64;
        Ok(())
    }

    /// Finds or inserts all successors that wait for it, and collects the new ones.
    fn look_up(&mut self) -> Result<(), ExploreError> {
        let mut done = 0;
        let before = self.totals.states;
        while done < self.successors.len() {
            done = self.look_up_from(done)?;
        }
        let progress = self.search.progress;
        let states = self.totals.states - before;
        progress.states.fetch_add(states, Ordering::Relaxed);
        progress
            .transitions
            .fetch_add(done as u64, Ordering::Relaxed);
        self.successors.clear();
        Ok(())
    }

    /// Looks up successors from number `start` on. Returns how far it came: to the end, or to where
    /// the set had no room, which it has then.
    fn look_up_from(&mut self, start: usize) -> Result<usize, ExploreError> {
        let words = self.search.words();
        let store = self.search.read_store();
        self.codes.clear();
        for state in self.successors.states()[start * words..].chunks_exact(words) {
            match store.encode(&mut self.coder, state) {
                Some(code) => self.codes.push(code),
                None => break,
            }
        }
        let mut first_full = None;
        let (found, totals) = (&mut self.found, &mut self.totals);
        store.put_all(&self.codes, |at, put| match put {
            Outcome::Inserted(()) => {
                found.add(self.codes[at]);
                totals.states += 1;
            }
            Outcome::Found(()) => {}
            Outcome::Full => first_full = first_full.or(Some(at)),
        })?;
        let came = start + first_full.unwrap_or(self.codes.len());
        if came < self.successors.len() || store.is_crowded() {
            let bytes = store.bytes();
            drop(store);
            self.search.grow(bytes)?;
        }
        Ok(came)
    }
}
