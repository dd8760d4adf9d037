//! Two-phase commit, as Gray and Lamport specify it in TLA+ ("Consensus on Transaction Commit",
//! 2006).

use super::bits::{get, set};
use super::size::{SizeError, check_size};
use crate::model::{Model, StateOverflow, Successors};

/// Bits of a resource manager: its state (2), whether the transaction manager knows that it is
/// prepared, and whether its message of that has been sent.
const MANAGER: usize = 4;
const KNOWN: usize = 2;
const SENT: usize = 3;

const WORKING: u64 = 0;
const PREPARED: u64 = 1;
const COMMITTED: u64 = 2;
const ABORTED: u64 = 3;

/// The transaction manager's state; a decision is also the message that says so, which stays in the
/// network.
const UNDECIDED: u64 = 0;

/// Some resource managers and a transaction manager. Messages are never lost from the network, and
/// may be received again and again. The invariant: no resource manager has aborted while another
/// has committed.
#[derive(Debug, Clone, Hash)]
pub struct TwoPhase {
    managers: usize,
    /// Whether the transaction manager commits without waiting, which is wrong.
    broken: bool,
}

impl TwoPhase {
    /// 1 to 1,000 resource managers; `broken` if the transaction manager does not wait for them
    /// all.
    ///
    /// # Errors
    /// [`SizeError`].
    pub fn new(managers: usize, broken: bool) -> Result<Self, SizeError> {
        check_size("the number of resource managers", managers, 1, 1000)?;
        Ok(Self { managers, broken })
    }

    fn decision_at(&self) -> usize {
        self.managers * MANAGER
    }
}

impl Model for TwoPhase {
    fn bits(&self) -> usize {
        self.decision_at() + 2
    }

    fn initial(&self) -> Vec<Vec<u64>> {
        vec![vec![0; self.bits().div_ceil(64)]]
    }

    fn successors(&self, state: &[u64], out: &mut Successors) -> Result<(), StateOverflow> {
        let decision = get(state, self.decision_at(), 2);
        let managers = (0..self.managers).map(|manager| manager * MANAGER);
        if decision == UNDECIDED {
            if self.broken || managers.clone().all(|at| get(state, at + KNOWN, 1) != 0) {
                set(out.push(0, state), self.decision_at(), 2, COMMITTED);
            }
            set(out.push(1, state), self.decision_at(), 2, ABORTED);
        }
        for (manager, at) in managers.enumerate() {
            let action = |kind: u32| 2 + manager as u32 * 4 + kind;
            if decision == UNDECIDED && get(state, at + SENT, 1) != 0 {
                set(out.push(action(0), state), at + KNOWN, 1, 1);
            }
            if get(state, at, 2) == WORKING {
                let next = out.push(action(1), state);
                set(next, at, 2, PREPARED);
                set(next, at + SENT, 1, 1);
                set(out.push(action(2), state), at, 2, ABORTED);
            }
            if decision != UNDECIDED {
                set(out.push(action(3), state), at, 2, decision);
            }
        }
        Ok(())
    }

    fn invariant(&self, state: &[u64]) -> bool {
        let is =
            |wanted| (0..self.managers).any(|manager| get(state, manager * MANAGER, 2) == wanted);
        !(is(COMMITTED) && is(ABORTED))
    }

    fn action(&self, action: u32) -> String {
        let kinds = [
            "is known to be prepared",
            "prepares",
            "aborts by itself",
            "receives the decision",
        ];
        match action.checked_sub(2) {
            Some(kind) => format!("resource manager {} {}", kind / 4, kinds[kind as usize % 4]),
            None if action == 0 => "the transaction manager commits".into(),
            None => "the transaction manager aborts".into(),
        }
    }

    fn show(&self, state: &[u64]) -> String {
        let names = ["working", "prepared", "committed", "aborted"];
        let managers =
            (0..self.managers).map(|manager| names[get(state, manager * MANAGER, 2) as usize]);
        managers.collect::<Vec<_>>().join(", ")
    }
}
