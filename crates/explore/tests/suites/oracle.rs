//! The plainest exploration: one queue and one hash map of markings.

use farslot_explore::model::{Model, Successors, Tokens};
use farslot_explore::net::Net;
use std::collections::{HashMap, VecDeque};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plain {
    pub states: u64,
    pub transitions: u64,
    pub deadlocks: u64,
    pub depth: u64,
    pub tokens: Tokens,
}

/// Explores a net marking by marking; `None` beyond `most` markings.
pub fn explore(net: &Net, most: usize) -> Option<Plain> {
    let initial: Vec<u64> = net.initial().into_iter().map(u64::from).collect();
    let mut depths = HashMap::from([(initial.clone(), 0)]);
    let mut queue = VecDeque::from([initial]);
    let mut plain = Plain {
        states: 0,
        transitions: 0,
        deadlocks: 0,
        depth: 0,
        tokens: Tokens::default(),
    };
    while let Some(marking) = queue.pop_front() {
        let depth = depths[&marking];
        plain.states += 1;
        plain.depth = depth;
        plain.tokens = plain.tokens.max(Tokens {
            in_place: marking.iter().copied().max().unwrap_or_default(),
            in_state: marking.iter().sum(),
        });
        let mut enabled = 0;
        for transition in net.transitions() {
            let has = |arc: &farslot_explore::net::Arc| marking[arc.place] >= u64::from(arc.weight);
            if !transition.takes.iter().all(has) {
                continue;
            }
            enabled += 1;
            let mut next = marking.clone();
            transition
                .takes
                .iter()
                .for_each(|arc| next[arc.place] -= u64::from(arc.weight));
            transition
                .puts
                .iter()
                .for_each(|arc| next[arc.place] += u64::from(arc.weight));
            if !depths.contains_key(&next) {
                depths.insert(next.clone(), depth + 1);
                queue.push_back(next);
            }
        }
        plain.transitions += enabled;
        plain.deadlocks += u64::from(enabled == 0);
        if depths.len() > most {
            return None;
        }
    }
    Some(plain)
}

/// How many steps the nearest state that violates a model's invariant is away.
pub fn nearest_violation(model: &impl Model) -> Option<u64> {
    let mut depths: HashMap<Vec<u64>, u64> = HashMap::new();
    let mut queue = VecDeque::new();
    for state in model.initial() {
        depths.insert(state.clone(), 0);
        queue.push_back(state);
    }
    while let Some(state) = queue.pop_front() {
        let depth = depths[&state];
        if !model.invariant(&state) {
            return Some(depth);
        }
        let mut successors = Successors::new(state.len());
        model.successors(&state, &mut successors).unwrap();
        for next in successors.states().chunks(state.len()) {
            if !depths.contains_key(next) {
                depths.insert(next.to_vec(), depth + 1);
                queue.push_back(next.to_vec());
            }
        }
    }
    None
}
