//! What a client remembers of cleaning a heap, and of evicting records from it.

use super::coroutine_lock::CoroutineLock;
use super::layout::RecordView;
use super::pages::PageWord;
use super::seen::SeenRun;
use farslot_fabric::Nanos;
use serde::{Deserialize, Serialize};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ops::Range;

/// How far a run was cleaned.
#[derive(Clone, Copy)]
pub(super) struct Interrupted {
    /// The run, as this client has claimed it, or left it when its turn was over.
    pub(super) run: SeenRun,
    /// What it is again if it cannot be freed.
    pub(super) sealed: PageWord,
    /// What becomes of its records, and the byte of it up to which that is done.
    pub(super) fate: RecordFate,
    pub(super) done: u64,
}

/// Runs that are to be cleaned one after the other, as they were seen, and what is free by then.
pub(super) struct CleaningPlan {
    /// The next one last.
    pub(super) runs: Vec<SeenRun>,
    /// Bytes of pages that are free, those of the runs that were cleaned so far included.
    pub(super) free: u64,
    /// When the runs were seen.
    pub(super) since: Nanos,
}

/// What a client remembers of its cleaning.
#[derive(Default)]
pub(super) struct CleanerState {
    /// Taken by the coroutine that cleans.
    pub(super) lock: CoroutineLock,
    /// Runs that were emptied for the record that an evicting heap has no room for yet: those of
    /// calls, whose turns end.
    pub(super) emptied: Cell<u32>,
    /// Whether another client was faster at a run that this one was about to clean.
    pub(super) lost: Cell<bool>,
    /// How often room was looked for.
    pub(super) cleaned: Cell<u64>,
    /// Pages that are to be free together: nothing is moved into them.
    pub(super) row: RefCell<Range<u64>>,
    /// When it may look again at what nobody knows to be dead, how often in a row that was in vain,
    /// and the page at which it goes on.
    pub(super) explores_at: Cell<Nanos>,
    pub(super) in_vain: Cell<u32>,
    pub(super) explored: Cell<u64>,
    /// A run that it cleans, up to which byte of it: a call's turn was over before it was done.
    pub(super) interrupted: RefCell<Option<Interrupted>>,
    /// What a call's turn has left to clean: the next operation that finds no room goes on with it.
    pub(super) planned: RefCell<Option<CleaningPlan>>,
    /// Whether such a turn was over before there was room: a look for some would be in vain.
    pub(super) is_cut: Cell<bool>,
    /// Claims of other clients, and since when they stand.
    pub(super) standing: RefCell<HashMap<u64, (PageWord, Nanos)>>,
    /// The heap's ticks as this client saw them last, and since when.
    pub(super) tick: Cell<Option<(u64, Nanos)>>,
}

/// Pages that are to be free together, until this is dropped.
pub(super) struct KeptRow<'c> {
    cleaning: &'c CleanerState,
    before: Range<u64>,
}

impl CleanerState {
    pub(super) fn keep_free(&self, row: Range<u64>) -> KeptRow<'_> {
        KeptRow {
            cleaning: self,
            before: self.row.replace(row),
        }
    }
}

impl Drop for KeptRow<'_> {
    fn drop(&mut self) {
        self.cleaning.row.replace(self.before.clone());
    }
}

/// Which records a table forgets when its heap is full.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Evicting {
    /// Any.
    All,
    /// Those that end at some time: whose values begin with six bytes that are not all 0. The
    /// others stay, and a record that finds no room beside them is refused.
    Expiring,
}

impl Evicting {
    /// Both of them.
    pub const ALL: [Self; 2] = [Self::All, Self::Expiring];

    /// Its name in options, output and catalogs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Expiring => "expiring",
        }
    }
}

/// What becomes of the records of a run that is emptied.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum RecordFate {
    /// They are moved.
    Moved,
    /// Those that were read are, and those of at most so many bytes of key and value; the others
    /// are forgotten if they may be.
    MovedIfRead {
        /// Bytes of a small one.
        small: u64,
    },
    /// All are forgotten that may be.
    Forgotten,
}

/// What a client knows of the evictions of a heap.
pub(super) struct Eviction {
    pub(super) of: Evicting,
    /// Whether this client may say what it has read.
    pub(super) may_hint: bool,
    /// Heads of records that it has read, and the granules at which they are; and how often it has
    /// read one of them again.
    pub(super) read: RefCell<Vec<(u64, u64)>>,
    pub(super) again: Cell<usize>,
    /// Whether the records that are moved just now go to runs of kept ones.
    pub(super) keeps: Cell<bool>,
}

impl Eviction {
    pub(super) fn new(of: Evicting, may_hint: bool) -> Self {
        Self {
            of,
            may_hint,
            read: RefCell::default(),
            again: Cell::new(0),
            keeps: Cell::new(false),
        }
    }

    /// Whether a record stays, of a run that is emptied so.
    pub(super) fn keeps(&self, record: &RecordView<'_>, fate: RecordFate) -> bool {
        let bytes = (record.key.len() + record.value.len()) as u64;
        let is_worth_it = match fate {
            RecordFate::Moved => true,
            RecordFate::MovedIfRead { small } => record.was_read() || bytes <= small,
            RecordFate::Forgotten => false,
        };
        is_worth_it || !self.may_forget(record.value)
    }

    pub(super) fn may_forget(&self, value: &[u8]) -> bool {
        match self.of {
            Evicting::All => true,
            Evicting::Expiring => value.iter().take(6).any(|byte| *byte != 0),
        }
    }
}
