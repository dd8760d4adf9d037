//! The check of a whole history: key by key, and the counterexample when a key fails.

use std::collections::BTreeMap;
use std::fmt;

use thiserror::Error;

use crate::calls::{Call, CallReturn};
use crate::history::{Entry, History, OpId, Outcome};
use crate::report::{OperationFate, Row, Violation};
use crate::wgl::{Verdict, search};
use crate::{HistoryClient, SequentialModel};

/// Steps that may be spent on making a counterexample smaller.
const SHRINK_STEPS: u64 = 1_000_000;

type KeyEntries<'a, M> = Vec<(
    usize,
    &'a Entry<<M as SequentialModel>::Key, <M as SequentialModel>::Op, <M as SequentialModel>::Ret>,
)>;
type KeyCalls<'a, M> = Vec<Call<'a, <M as SequentialModel>::Op, <M as SequentialModel>::Ret>>;

/// Why a history did not pass.
#[derive(Debug, Error)]
pub enum CheckError {
    /// No order of some key's operations explains their results.
    #[error("{0}")]
    NotLinearizable(Box<Violation>),
    /// The search gave up, and no other key's operations were found wanting.
    #[error("{0}")]
    Undecided(Undecided),
}

impl CheckError {
    /// The violation, if that is what it is.
    pub fn violation(&self) -> Option<&Violation> {
        match self {
            CheckError::NotLinearizable(violation) => Some(violation),
            CheckError::Undecided(_) => None,
        }
    }
}

/// The search of one key's operations took more steps than allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Undecided {
    /// The key, as its `Debug` shows it.
    pub key: String,
    /// How many operations were recorded on it.
    pub operations: usize,
    /// The limit.
    pub steps: u64,
}

impl fmt::Display for Undecided {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Undecided {
            key,
            operations,
            steps,
        } = self;
        write!(
            f,
            "key {key}: {operations} operations not judged within {steps} steps"
        )
    }
}

/// What a check that passed has looked at: nothing is a pass too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Keys with at least one operation.
    pub keys: usize,
    /// Operations with a result.
    pub returned: usize,
    /// Operations whose effect is unknown: pending or in doubt.
    pub unknown: usize,
    /// Operations without effect, which were ignored.
    pub ignored: usize,
    /// Steps the search took.
    pub steps: u64,
}

/// Checks `history` against `model` with the default limits: see [`Checker::check`].
pub fn check<M: SequentialModel>(
    history: &History<M::Key, M::Op, M::Ret>,
    model: &M,
) -> Result<Summary, CheckError> {
    Checker::new().check(history, model)
}

/// The check, with its limits.
#[derive(Clone, Debug)]
pub struct Checker {
    step_limit: u64,
}

impl Default for Checker {
    fn default() -> Self {
        Self::new()
    }
}

impl Checker {
    /// A checker that takes up to a million steps for each key.
    pub fn new() -> Self {
        Checker {
            step_limit: 1_000_000,
        }
    }

    /// Sets how many steps (operations tried as the next one) a key's search may take before it is
    /// [`Undecided`]. Each step may keep a state and a set of operations in memory.
    pub fn step_limit(self, steps: u64) -> Self {
        Checker { step_limit: steps }
    }

    /// Whether `history` is linearizable with respect to `model`.
    ///
    /// # Errors
    ///
    /// [`CheckError::NotLinearizable`] for the first key, by order, that fails;
    /// [`CheckError::Undecided`] if none fails but for some the search took too long.
    pub fn check<M: SequentialModel>(
        &self,
        history: &History<M::Key, M::Op, M::Ret>,
        model: &M,
    ) -> Result<Summary, CheckError> {
        let mut keys: BTreeMap<&M::Key, KeyEntries<'_, M>> = BTreeMap::new();
        for (index, entry) in history.entries().iter().enumerate() {
            keys.entry(&entry.key).or_default().push((index, entry));
        }
        let mut summary = Summary {
            keys: keys.len(),
            ..Summary::default()
        };
        let mut undecided = None;
        for (key, entries) in keys {
            let calls = calls::<M>(&entries);
            let (verdict, steps) = search(model, model.init(key), &calls, self.step_limit);
            let returned = calls.iter().filter(|call| call.done.is_some()).count();
            summary.returned += returned;
            summary.unknown += calls.len() - returned;
            summary.ignored += entries.len() - calls.len();
            summary.steps += steps;
            match verdict {
                Verdict::Linearizable => {}
                Verdict::NotLinearizable { .. } => {
                    let violation = self.explain(model, key, &entries, &calls);
                    return Err(CheckError::NotLinearizable(Box::new(violation)));
                }
                Verdict::Undecided => {
                    let (key, operations) = (format!("{key:?}"), calls.len());
                    let steps = self.step_limit;
                    undecided.get_or_insert(Undecided {
                        key,
                        operations,
                        steps,
                    });
                }
            }
        }
        match undecided {
            Some(undecided) => Err(CheckError::Undecided(undecided)),
            None => Ok(summary),
        }
    }

