//! The search for an order that explains one key's operations.

use std::collections::{HashMap, VecDeque};
use std::vec;

use crate::SequentialModel;
use crate::calls::{Call, SearchCalls};

/// What the search found.
pub(crate) enum Verdict<S> {
    Linearizable,
    /// `order` is the explanation that came farthest (places in the history), `state` where it led.
    NotLinearizable {
        order: Vec<usize>,
        state: S,
    },
    Undecided,
}

/// Searches an order of `calls`, taking at most `limit` steps; returns the number taken too.
pub(crate) fn search<M: SequentialModel>(
    model: &M,
    init: M::State,
    calls: &[Call<'_, M::Op, M::Ret>],
    limit: u64,
) -> (Verdict<M::State>, u64) {
    let mut search = Search::new(model, calls);
    let verdict = search.run(init, limit);
    (verdict, search.steps)
}

/// Which of the unknown calls took effect, as bits.
type Used = Box<[u64]>;

/// Where unknown calls, and no known one, lead from the beginning of a [`ChoiceLevel`].
struct SearchPoint<S> {
    state: S,
    used: Used,
    /// The unknown calls in between.
    via: Vec<usize>,
}

/// One level of the depth-first search: the choice of the next known call, and of the unknown ones
/// before it, as few as possible first.
struct ChoiceLevel<S> {
    /// The known call whose choice led here, the unknown ones just before it, and all those used.
    /// None for the first level.
    entered_by: Option<(usize, Vec<usize>, Used)>,
    /// Points to look at.
    queue: VecDeque<SearchPoint<S>>,
    /// Points looked at before, from where unknown calls may lead on.
    looked_at: VecDeque<SearchPoint<S>>,
    /// The point looked at.
    point: SearchPoint<S>,
    /// Whether unknown calls may be next at the point.
    extend: bool,
    /// The known calls left to try at the point, with the state after each.
    options: vec::IntoIter<(usize, S)>,
}

/// The known calls taken beyond the first one not taken, preceded by that one's place; and the
/// state: what decides how the search can go on, but for the unknown calls used up.
type MemoKey<S> = (Box<[u64]>, S);

struct Search<'a, M: SequentialModel> {
    model: &'a M,
    calls: SearchCalls<'a, M>,
    /// The unknown calls used.
    used: Used,
    /// For each point reached, sets of unknown calls used that were enough to get there.
    seen: HashMap<MemoKey<M::State>, Vec<Used>>,
    steps: u64,
}

