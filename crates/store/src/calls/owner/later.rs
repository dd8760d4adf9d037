//! What is counted and told of calls that did not end in their turn: the owner of the node learns
//! here that there are such, and in which table.

use crate::calls::CALL_TURN;
use crate::recent_log::RecentLog;
use farslot_fabric::tcp::LineLimit;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

/// How a call's turn has ended.
pub(super) struct CallTurn {
    /// All that were to be run.
    pub(super) operations: usize,
    /// Those that had begun, and were cut.
    pub(super) cut: usize,
    /// Those that have no outcome: they come later.
    pub(super) later: usize,
    /// Whether the time was over.
    pub(super) is_over: bool,
}

impl CallTurn {
    /// Operations that have an outcome.
    pub(super) const fn done(&self) -> usize {
        self.operations - self.later
    }

    /// Why some come later; nothing if none does.
    const fn why(&self) -> Option<DelayReason> {
        match self {
            Self { later: 0, .. } => None,
            Self { cut: 0, .. } => Some(DelayReason::Many),
            Self { is_over: false, .. } => Some(DelayReason::Waits),
            _ if self.done() < FEW => Some(DelayReason::Long),
            _ => Some(DelayReason::Many),
        }
    }
}

/// A turn that came to fewer operations went on single ones: it is about as long as four hundred
/// short ones take.
const FEW: usize = 8;

/// Why a call has operations that come later.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum DelayReason {
    /// There were more than a turn is for, or another thread writes to a table of one writer.
    Many,
    /// Single operations took the turn: probes or chains are long, or the heap had to be cleaned.
    Long,
    /// They would have had to wait, for a record that cannot be read or for another client.
    Waits,
}

/// The names of these reasons, in their order.
const NAMES: [&str; 3] = ["many", "long", "waits"];

/// A call whose operations were so long that it did not come to all of them within its turn.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct LongCall {
    /// When the turn had ended.
    pub at: SystemTime,
    /// The table's name.
    pub table: String,
    /// The grant of the client, if it has one.
    pub grant: Option<String>,
    /// The operations of the call.
    pub operations: usize,
    /// How many of them were done.
    pub done: usize,
}

impl LongCall {
    /// How long a node works on a call before it keeps the rest for later.
    pub const LIMIT: Duration = Duration::from_nanos(CALL_TURN);
}

/// Counts calls that are answered later, and tells of those whose operations are long.
#[derive(Default)]
pub(crate) struct LaterCalls {
    by: [AtomicU64; NAMES.len()],
    long: RecentLog<LongCall>,
    lines: Mutex<LineLimit>,
}

impl LaterCalls {
    /// How many there were so far, by the reason.
    pub(crate) fn counts(&self) -> [(&'static str, u64); NAMES.len()] {
        std::array::from_fn(|why| (NAMES[why], self.by[why].load(Ordering::Relaxed)))
    }

    /// The last whose operations were long, the latest first.
    pub(crate) fn long(&self) -> Vec<LongCall> {
        self.long.map(LongCall::clone)
    }

    /// Notes the end of a call's turn in a table, under a grant.
    pub(super) fn note(&self, turn: &CallTurn, table: &str, grant: Option<&str>) {
        let Some(why) = turn.why() else {
            return;
        };
        self.by[why as usize].fetch_add(1, Ordering::Relaxed);
        if why != DelayReason::Long {
            return;
        }
        let (done, operations) = (turn.done(), turn.operations);
        self.long.add(|_| LongCall {
            at: SystemTime::now(),
            table: table.to_owned(),
            grant: grant.map(ToOwned::to_owned),
            operations,
            done,
        });
        let line = self
            .lines
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .line();
        let Some(left_out) = line else {
            return;
        };
        if left_out > 0 {
            log::warn!("{left_out} more like the next one");
        }
        let under = grant.map_or_else(String::new, |name| format!(" under the grant {name:?}"));
        log::warn!(
            "a call{under} came to {done} of its {operations} operations in table {table:?} within its turn: \
             their probes or chains are long, or room had to be made"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_that_went_on_single_operations_is_told_from_one_of_many() {
        let why = |operations, cut, later, is_over| {
            let turn = CallTurn {
                operations,
                cut,
                later,
                is_over,
            };
            turn.why()
        };
        assert_eq!(why(1_024, 0, 0, true), None);
        assert_eq!(why(1_024, 0, 512, true), Some(DelayReason::Many));
        // The end of the turn cuts what is under way then.
        assert_eq!(why(1_024, 3, 515, true), Some(DelayReason::Many));
        assert_eq!(why(1_024, 3, 1_020, true), Some(DelayReason::Long));
        assert_eq!(why(1, 1, 1, true), Some(DelayReason::Long));
        assert_eq!(why(1, 1, 1, false), Some(DelayReason::Waits));
        // Left to the client.
        assert_eq!(why(1, 1, 0, false), None);
        // Nothing was begun.
        assert_eq!(why(8, 0, 8, true), Some(DelayReason::Many));
    }

    #[test]
    fn every_call_is_counted_by_its_reason() {
        let calls = LaterCalls::default();
        for operations in [0, 1, 2, 30] {
            let turn = CallTurn {
                operations,
                cut: 1,
                later: operations.min(1),
                is_over: true,
            };
            calls.note(&turn, "t", Some("g"));
        }
        assert_eq!(calls.counts(), [("many", 1), ("long", 2), ("waits", 0)]);
        let long: Vec<_> = calls.long().iter().map(|call| call.operations).collect();
        assert_eq!(long, [2, 1]);
    }
}
