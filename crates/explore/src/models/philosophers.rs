//! Dining philosophers: each takes its left fork, then its right one.

use super::as_net::{ModelNet, NetBuilder, TokenMoves};
use super::bits::{get, set};
use super::size::{SizeError, check_size};
use crate::model::{Model, StateOverflow, Successors};

const BITS: u32 = 2;
const THINKING: u64 = 0;
const HAS_LEFT: u64 = 1;
const EATING: u64 = 2;

/// Philosophers around a table, with a fork between neighbours. Each takes the fork at its left,
/// then the one at its right, eats, and puts both back. All of them may hold a left fork: a
/// deadlock.
#[derive(Debug, Clone, Hash)]
pub struct Philosophers {
    count: usize,
}

impl Philosophers {
    /// A table for 2 to 10,000.
    ///
    /// # Errors
    /// [`SizeError`].
    pub fn new(count: usize) -> Result<Self, SizeError> {
        check_size("the number of philosophers", count, 2, 10_000)?;
        Ok(Self { count })
    }

    pub(super) fn as_net(&self, name: &str) -> ModelNet {
        let mut net = NetBuilder::default();
        let people = (0..self.count).map(|me| {
            let places = net.variable(["think", "left", "eat"].map(|id| format!("{id}{me}")));
            (places, net.place(format!("fork{me}"), true))
        });
        let people: Vec<(Vec<usize>, usize)> = people.collect();
        for (me, (places, left)) in people.iter().enumerate() {
            let right = people[(me + 1) % self.count].1;
            let (think, has_left, eat) = (places[0], places[1], places[2]);
            let takes_left = TokenMoves::default().and(think, has_left).and_take(*left);
            net.transition(format!("philosopher {me} takes the left fork"), takes_left);
            let takes_right = TokenMoves::default().and(has_left, eat).and_take(right);
            net.transition(
                format!("philosopher {me} takes the right fork"),
                takes_right,
            );
            let puts_back = TokenMoves::default().and(eat, think);
            let puts_back = puts_back.and_put(*left).and_put(right);
            net.transition(format!("philosopher {me} puts both back"), puts_back);
        }
        net.build(name, None)
    }

    #[inline]
    fn is(&self, state: &[u64], philosopher: usize) -> u64 {
        get(state, philosopher * BITS as usize, BITS)
    }
}

impl Model for Philosophers {
    fn bits(&self) -> usize {
        self.count * BITS as usize
    }

    fn initial(&self) -> Vec<Vec<u64>> {
        vec![vec![0; self.bits().div_ceil(64)]]
    }

    #[inline]
    fn successors(&self, state: &[u64], out: &mut Successors) -> Result<(), StateOverflow> {
        let mut left_neighbour = self.is(state, self.count - 1);
        for me in 0..self.count {
            let here = self.is(state, me);
            // The left fork is the left neighbour's right one, the right fork the right neighbour's
            // left one.
            let next = match here {
                THINKING if left_neighbour != EATING => Some(HAS_LEFT),
                HAS_LEFT if self.is(state, (me + 1) % self.count) == THINKING => Some(EATING),
                EATING => Some(THINKING),
                _ => None,
            };
            if let Some(next) = next {
                set(out.push(me as u32, state), me * BITS as usize, BITS, next);
            }
            left_neighbour = here;
        }
        Ok(())
    }

    fn action(&self, action: u32) -> String {
        format!("philosopher {action}")
    }

    fn show(&self, state: &[u64]) -> String {
        let letter = |me| match self.is(state, me) {
            THINKING => 't',
            HAS_LEFT => 'l',
            _ => 'e',
        };
        (0..self.count).map(letter).collect()
    }
}
