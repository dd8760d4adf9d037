//! Whose turn it is, where there is more to do than one turn.
//!
//! Connections that have more to do wait in lines, one for each grant, one for those that are not
//! admitted, and one for what is done at the door: newcomers, and those that have to leave. The
//! line that has had the least time has the next turn, one connection after the other. So clients
//! of one grant cannot keep those of another from being served, however many they are and whatever
//! they ask for; nor can unauthenticated clients.
//!
//! After each round of turns, of [`ROUND`] and what the last turn takes longer, the kernel is asked
//! for what has come meanwhile. A line that has asked for less than others, or for nothing, has its
//! turn then before all others: it waits for one round, however many lines there are.

use std::collections::VecDeque;
use std::time::Duration;

/// The line of those who are not admitted.
pub(crate) const UNAUTHENTICATED: u64 = 0;
/// The line of those who come, and of those who have not been admitted in time.
pub(crate) const DOOR: u64 = u64::MAX;

/// How long a round may take, and a turn longer.
const ROUND: Duration = Duration::from_micros(50);
/// How much less time a line counts as having had, at the most, than the one that has had the
/// least: whoever asks for nothing for long may not then keep the others waiting for as long.
const AHEAD: Duration = Duration::from_micros(25);
/// How much more, at the most: a thread that was kept from its processor took no turn so long.
const BEHIND: Duration = Duration::from_millis(1);
/// What a turn counts as at least, even if nothing came of it.
const SHORTEST: Duration = Duration::from_nanos(200);

/// The lines in which connections wait, by their tokens.
#[derive(Default)]
pub(crate) struct TurnScheduler {
    lines: Vec<Line>,
    waiting: usize,
    /// The least time that a line in which somebody waits has had.
    least: Duration,
    /// Time that is left of the round.
    left: Duration,
}

struct Line {
    /// The number of the grant, or [`UNAUTHENTICATED`].
    of: u64,
    waiting: VecDeque<u64>,
    /// Time that it has had, or counts as having had.
    had: Duration,
}

