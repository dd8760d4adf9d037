//! What the ranks tell each other at the end of a level.

use crate::error::{ExploreError, RankError};
use crate::model::{StateOverflow, Tokens};

/// One rank's numbers, or those of all ranks together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct RankTotals {
    /// States that were found.
    pub(super) states: u64,
    /// States of the next level.
    pub(super) next: u64,
    pub(super) transitions: u64,
    pub(super) deadlocks: u64,
    pub(super) bytes: u64,
    pub(super) tokens: Option<Tokens>,
    /// Whether a state of the level violates the invariant.
    pub(super) violated: bool,
    pub(super) outcome: Outcome,
}

/// Whether a rank can go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Outcome {
    #[default]
    Well,
    /// A state has no room in the model's bits: all ranks end with that, and may begin anew with
    /// more bits.
    NoRoom(StateOverflow),
    Failed,
}

/// Words of a rank's numbers.
const WORDS: usize = 12;

impl RankTotals {
    pub(super) fn to_words(self) -> [u64; WORDS] {
        let tokens = self.tokens.unwrap_or_default();
        let (outcome, part, value) = match self.outcome {
            Outcome::Well => (0, 0, 0),
            Outcome::NoRoom(no_room) => (1, no_room.part as u64, no_room.value),
            Outcome::Failed => (2, 0, 0),
        };
        [
            self.states,
            self.next,
            self.transitions,
            self.deadlocks,
            self.bytes,
            self.tokens.is_some().into(),
            tokens.in_place,
            tokens.in_state,
            self.violated.into(),
            outcome,
            part,
            value,
        ]
    }

    fn of_words(words: &[u64]) -> Option<Self> {
        let words: &[u64; WORDS] = words.try_into().ok()?;
        let [states, next, transitions, deadlocks, bytes, rest @ ..] = *words;
        let [
            has_tokens,
            in_place,
            in_state,
            violated,
            outcome,
            part,
            value,
        ] = rest;
        let no_room = StateOverflow {
            part: part as usize,
            value,
        };
        Some(Self {
            states,
            next,
            transitions,
            deadlocks,
            bytes,
            tokens: (has_tokens != 0).then_some(Tokens { in_place, in_state }),
            violated: violated != 0,
            outcome: match outcome {
                0 => Outcome::Well,
                1 => Outcome::NoRoom(no_room),
                _ => Outcome::Failed,
            },
        })
    }

    /// The sum over all ranks, and the first rank with a violation. Every rank finds the same from
    /// the same parts.
    ///
    /// # Errors
    /// If any rank has failed: [`RankError::GaveUp`] where that is another's affair.
    pub(super) fn over(parts: &[Vec<u64>]) -> Result<(Self, Option<usize>), ExploreError> {
        let (mut sums, mut violator, mut no_room) = (Self::default(), None, None);
        for (rank, part) in parts.iter().enumerate() {
            let part = Self::of_words(part);
            let part = part.ok_or_else(|| RankError::malformed(rank, "sums of another form"))?;
            match part.outcome {
                Outcome::Well => {}
                Outcome::NoRoom(of_rank) => no_room = no_room.or(Some(of_rank)),
                Outcome::Failed => return Err(RankError::GaveUp { rank }.into()),
            }
            sums.states = sums.states.saturating_add(part.states);
            sums.next = sums.next.saturating_add(part.next);
            sums.transitions = sums.transitions.saturating_add(part.transitions);
            sums.deadlocks = sums.deadlocks.saturating_add(part.deadlocks);
            sums.bytes = sums.bytes.saturating_add(part.bytes);
            sums.tokens = match (sums.tokens, part.tokens) {
                (Some(one), Some(two)) => Some(one.max(two)),
                (one, two) => one.or(two),
            };
            if part.violated {
                violator = violator.or(Some(rank));
            }
        }
        match no_room {
            Some(no_room) => Err(no_room.into()),
            None => Ok((sums, violator)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back_and_are_summed() {
        let no_room = StateOverflow { part: 3, value: 9 };
        let one = RankTotals {
            states: 1,
            next: 2,
            transitions: 3,
            deadlocks: 4,
            bytes: 5,
            tokens: Some(Tokens {
                in_place: 6,
                in_state: 7,
            }),
            violated: true,
            outcome: Outcome::NoRoom(no_room),
        };
        assert_eq!(RankTotals::of_words(&one.to_words()), Some(one));
        let well = RankTotals {
            outcome: Outcome::Well,
            ..one
        };
        let words = |sums: RankTotals| sums.to_words().to_vec();
        let none = words(RankTotals::default());
        let (sums, violator) = RankTotals::over(&[none.clone(), words(well), words(well)]).unwrap();
        assert_eq!((sums.states, sums.bytes, violator), (2, 10, Some(1)));
        assert_eq!(sums.tokens, one.tokens);
        let refused = RankTotals::over(&[words(well), words(one)]);
        assert!(matches!(refused, Err(ExploreError::NoRoom(of)) if of == no_room));
        let failed = RankTotals {
            outcome: Outcome::Failed,
            ..one
        };
        let gave_up = RankTotals::over(&[words(one), words(failed)]).unwrap_err();
        assert_eq!(gave_up.to_string(), "rank 1 has given up");
        assert!(RankTotals::over(&[vec![0; 3]]).is_err());
    }
}
