//! Whose turn it is, where there is more to do than one turn.
//!
//! Connections that have more to do wait in lines, one for each grant and one for those that are
//! not admitted. In every round each line has turns that take about as long, one connection after
//! the other. So clients of one grant cannot keep those of another from being served, however many
//! they are and whatever they ask for; nor can strangers.

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::time::Duration;

/// The line of those who are not admitted.
pub(crate) const STRANGERS: u64 = 0;

/// How long the turns of a line may take in a round.
const SLICE: Duration = Duration::from_micros(25);
/// What a turn counts as at least, even if nothing came of it.
const SHORTEST: Duration = Duration::from_nanos(200);

/// The lines in which connections wait, by their tokens.
#[derive(Default)]
pub(crate) struct Turns {
    lines: Vec<Line>,
    waiting: usize,
}

struct Line {
    /// The number of the grant, or [`STRANGERS`].
    of: u64,
    waiting: VecDeque<u64>,
    /// Time of its round that is left.
    left: Duration,
}

impl Turns {
    /// Whether nobody waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    /// Whether somebody waits in another line than this.
    pub(crate) fn others_wait(&self, of: u64) -> bool {
        let mut lines = self.lines.iter();
        lines.any(|line| line.of != of && !line.waiting.is_empty())
    }

    /// Has one wait at the end of its line.
    pub(crate) fn wait(&mut self, of: u64, token: u64) {
        self.waiting += 1;
        if let Some(line) = self.lines.iter_mut().find(|line| line.of == of) {
            line.waiting.push_back(token);
            return;
        }
        // Lines of grants that have gone make room for others.
        self.lines.retain(|line| !line.waiting.is_empty());
        self.lines.push(Line {
            of,
            waiting: VecDeque::from([token]),
            left: SLICE,
        });
    }

    /// Begins a round: every line has a slice of time. Those that have used the least of their last
    /// go first, so that who asks for little does not wait for who always has more to do.
    pub(crate) fn begin_round(&mut self) {
        self.lines.sort_by_key(|line| Reverse(line.left));
        for line in &mut self.lines {
            line.left = SLICE;
        }
    }

    /// The next whose turn it is in this round, and its line.
    pub(crate) fn next(&mut self) -> Option<(u64, u64)> {
        let mut lines = self.lines.iter_mut();
        let line = lines.find(|line| !line.left.is_zero() && !line.waiting.is_empty())?;
        let token = line.waiting.pop_front()?;
        self.waiting -= 1;
        Some((line.of, token))
    }

    /// Notes how long the turn of one in that line took.
    pub(crate) fn spend(&mut self, of: u64, took: Duration) {
        if let Some(line) = self.lines.iter_mut().find(|line| line.of == of) {
            line.left = line.left.saturating_sub(took.max(SHORTEST));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_the_same_time_however_many_wait_in_them() {
        let mut turns = Turns::default();
        (0..500).for_each(|token| turns.wait(7, token));
        turns.wait(8, 1000);
        turns.wait(STRANGERS, 2000);
        assert!(turns.others_wait(8) && turns.others_wait(7));
        let mut served = [0, 0, 0];
        for _ in 0..100 {
            turns.begin_round();
            while let Some((of, token)) = turns.next() {
                turns.spend(of, SLICE / 4);
                turns.wait(of, token);
                served[[7, 8, 0].iter().position(|line| *line == of).unwrap()] += 1;
            }
        }
        assert_eq!(served, [400; 3]);
    }

    #[test]
    fn who_has_used_little_goes_first() {
        let mut turns = Turns::default();
        turns.wait(7, 1);
        turns.wait(8, 2);
        for _ in 0..10 {
            turns.begin_round();
            let mut order = Vec::new();
            while let Some((of, token)) = turns.next() {
                turns.spend(of, SLICE / if of == 8 { 10 } else { 1 });
                order.push(of);
                if of == 7 {
                    turns.wait(of, token);
                }
            }
            // It has asked again only now.
            turns.wait(8, 2);
            assert!(order == [7, 8] || order == [8, 7], "{order:?}");
        }
        turns.begin_round();
        assert_eq!(turns.next(), Some((8, 2)));
    }

    #[test]
    fn everybody_in_a_line_has_a_turn_before_anybody_has_another() {
        let mut turns = Turns::default();
        (0..10).for_each(|token| turns.wait(1, token));
        let mut order = Vec::new();
        while order.len() < 20 {
            turns.begin_round();
            while let Some((of, token)) = turns.next() {
                turns.spend(of, SLICE);
                turns.wait(of, token);
                order.push(token);
            }
        }
        assert_eq!(order, (0..10).chain(0..10).collect::<Vec<_>>());
        assert!(!turns.is_empty() && !turns.others_wait(1));
    }
}