impl TurnScheduler {
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
        let ahead = self.least.saturating_sub(AHEAD);
        if let Some(line) = self.lines.iter_mut().find(|line| line.of == of) {
            line.had = line.had.max(ahead);
            line.waiting.push_back(token);
            return;
        }
        // Lines of grants that have gone make room for others; what is forgotten makes no
        // difference.
        self.lines
            .retain(|line| !line.waiting.is_empty() || line.had > ahead);
        self.lines.push(Line {
            of,
            waiting: VecDeque::from([token]),
            had: ahead,
        });
    }

    /// Has what is done at the door wait for its turn, unless it does.
    pub(crate) fn wait_at_door(&mut self, token: u64) {
        let mut at_door = self.lines.iter().filter(|line| line.of == DOOR);
        if !at_door.any(|line| line.waiting.contains(&token)) {
            self.wait(DOOR, token);
        }
    }

    /// Begins a round.
    pub(crate) fn begin_round(&mut self) {
        self.left = ROUND;
    }

    /// The next whose turn it is in this round, and its line.
    pub(crate) fn next(&mut self) -> Option<(u64, u64)> {
        if self.left.is_zero() {
            return None;
        }
        let waiting = self
            .lines
            .iter_mut()
            .filter(|line| !line.waiting.is_empty());
        let line = waiting.min_by_key(|line| line.had)?;
        let token = line.waiting.pop_front()?;
        self.waiting -= 1;
        self.least = self.least.max(line.had);
        Some((line.of, token))
    }

    /// Notes how long the turn of one in that line took.
    pub(crate) fn spend(&mut self, of: u64, took: Duration) {
        let took = took.max(SHORTEST);
        self.left = self.left.saturating_sub(took);
        if let Some(line) = self.lines.iter_mut().find(|line| line.of == of) {
            line.had = (line.had + took).min(self.least + BEHIND);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Duration = Duration::from_micros(6);
    const LONG: Duration = ROUND;

    #[test]
    fn lines_have_the_same_time_however_many_wait_in_them() {
        let mut turns = TurnScheduler::default();
        (0..500).for_each(|token| turns.wait(7, token));
        turns.wait(8, 1000);
        turns.wait(UNAUTHENTICATED, 2000);
        assert!(turns.others_wait(8) && turns.others_wait(7));
        // Those of one line take four times as long as the others.
        let mut had = [Duration::ZERO; 3];
        for _ in 0..1000 {
            turns.begin_round();
            while let Some((of, token)) = turns.next() {
                let took = if of == 8 { 4 * SHORT } else { SHORT };
                turns.spend(of, took);
                turns.wait(of, token);
                had[[7, 8, 0].iter().position(|line| *line == of).unwrap()] += took;
            }
        }
        let [most, least] = [had.iter().max().unwrap(), had.iter().min().unwrap()];
        assert!(*most - *least <= 8 * SHORT, "{had:?}");
    }

    #[test]
    fn who_has_used_little_waits_for_one_long_turn_however_many_lines_have_more_to_do() {
        let mut turns = TurnScheduler::default();
        (1..=6).for_each(|of| turns.wait(of, of));
        for round in 0..100 {
            turns.begin_round();
            let mut order = Vec::new();
            while let Some((of, token)) = turns.next() {
                turns.spend(of, if of == 8 { SHORT } else { LONG });
                order.push(of);
                if of != 8 {
                    turns.wait(of, token);
                }
            }
            assert!(
                order.len() <= 2 && order.iter().any(|of| *of != 8),
                "{order:?}"
            );
            assert!(order[1..].iter().all(|of| *of != 8), "{order:?}");
            // Once all others have had a turn. It asks again only now, and is the first of the next
            // round.
            if round >= 6 {
                turns.wait(8, 2);
            }
        }
    }

    #[test]
    fn who_has_asked_for_nothing_for_long_keeps_others_waiting_for_no_longer_than_they_did() {
        let mut turns = TurnScheduler::default();
        turns.wait(7, 1);
        for _ in 0..1000 {
            turns.begin_round();
            while let Some((of, token)) = turns.next() {
                turns.spend(of, SHORT);
                turns.wait(of, token);
            }
        }
        turns.wait(8, 2);
        turns.begin_round();
        let mut order = Vec::new();
        while let Some((of, token)) = turns.next() {
            turns.spend(of, SHORT);
            turns.wait(of, token);
            order.push(of);
        }
        let first = order.iter().position(|of| *of == 7).unwrap();
        assert!((1..=6).contains(&first), "{order:?}");
    }

    #[test]
    fn a_thread_that_was_kept_from_its_processor_keeps_no_line_waiting_as_long() {
        let mut turns = TurnScheduler::default();
        turns.wait(7, 1);
        turns.wait(8, 2);
        turns.begin_round();
        let (of, token) = turns.next().unwrap();
        turns.spend(of, Duration::from_secs(1));
        turns.wait(of, token);
        let mut waited = Duration::ZERO;
        loop {
            turns.begin_round();
            let (next, token) = turns.next().unwrap();
            if next == of {
                break;
            }
            turns.spend(next, LONG);
            turns.wait(next, token);
            waited += LONG;
        }
        assert!(waited <= BEHIND + LONG, "{waited:?}");
    }

    #[test]
    fn what_waits_at_the_door_waits_there_once() {
        let mut turns = TurnScheduler::default();
        for token in [1, 2, 1, 2, 2] {
            turns.wait_at_door(token);
        }
        turns.begin_round();
        let order: Vec<_> = std::iter::from_fn(|| turns.next()).collect();
        assert_eq!(order, [(DOOR, 1), (DOOR, 2)]);
        turns.wait_at_door(1);
        assert!(!turns.is_empty());
    }

    #[test]
    fn everybody_in_a_line_has_a_turn_before_anybody_has_another() {
        let mut turns = TurnScheduler::default();
        (0..10).for_each(|token| turns.wait(1, token));
        let mut order = Vec::new();
        while order.len() < 20 {
            turns.begin_round();
            while let Some((of, token)) = turns.next() {
                turns.spend(of, LONG);
                turns.wait(of, token);
                order.push(token);
            }
        }
        assert_eq!(order, (0..10).chain(0..10).collect::<Vec<_>>());
        assert!(!turns.is_empty() && !turns.others_wait(1));
    }
}
