//! Two-phase commit, as Gray and Lamport specify it in TLA+ ("Consensus on Transaction Commit",
//! 2006).

use super::as_net::{ModelNet, NetBuilder, TokenMoves};
use super::bits::{get, set};
use super::size::{SizeError, check_size};
use crate::formula::Formula;
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

/// What they are called.
const STATES: [&str; 4] = ["working", "prepared", "committed", "aborted"];
/// What a resource manager does, or what is done with its message.
const KINDS: [&str; 4] = [
    "is known to be prepared",
    "prepares",
    "aborts by itself",
    "receives the decision",
];

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

    pub(super) fn as_net(&self, name: &str) -> ModelNet {
        let mut net = NetBuilder::default();
        let decision = ["undecided", "commit", "abort"].map(String::from);
        let decision = net.variable(decision);
        let undecided = decision[UNDECIDED as usize];
        let managers = (0..self.managers).map(|manager| {
            let states = STATES.map(|state| format!("{state}{manager}"));
            (
                net.variable(states),
                net.variable(["unknown", "known"].map(|id| format!("{id}{manager}"))),
                net.place(format!("sent{manager}"), false),
            )
        });
        let managers: Vec<_> = managers.collect();
        let known = managers.iter().map(|(_, known, _)| known[1]);
        let commits = match self.broken {
            true => TokenMoves::default(),
            false => TokenMoves::default().if_all(known),
        };
        let commits = commits.and(undecided, decision[1]);
        net.transition("the transaction manager commits", commits);
        let aborts = TokenMoves::default().and(undecided, decision[2]);
        net.transition("the transaction manager aborts", aborts);
        for (manager, (states, known, sent)) in managers.iter().enumerate() {
            let mut add = |what: &str, moves| {
                net.transition(format!("resource manager {manager} {what}"), moves);
            };
            for (before, what) in [
                (known[0], KINDS[0]),
                (known[1], "is still known to be prepared"),
            ] {
                let learns = TokenMoves::default().and(before, known[1]);
                add(what, learns.if_all([undecided, *sent]));
            }
            let [working, prepared] = [WORKING, PREPARED].map(|state| states[state as usize]);
            add(
                KINDS[1],
                TokenMoves::default().and(working, prepared).and_put(*sent),
            );
            let aborted = states[ABORTED as usize];
            add(KINDS[2], TokenMoves::default().and(working, aborted));
            for (before, name) in states.iter().zip(STATES) {
                for (decided, after) in [(decision[1], COMMITTED), (decision[2], ABORTED)] {
                    let receives = TokenMoves::default().and(*before, states[after as usize]);
                    let what = format!("{}, {name} before: {}", KINDS[3], STATES[after as usize]);
                    add(&what, receives.if_all([decided]));
                }
            }
        }
        let none = |state: u64| {
            let places = managers.iter().map(|(states, ..)| states[state as usize]);
            Formula::at_most(0, places)
        };
        let invariant = none(COMMITTED).or(none(ABORTED));
        net.build(name, Some(invariant))
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
        match action.checked_sub(2) {
            Some(kind) => format!("resource manager {} {}", kind / 4, KINDS[kind as usize % 4]),
            None if action == 0 => "the transaction manager commits".into(),
            None => "the transaction manager aborts".into(),
        }
    }

    fn show(&self, state: &[u64]) -> String {
        let managers =
            (0..self.managers).map(|manager| STATES[get(state, manager * MANAGER, 2) as usize]);
        managers.collect::<Vec<_>>().join(", ")
    }
}
