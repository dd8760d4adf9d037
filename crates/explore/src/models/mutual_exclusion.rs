//! Two processes that must not be in their critical sections at the same time.

use super::as_net::{ModelNet, NetBuilder, TokenMoves};
use super::bits::{get, set};
use crate::formula::Formula;
use crate::model::{Model, StateOverflow, Successors};

/// How the processes exclude each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// Peterson's: raise the own flag, give the turn away, wait until the other's flag is down or
    /// the turn is one's own.
    Peterson,
    /// Peterson's with its first two steps exchanged, which is wrong.
    PetersonTurnFirst,
    /// Dekker's: raise the own flag; while the other's is up and it is the other's turn, lower it
    /// and wait.
    Dekker,
    /// Test the other's flag before raising one's own, which is wrong.
    DekkerTestFirst,
}

/// Two processes, each of which enters its critical section again and again. The invariant: never
/// both are in it.
#[derive(Debug, Clone, Hash)]
pub struct MutualExclusion {
    algorithm: Algorithm,
}

/// Where a process is; between `IDLE` and `CRITICAL`, each algorithm has steps of its own.
const IDLE: u64 = 0;
const CRITICAL: u64 = 7;
/// Where the step of each process begins: 3 bits.
const STEP: [usize; 2] = [0, 3];
/// Each process's flag: 1 bit.
const FLAG: [usize; 2] = [6, 7];
/// Whose turn it is: 1 bit.
const TURN: usize = 8;

impl MutualExclusion {
    /// Two processes under an algorithm.
    #[must_use]
    pub fn new(algorithm: Algorithm) -> Self {
        Self { algorithm }
    }

    pub(super) fn as_net(&self, name: &str) -> ModelNet {
        let mut net = NetBuilder::default();
        let steps = [0, 1].map(|me| net.variable((0..=CRITICAL).map(|step| named(step, me))));
        let flags = [0, 1].map(|me| net.variable([format!("down{me}"), format!("up{me}")]));
        let turns = net.variable([0, 1].map(|turn| format!("turn{turn}")));
        // Whatever a process looks at: its step, both flags, the turn.
        for seen in 0..2 * (CRITICAL as usize + 1) * 8 {
            let [me, own, other, turn] = [0, 1, 2, 3].map(|bit| seen >> bit & 1);
            let step = seen as u64 >> 4;
            let Some((next, change)) = self.next(me, step, other as u64, turn as u64) else {
                continue;
            };
            let changed = |bit: usize, before: usize| match change {
                Some((at, value)) if at == bit => value as usize,
                _ => before,
            };
            let moves = TokenMoves::default()
                .and(steps[me][step as usize], steps[me][next as usize])
                .and(flags[me][own], flags[me][changed(FLAG[me], own)])
                .and(turns[turn], turns[changed(TURN, turn)])
                .if_all([flags[1 - me][other]]);
            let flag = |up| if up == 0 { "down" } else { "up" };
            let id = format!(
                "process {me} goes from {} to {}, flag {}, other flag {}, turn {turn}",
                named(step, me),
                named(next, me),
                flag(own),
                flag(other),
            );
            net.transition(id, moves);
        }
        let critical = steps.map(|places| places[CRITICAL as usize]);
        net.build(name, Some(Formula::at_most(1, critical)))
    }

    /// What a process does next: where it is then, and which bit it sets to what. `None` if it has
    /// to wait.
    fn next(&self, me: usize, step: u64, flag: u64, turn: u64) -> Option<(u64, Change)> {
        let other = 1 - me;
        let raise = Some((FLAG[me], 1));
        let lower = Some((FLAG[me], 0));
        let give_turn = Some((TURN, other as u64));
        let mine = turn == me as u64;
        Some(match (self.algorithm, step) {
            (Algorithm::Peterson, IDLE) => (1, raise),
            (Algorithm::Peterson, 1) => (2, give_turn),
            (Algorithm::PetersonTurnFirst, IDLE) => (1, give_turn),
            (Algorithm::PetersonTurnFirst, 1) => (2, raise),
            (Algorithm::Peterson | Algorithm::PetersonTurnFirst, 2) => {
                if flag != 0 && !mine {
                    return None;
                }
                (CRITICAL, None)
            }
            (Algorithm::Dekker, IDLE) => (1, raise),
            (Algorithm::Dekker, 1) if flag == 0 => (CRITICAL, None),
            (Algorithm::Dekker, 1) if mine => return None,
            (Algorithm::Dekker, 1) => (2, lower),
            (Algorithm::Dekker, 2) if mine => (1, raise),
            (Algorithm::Dekker, CRITICAL) => (3, give_turn),
            (Algorithm::Dekker, 3) => (IDLE, lower),
            (Algorithm::DekkerTestFirst, IDLE) if flag == 0 => (1, None),
            (Algorithm::DekkerTestFirst, 1) => (CRITICAL, raise),
            (_, CRITICAL) => (IDLE, lower),
            _ => return None,
        })
    }
}

/// The place of a step, in the model as a net.
fn named(step: u64, process: usize) -> String {
    match step {
        IDLE => format!("idle{process}"),
        CRITICAL => format!("critical{process}"),
        _ => format!("step{step}_{process}"),
    }
}

/// A bit of the state and its new value.
type Change = Option<(usize, u64)>;

impl Model for MutualExclusion {
    fn bits(&self) -> usize {
        TURN + 1
    }

    fn initial(&self) -> Vec<Vec<u64>> {
        vec![vec![0]]
    }

    fn successors(&self, state: &[u64], out: &mut Successors) -> Result<(), StateOverflow> {
        let turn = get(state, TURN, 1);
        for me in 0..2 {
            let flag = get(state, FLAG[1 - me], 1);
            let Some((step, change)) = self.next(me, get(state, STEP[me], 3), flag, turn) else {
                continue;
            };
            let next = out.push(me as u32, state);
            set(next, STEP[me], 3, step);
            if let Some((bit, value)) = change {
                set(next, bit, 1, value);
            }
        }
        Ok(())
    }

    fn invariant(&self, state: &[u64]) -> bool {
        !STEP.iter().all(|&at| get(state, at, 3) == CRITICAL)
    }

    fn action(&self, action: u32) -> String {
        format!("process {action}")
    }

    fn show(&self, state: &[u64]) -> String {
        let process = |me: usize| {
            let step = match get(state, STEP[me], 3) {
                IDLE => "idle".into(),
                CRITICAL => "critical".into(),
                step => format!("at step {step}"),
            };
            let flag = if get(state, FLAG[me], 1) == 0 {
                "down"
            } else {
                "up"
            };
            format!("{me} {step}, flag {flag}")
        };
        format!(
            "{}; {}; turn {}",
            process(0),
            process(1),
            get(state, TURN, 1)
        )
    }
}
