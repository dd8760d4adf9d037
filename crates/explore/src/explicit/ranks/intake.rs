//! What a rank does with the states that it owns.

use super::super::level::{Blocks, Collector};
use super::super::store::{Coder, StateStore};
use crate::error::ExploreError;
use farslot_set::Outcome;

/// States that are looked up together.
const BATCH: usize = 1024;

/// A rank's part of the set, and the states that wait to be looked up in it.
#[derive(Debug)]
pub(super) struct Intake {
    words: usize,
    /// Bits above those of a state, in its last word.
    above: u64,
    memory: u64,
    pub(super) store: StateStore,
    pub(super) coder: Coder,
    waiting: Vec<u64>,
    codes: Vec<u64>,
    found: Collector,
    pub(super) states: u64,
    /// Why it takes no more. The states that come afterwards are dropped, so that no other rank
    /// waits.
    pub(super) failed: Option<ExploreError>,
}

impl Intake {
    pub(super) fn new(bits: usize, memory: u64) -> Result<Self, ExploreError> {
        let store = StateStore::new(bits)?;
        let last = (bits - 1) % 64;
        Ok(Self {
            words: bits.div_ceil(64),
            above: !(u64::MAX >> (63 - last)),
            memory,
            coder: store.coder(),
            store,
            waiting: Vec::new(),
            codes: Vec::with_capacity(BATCH),
            found: Collector::default(),
            states: 0,
            failed: None,
        })
    }

    /// Takes states of this rank's; they are looked up when there are enough of them.
    #[inline]
    pub(super) fn take(&mut self, states: &[u64]) {
        self.waiting.extend_from_slice(states);
        if self.waiting.len() >= BATCH * self.words {
            self.look_up();
        }
    }

    /// Whether what another rank has sent is states: whole ones, and no bits above theirs.
    pub(super) fn are_states(&self, states: &[u64]) -> bool {
        let mut each = states.chunks_exact(self.words);
        let fit = each.all(|state| state[self.words - 1] & self.above == 0);
        fit && states.len().is_multiple_of(self.words)
    }

    /// Finds or inserts all states that wait for it.
    pub(super) fn look_up(&mut self) {
        let waiting = std::mem::take(&mut self.waiting);
        let mut done = 0;
        while self.failed.is_none() && done < waiting.len() {
            match self.look_up_some(&waiting[done..]) {
                Ok(states) => done += states * self.words,
                Err(error) => self.failed = Some(error),
            }
        }
        self.waiting = waiting;
        self.waiting.clear();
    }

    /// Looks up states from the first on, as far as there is room; if that ends before they do,
    /// there is room for more afterwards.
    fn look_up_some(&mut self, states: &[u64]) -> Result<usize, ExploreError> {
        self.codes.clear();
        for state in states.chunks_exact(self.words) {
            match self.store.encode(&mut self.coder, state) {
                Some(code) => self.codes.push(code),
                None => break,
            }
        }
        let mut first_full = None;
        let (found, inserted) = (&mut self.found, &mut self.states);
        self.store.put_all(&self.codes, |at, put| match put {
            Outcome::Inserted(()) => {
                found.add(self.codes[at]);
                *inserted += 1;
            }
            Outcome::Found(()) => {}
            Outcome::Full => first_full = first_full.or(Some(at)),
        })?;
        let came = first_full.unwrap_or(self.codes.len());
        if came < states.len() / self.words || self.store.is_crowded() {
            self.store.grow(self.memory)?;
        }
        Ok(came)
    }

    /// A state that this rank has inserted into the table that all ranks share.
    pub(super) fn inserted(&mut self, code: u64) {
        self.found.add(code);
        self.states += 1;
    }

    /// The new states since this was last asked: their codes.
    pub(super) fn finish(&mut self) -> Blocks {
        self.look_up();
        self.found.finish()
    }
}
