//! The calls of one key, their order in real time, and which of them a search has placed.

use std::collections::HashMap;

use crate::{HistoryClient, SequentialModel};

/// An operation as the search sees it.
pub(crate) struct Call<'a, O, R> {
    /// The operation's place in the history.
    pub id: usize,
    pub client: HistoryClient,
    pub op: &'a O,
    pub start: u64,
    pub start_seq: u64,
    /// `None`: may take effect at any time after `start`, or never.
    pub done: Option<CallReturn<'a, R>>,
}

/// How a call ended.
pub(crate) struct CallReturn<'a, R> {
    pub ret: &'a R,
    pub end: u64,
    pub end_seq: u64,
}

impl<O, R> Clone for Call<'_, O, R> {
    fn clone(&self) -> Self {
        Call {
            done: self.done,
            ..*self
        }
    }
}

impl<R> Clone for CallReturn<'_, R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R> Copy for CallReturn<'_, R> {}

/// A known call's place, itself and its end.
pub(crate) type Untaken<'a, M> = (
    usize,
    &'a Call<'a, <M as SequentialModel>::Op, <M as SequentialModel>::Ret>,
    CallReturn<'a, <M as SequentialModel>::Ret>,
);

/// The calls of a search. The known ones are placed one after the other, and put back.
pub(crate) struct SearchCalls<'a, M: SequentialModel> {
    /// Calls with a result, and those without, each by time of invocation.
    pub known: Vec<&'a Call<'a, M::Op, M::Ret>>,
    pub unknown: Vec<&'a Call<'a, M::Op, M::Ret>>,
    /// For each call, the known ones it follows though the clock stood still in between.
    pub known_after: Vec<Vec<usize>>,
    pub unknown_after: Vec<Vec<usize>>,
    /// For each unknown call, an equal one that was invoked before: no need to take it first.
    pub twin: Vec<Option<usize>>,
    /// The known calls not taken, as a doubly linked list with a sentinel at the end.
    next: Vec<usize>,
    prev: Vec<usize>,
    taken: Vec<bool>,
    pub count_taken: usize,
}

impl<'a, M: SequentialModel> SearchCalls<'a, M> {
    /// All of `calls`, none taken.
    pub fn new(calls: &'a [Call<'a, M::Op, M::Ret>]) -> Self {
        let (mut known, mut unknown): (Vec<_>, Vec<_>) =
            calls.iter().partition(|call| call.done.is_some());
        known.sort_by_key(|call| (call.start, call.start_seq));
        unknown.sort_by_key(|call| (call.start, call.start_seq));

        let mut ended_at: HashMap<(HistoryClient, u64), Vec<usize>> = HashMap::new();
        for (place, call) in known.iter().enumerate() {
            let end = call.done.as_ref().map_or(u64::MAX, |done| done.end);
            ended_at.entry((call.client, end)).or_default().push(place);
        }
        let follows = |call: &&Call<'a, M::Op, M::Ret>| -> Vec<usize> {
            let ended = ended_at
                .get(&(call.client, call.start))
                .map_or(&[][..], Vec::as_slice);
            let before = |place: &&usize| {
                known[**place]
                    .done
                    .is_some_and(|done| done.end_seq < call.start_seq)
            };
            ended.iter().filter(before).copied().collect()
        };
        let known_after: Vec<_> = known.iter().map(follows).collect();
        let unknown_after: Vec<Vec<usize>> = unknown.iter().map(follows).collect();

        let twin = (0..unknown.len())
            .map(|place| {
                (0..place).rev().find(|&other| {
                    unknown[other].op == unknown[place].op
                        // Wherever the later one may be taken, the earlier one may be too.
                        && (unknown[other].start < unknown[place].start
                            || unknown_after[other].is_empty())
                })
            })
            .collect();

        let count = known.len();
        SearchCalls {
            known,
            unknown,
            known_after,
            unknown_after,
            twin,
            // Places are shifted by one in the links: 0 is the sentinel.
            next: (0..=count).map(|place| (place + 1) % (count + 1)).collect(),
            prev: (0..=count)
                .map(|place| (place + count) % (count + 1))
                .collect(),
            taken: vec![false; count],
            count_taken: 0,
        }
    }

    /// The known calls not taken, by time of invocation, with their places.
    pub fn untaken(&self) -> impl Iterator<Item = Untaken<'a, M>> {
        let links = std::iter::successors(Some(self.next[0]), |&link| Some(self.next[link]));
        links.take_while(|&link| link != 0).filter_map(|link| {
            let call = self.known[link - 1];
            Some((link - 1, call, call.done?))
        })
    }

    /// Whether all the known calls at these places are taken.
    pub fn may_follow(&self, after: &[usize]) -> bool {
        after.iter().all(|&place| self.taken[place])
    }

    /// Takes a known call.
    pub fn take(&mut self, place: usize) {
        let link = place + 1;
        let (before, after) = (self.prev[link], self.next[link]);
        self.next[before] = after;
        self.prev[after] = before;
        self.taken[place] = true;
        self.count_taken += 1;
    }

    /// Undoes the last [`take`](Self::take) not undone yet.
    pub fn put_back(&mut self, place: usize) {
        let link = place + 1;
        let (before, after) = (self.prev[link], self.next[link]);
        self.next[before] = link;
        self.prev[after] = link;
        self.taken[place] = false;
        self.count_taken -= 1;
    }

    /// The known calls taken: the place of the first one missing, and bits for those after it.
    pub fn known_set(&self) -> Box<[u64]> {
        let first = match self.next[0] {
            0 => self.known.len(),
            link => link - 1,
        };
        let mut set = vec![first as u64];
        let mut left = self.count_taken - first;
        for (bit, taken) in self.taken[first..].iter().enumerate() {
            if left == 0 {
                break;
            }
            if bit % 64 == 0 {
                set.push(0);
            }
            if *taken {
                set[1 + bit / 64] |= 1 << (bit % 64);
                left -= 1;
            }
        }
        set.into()
    }
}
