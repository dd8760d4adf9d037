//! The models for Stateright: states of 32 bytes that are copied, without allocations.

use super::Subject;
use stateright::{Model, Property};

/// A state: a byte for each process, and those behind them for what they share.
pub(super) type State = [u8; 32];

/// A model as Stateright has it. An action is the state that it leads to, so that nothing is computed twice.
#[derive(Clone, Copy, Debug)]
pub(super) struct Compact(pub(super) Subject);

impl Model for Compact {
    type State = State;
    type Action = State;

    fn init_states(&self) -> Vec<State> {
        vec![[0; 32]]
    }

    fn actions(&self, state: &State, actions: &mut Vec<State>) {
        match self.0 {
            Subject::Philosophers(count) => philosophers(count, state, actions),
            Subject::Peterson(count) => peterson(count, state, actions),
            Subject::TwoPhase(count) => two_phase(count, state, actions),
        }
    }

    fn next_state(&self, _: &State, action: State) -> Option<State> {
        Some(action)
    }

    /// One that holds: without any, there is nothing to search for.
    fn properties(&self) -> Vec<Property<Self>> {
        vec![Property::always("true", |_, _| true)]
    }
}

fn with(state: &State, at: usize, value: u8) -> State {
    let mut next = *state;
    next[at] = value;
    next
}

/// 0 thinks, 1 has its left fork, 2 eats.
fn philosophers(count: usize, state: &State, next: &mut Vec<State>) {
    for me in 0..count {
        let (left, right) = (state[(me + count - 1) % count], state[(me + 1) % count]);
        match state[me] {
            0 if left != 2 => next.push(with(state, me, 1)),
            1 if right == 0 => next.push(with(state, me, 2)),
            2 => next.push(with(state, me, 0)),
            _ => {}
        }
    }
}

/// A process is its step (0 idle, 1 arrived, 2 waiting, 3 critical) and four times its level; behind the processes, who came last
/// to each level.
fn peterson(count: usize, state: &State, next: &mut Vec<State>) {
    for me in 0..count {
        let (step, level) = (state[me] % 4, state[me] / 4);
        match step {
            0 => next.push(with(state, me, 1 + 4)),
            1 => {
                let mut after = with(state, me, 2 + 4 * level);
                after[count + usize::from(level) - 1] = me as u8;
                next.push(after);
            }
            2 => {
                let mut others = (0..count).filter(|other| *other != me);
                let first = others.all(|other| state[other] / 4 < level);
                let last = state[count + usize::from(level) - 1];
                if first || usize::from(last) != me {
                    let critical = usize::from(level) + 1 == count;
                    let step = if critical {
                        3 + 4 * level
                    } else {
                        1 + 4 * (level + 1)
                    };
                    next.push(with(state, me, step));
                }
            }
            _ => next.push(with(state, me, 0)),
        }
    }
}

/// A manager is its state (0 working, 1 prepared, 2 committed, 3 aborted), 4 if that it is prepared is known, 8 if it was sent;
/// behind the managers, the decision.
fn two_phase(count: usize, state: &State, next: &mut Vec<State>) {
    let decision = state[count];
    if decision == 0 {
        if state[..count].iter().all(|manager| manager & 4 != 0) {
            next.push(with(state, count, 2));
        }
        next.push(with(state, count, 3));
    }
    for (me, &manager) in state[..count].iter().enumerate() {
        if decision == 0 && manager & 8 != 0 {
            next.push(with(state, me, manager | 4));
        }
        if manager & 3 == 0 {
            next.push(with(state, me, manager | 1 | 8));
            next.push(with(state, me, manager | 3));
        }
        if decision != 0 {
            next.push(with(state, me, (manager & !3) | decision));
        }
    }
}