impl<'a, M: SequentialModel> Search<'a, M> {
    fn new(model: &'a M, calls: &'a [Call<'a, M::Op, M::Ret>]) -> Self {
        let calls = SearchCalls::new(calls);
        let used = vec![0; calls.unknown.len().div_ceil(64)].into();
        Search {
            model,
            calls,
            used,
            seen: HashMap::new(),
            steps: 0,
        }
    }

    fn run(&mut self, init: M::State, limit: u64) -> Verdict<M::State> {
        // The farthest dead end: known calls explained, the order, the state.
        let mut best: Option<(usize, Vec<usize>, M::State)> = None;
        let mut levels = vec![self.enter(None, init)];
        while self.calls.count_taken < self.calls.known.len() {
            if self.steps >= limit {
                return Verdict::Undecided;
            }
            let Some(level) = levels.last_mut() else {
                let (_, order, state) = best.expect("the search came back from its first level");
                return Verdict::NotLinearizable { order, state };
            };
            if let Some((place, state)) = level.options.next() {
                self.steps += 1;
                self.calls.take(place);
                if self.is_new(&state) {
                    let entered_by = (place, level.point.via.clone(), self.used.clone());
                    levels.push(self.enter(Some(entered_by), state));
                } else {
                    self.calls.put_back(place);
                }
                continue;
            }
            if best
                .as_ref()
                .is_none_or(|(taken, _, _)| *taken < self.calls.count_taken)
            {
                let chosen = levels.iter().filter_map(|level| level.entered_by.as_ref());
                let order = chosen.flat_map(|(place, via, _)| {
                    let before = via.iter().map(|&place| self.calls.unknown[place].id);
                    before.chain([self.calls.known[*place].id])
                });
                let (order, point) = (order.collect(), &levels[levels.len() - 1].point);
                best = Some((self.calls.count_taken, order, point.state.clone()));
            }
            let Some(mut level) = levels.pop() else {
                continue;
            };
            // On to what more of the unknown calls lead to.
            if level.extend {
                level.looked_at.push_back(level.point);
            }
            while level.queue.is_empty()
                && let Some(point) = level.looked_at.pop_front()
            {
                self.extend(&point, &mut level.queue);
            }
            if let Some(point) = level.queue.pop_front() {
                self.used.clone_from(&point.used);
                (level.options, level.extend) = self.options(&point.state);
                levels.push(ChoiceLevel { point, ..level });
            } else if let Some((place, _, used)) = level.entered_by {
                self.calls.put_back(place);
                self.used = used;
            }
        }
        Verdict::Linearizable
    }

    fn enter(
        &self,
        entered_by: Option<(usize, Vec<usize>, Used)>,
        state: M::State,
    ) -> ChoiceLevel<M::State> {
        let (options, extend) = self.options(&state);
        let point = SearchPoint {
            state,
            used: self.used.clone(),
            via: Vec::new(),
        };
        ChoiceLevel {
            entered_by,
            queue: VecDeque::new(),
            looked_at: VecDeque::new(),
            point,
            extend,
            options,
        }
    }

    /// The known calls that may be next in `state`, and whether unknown ones need be tried.
    fn options(&self, state: &M::State) -> (vec::IntoIter<(usize, M::State)>, bool) {
        let mut options = Vec::new();
        // An untaken call's end bounds the next call's start.
        let mut bound = u64::MAX;
        for (place, call, done) in self.calls.untaken() {
            if call.start > bound {
                break;
            }
            bound = bound.min(done.end);
            if !self.calls.may_follow(&self.calls.known_after[place]) {
                continue;
            }
            if let Some(after) = self.model.step(state, call.op, Some(done.ret)) {
                if self.model.only_reads(call.op, done.ret) {
                    debug_assert!(after == *state, "`only_reads` is wrong about {:?}", call.op);
                    // Whatever order explains the rest explains it after this call too.
                    return (vec![(place, after)].into_iter(), false);
                }
                options.push((place, after));
            }
        }
        (options.into_iter(), true)
    }

    /// Adds to `queue` where one more unknown call leads from `from`.
    fn extend(
        &mut self,
        from: &SearchPoint<M::State>,
        queue: &mut VecDeque<SearchPoint<M::State>>,
    ) {
        self.used.clone_from(&from.used);
        let bound = self
            .calls
            .untaken()
            .map(|(_, _, done)| done.end)
            .min()
            .unwrap_or(u64::MAX);
        for place in 0..self.calls.unknown.len() {
            let call = self.calls.unknown[place];
            if call.start > bound {
                break;
            }
            if self.is_used(place)
                || self.calls.twin[place].is_some_and(|twin| !self.is_used(twin))
                || !self.calls.may_follow(&self.calls.unknown_after[place])
            {
                continue;
            }
            let after = self.model.step(&from.state, call.op, None);
            let Some(state) = after.filter(|after| *after != from.state) else {
                continue;
            };
            self.steps += 1;
            let bit = 1 << (place % 64);
            self.used[place / 64] |= bit;
            if self.is_new(&state) {
                let via = from.via.iter().copied().chain([place]).collect();
                queue.push_back(SearchPoint {
                    state,
                    used: self.used.clone(),
                    via,
                });
            }
            self.used[place / 64] &= !bit;
        }
    }

    fn is_used(&self, place: usize) -> bool {
        self.used[place / 64] & (1 << (place % 64)) != 0
    }

    /// Whether the calls taken led to `state` for the first time, counting it as a time before if
    /// the same known calls led there with only some of the unknown ones.
    fn is_new(&mut self, state: &M::State) -> bool {
        let used = &self.used;
        let enough = self
            .seen
            .entry((self.calls.known_set(), state.clone()))
            .or_default();
        let covers = |small: &[u64], large: &[u64]| {
            small
                .iter()
                .zip(large)
                .all(|(small, large)| small & !large == 0)
        };
        if enough.iter().any(|set| covers(set, used)) {
            return false;
        }
        enough.retain(|set| !covers(used, set));
        enough.push(used.clone());
        true
    }
}