    /// Shrinks a history known to fail, and renders it.
    fn explain<M: SequentialModel>(
        &self,
        model: &M,
        key: &M::Key,
        entries: &KeyEntries<'_, M>,
        calls: &KeyCalls<'_, M>,
    ) -> Violation {
        let fails = |calls: &KeyCalls<'_, M>, limit| {
            let (verdict, _) = search(model, model.init(key), calls, limit);
            matches!(verdict, Verdict::NotLinearizable { .. })
        };
        // A prefix of a linearizable history is linearizable: search the first that is not.
        let mut ends: Vec<_> = calls.iter().filter_map(|call| call.done).collect();
        ends.sort_by_key(|done| (done.end, done.end_seq));
        let ends: Vec<_> = ends.iter().map(|done| (done.end, done.end_seq)).collect();
        let (mut passing, mut failing) = (0, ends.len());
        while failing - passing > 1 {
            let middle = usize::midpoint(passing, failing);
            if fails(&prefix::<M>(calls, ends[middle - 1]), self.step_limit) {
                failing = middle;
            } else {
                passing = middle;
            }
        }
        let until = ends[failing - 1];
        let mut core = prefix::<M>(calls, until);
        let (order, state) = match search(model, model.init(key), &core, self.step_limit).0 {
            Verdict::NotLinearizable { order, state } => (order, format!("{state:?}")),
            _ => (Vec::new(), String::new()),
        };
        forget::<M>(model, key, &mut core);

        let by_index: BTreeMap<usize, _> = entries.iter().copied().collect();
        let mut rows: Vec<Row> = core
            .iter()
            .map(|call| row(model, call, by_index[&call.id], until))
            .collect();
        rows.sort_by_key(|row| (row.start, row.op));
        Violation {
            key: format!("{key:?}"),
            recorded: calls.len(),
            rows,
            order: order.into_iter().map(OpId::new).collect(),
            state,
        }
    }
}

/// The calls that matter: those that may have had an effect.
fn calls<'a, M: SequentialModel>(entries: &KeyEntries<'a, M>) -> KeyCalls<'a, M> {
    let call = |id: usize, entry: &'a Entry<M::Key, M::Op, M::Ret>| {
        let done = match &entry.outcome {
            Outcome::Returned { ret, end } => Some(CallReturn {
                ret,
                end: *end,
                end_seq: entry.end_seq,
            }),
            Outcome::Pending | Outcome::InDoubt { .. } => None,
            Outcome::NoEffect { .. } => return None,
        };
        let client: HistoryClient = entry.client;
        Some(Call {
            id,
            client,
            op: &entry.op,
            start: entry.start,
            start_seq: entry.start_seq,
            done,
        })
    };
    entries
        .iter()
        .filter_map(|&(id, entry)| call(id, entry))
        .collect()
}

/// Forgets results, of the oldest calls first, that are not needed for the rest to contradict each
/// other. Gives up on those that take too long to tell.
fn forget<M: SequentialModel>(model: &M, key: &M::Key, calls: &mut KeyCalls<'_, M>) {
    let mut budget = SHRINK_STEPS;
    let mut fails = |calls: &KeyCalls<'_, M>| {
        let (verdict, steps) = search(model, model.init(key), calls, budget.min(SHRINK_STEPS / 10));
        budget -= steps.min(budget);
        matches!(verdict, Verdict::NotLinearizable { .. })
    };
    let ends = calls.iter().enumerate();
    let mut oldest: Vec<_> = ends
        .filter_map(|(place, call)| Some((call.done?.end, place)))
        .collect();
    oldest.sort_unstable();
    // Most often the last few contradict each other.
    let few = std::iter::successors(Some(1), |few| Some(few * 2));
    for few in few.take_while(|few| *few < oldest.len()) {
        let mut last = calls.clone();
        for (_, place) in &oldest[..oldest.len() - few] {
            last[*place].done = None;
        }
        if fails(&last) {
            *calls = last;
            break;
        }
    }
    for (_, place) in oldest {
        if let Some(done) = calls[place].done.take()
            && !fails(calls)
        {
            calls[place].done = Some(done);
        }
    }
}

/// What had happened when the call that ended at `until` did.
fn prefix<'a, M: SequentialModel>(calls: &KeyCalls<'a, M>, until: (u64, u64)) -> KeyCalls<'a, M> {
    let begun = calls.iter().filter(|call| call.start <= until.0);
    let known = |done: &CallReturn<'_, M::Ret>| (done.end, done.end_seq) <= until;
    begun
        .map(|call| Call {
            done: call.done.filter(known),
            ..call.clone()
        })
        .collect()
}

fn row<M: SequentialModel>(
    model: &M,
    call: &Call<'_, M::Op, M::Ret>,
    entry: &Entry<M::Key, M::Op, M::Ret>,
    until: (u64, u64),
) -> Row {
    let (ret, fate) = match &entry.outcome {
        Outcome::Returned { ret, end } if (*end, entry.end_seq) <= until => {
            (Some(ret), OperationFate::Returned { end: *end })
        }
        Outcome::Returned { ret, end } => (Some(ret), OperationFate::Later { end: *end }),
        Outcome::InDoubt { end } | Outcome::NoEffect { end } => {
            (None, OperationFate::InDoubt { end: *end })
        }
        Outcome::Pending => (None, OperationFate::Pending),
    };
    Row {
        op: OpId::new(call.id),
        client: entry.client,
        text: model.describe(&entry.op, ret),
        start: entry.start,
        fate,
        essential: call.done.is_some(),
    }
}
