//! Peterson's algorithm for any number of processes.

use super::as_net::{ModelNet, NetBuilder, TokenMoves};
use super::bits::{get, set};
use super::size::{SizeError, check_size};
use crate::formula::Formula;
use crate::model::{Model, StateOverflow, Successors};

/// Bits of a process's level, and of who came last to one.
const NUMBER: u32 = 3;
/// Bits of a process: its step (2), its level.
const PROCESS: usize = 2 + NUMBER as usize;

/// Where a process is.
const IDLE: u64 = 0;
/// It has said at which level it is, and is about to say that it came last.
const ARRIVED: u64 = 1;
const WAITING: u64 = 2;
const CRITICAL: u64 = 3;

/// N processes that pass N - 1 levels to their critical section. At each level a process says where
/// it is, then that it was the last to come; it goes on once nobody else is as far, or another has
/// come after it (Peterson, "Myths about the mutual exclusion problem", 1981). The invariant: no
/// two are in their critical sections.
#[derive(Debug, Clone, Hash)]
pub struct Filter {
    processes: usize,
}

impl Filter {
    /// 2 to 7 processes.
    ///
    /// # Errors
    /// [`SizeError`].
    pub fn new(processes: usize) -> Result<Self, SizeError> {
        check_size("the number of processes", processes, 2, 7)?;
        Ok(Self { processes })
    }

    /// A process's level is kept twice: with its step, and as whether it has reached each level,
    /// which is what the others look at.
    pub(super) fn as_net(&self, name: &str) -> ModelNet {
        let mut net = NetBuilder::default();
        let levels = self.processes - 1;
        let processes: Vec<ProcessPlaces> = (0..self.processes)
            .map(|me| ProcessPlaces {
                idle: net.place(format!("idle{me}"), true),
                arrived: (1..=levels)
                    .map(|level| net.place(format!("arrived{me}_{level}"), false))
                    .collect(),
                waiting: (1..=levels)
                    .map(|level| net.place(format!("waiting{me}_{level}"), false))
                    .collect(),
                critical: net.place(format!("critical{me}"), false),
                reached: (1..=levels)
                    .map(|level| {
                        let ids = ["below", "reached"].map(|id| format!("{id}{me}_{level}"));
                        net.variable(ids)
                    })
                    .collect(),
            })
            .collect();
        let last: Vec<Vec<usize>> = (1..=levels)
            .map(|level| net.variable((0..self.processes).map(|who| format!("last{level}_{who}"))))
            .collect();
        for (me, places) in processes.iter().enumerate() {
            let arrives = |from: usize, at: usize| {
                let reached = &places.reached[at];
                TokenMoves::default()
                    .and(from, places.arrived[at])
                    .and(reached[0], reached[1])
            };
            let mut add = |what: String, moves| {
                net.transition(format!("process {me} {what}"), moves);
            };
            add("comes to level 1".into(), arrives(places.idle, 0));
            for (at, last) in last.iter().enumerate() {
                let level = at + 1;
                for (who, before) in last.iter().enumerate() {
                    let says = TokenMoves::default()
                        .and(places.arrived[at], places.waiting[at])
                        .and(*before, last[me]);
                    add(format!("is last at level {level} after {who}"), says);
                }
                let goes_on = || match level == levels {
                    true => TokenMoves::default().and(places.waiting[at], places.critical),
                    false => arrives(places.waiting[at], level),
                };
                for (who, other) in last.iter().enumerate().filter(|(who, _)| *who != me) {
                    let what = format!("goes on from level {level} as {who} is last");
                    add(what, goes_on().if_all([*other]));
                }
                let others = processes.iter().enumerate().filter(|(who, _)| *who != me);
                let below = others.map(|(_, other)| other.reached[at][0]);
                let what = format!("goes on from level {level} as the first");
                add(what, goes_on().if_all(below).if_all([last[me]]));
            }
            let leaves = TokenMoves::default().and(places.critical, places.idle);
            let reached = places.reached.iter();
            let leaves = reached.fold(leaves, |leaves, reached| leaves.and(reached[1], reached[0]));
            add("leaves".into(), leaves);
        }
        let critical = processes.iter().map(|places| places.critical);
        let invariant = Formula::at_most(1, critical);
        net.build(name, Some(invariant))
    }

    fn step(state: &[u64], process: usize) -> u64 {
        get(state, process * PROCESS, 2)
    }

    fn level(state: &[u64], process: usize) -> u64 {
        get(state, process * PROCESS + 2, NUMBER)
    }

    /// Where it is kept who came last to a level, from 1.
    fn last_at(&self, level: u64) -> usize {
        self.processes * PROCESS + (level as usize - 1) * NUMBER as usize
    }
}

/// The places of a process in the model as a net, of each level from 1.
struct ProcessPlaces {
    idle: usize,
    arrived: Vec<usize>,
    waiting: Vec<usize>,
    critical: usize,
    /// Whether it is below a level, or has reached it.
    reached: Vec<Vec<usize>>,
}

/// All of the state lies in one word: 7 * 5 + 6 * 3 bits at most.
const _: () = assert!(7 * PROCESS + 6 * NUMBER as usize <= 63);

impl Model for Filter {
    fn bits(&self) -> usize {
        self.last_at(self.processes as u64)
    }

    fn initial(&self) -> Vec<Vec<u64>> {
        vec![vec![0]]
    }

    fn successors(&self, state: &[u64], out: &mut Successors) -> Result<(), StateOverflow> {
        for me in 0..self.processes {
            let (at, level) = (me * PROCESS, Self::level(state, me));
            match Self::step(state, me) {
                IDLE => {
                    let next = out.push(me as u32, state);
                    set(next, at, 2, ARRIVED);
                    set(next, at + 2, NUMBER, 1);
                }
                ARRIVED => {
                    let next = out.push(me as u32, state);
                    set(next, at, 2, WAITING);
                    set(next, self.last_at(level), NUMBER, me as u64);
                }
                WAITING => {
                    let mut processes = (0..self.processes).filter(|other| *other != me);
                    let first = processes.all(|other| Self::level(state, other) < level);
                    let last = get(state, self.last_at(level), NUMBER);
                    if !first && last == me as u64 {
                        continue;
                    }
                    let next = out.push(me as u32, state);
                    if level + 1 == self.processes as u64 {
                        set(next, at, 2, CRITICAL);
                    } else {
                        set(next, at, 2, ARRIVED);
                        set(next, at + 2, NUMBER, level + 1);
                    }
                }
                _ => set(out.push(me as u32, state), at, 2 + NUMBER, IDLE),
            }
        }
        Ok(())
    }

    fn invariant(&self, state: &[u64]) -> bool {
        let critical = (0..self.processes).filter(|me| Self::step(state, *me) == CRITICAL);
        critical.count() < 2
    }

    fn action(&self, action: u32) -> String {
        format!("process {action}")
    }

    fn show(&self, state: &[u64]) -> String {
        let process = |me| match Self::step(state, me) {
            IDLE => "idle".to_owned(),
            CRITICAL => "critical".to_owned(),
            ARRIVED => format!("comes to level {}", Self::level(state, me)),
            _ => format!("waits at level {}", Self::level(state, me)),
        };
        (0..self.processes)
            .map(process)
            .collect::<Vec<_>>()
            .join(", ")
    }
}
