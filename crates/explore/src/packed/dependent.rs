//! Places whose tokens follow from those of others in every marking, so that a state need not have
//! them.
//!
//! What transitions change is a matrix with a row each and a column a place. Where a column is a
//! sum of others with factors (by elimination, with pivots of 1 and -1, so that factors stay
//! whole), so is every change of its place, and the place has its initial tokens and the others'
//! changes with these factors: a P-invariant.

use crate::net::Net;
use std::collections::BTreeSet;

/// Entries of the matrix, and entries that are changed, at most: a bound on the time.
const ENTRIES: usize = 1 << 20;
const CHANGES: usize = 1 << 27;
/// The largest factor.
const FACTOR: i64 = 1 << 20;
/// Places that follow from others, at most.
pub(super) const MOST: usize = 32;

/// A place that has `constant` tokens and, for each token of others, so many more or fewer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DependentPlace {
    pub(super) place: usize,
    pub(super) constant: i64,
    pub(super) terms: Vec<(usize, i64)>,
}

/// Dependent places and, in their terms, others, all of which `may_be`. The same for the same net.
pub(super) fn dependent_places(net: &Net, may_be: impl Fn(usize) -> bool) -> Vec<DependentPlace> {
    let mut places: Vec<usize> = (0..net.places().len())
        .filter(|&place| may_be(place))
        .collect();
    // Those with many tokens are the last to be others' terms: they take the most bits.
    places.sort_by_key(|&place| net.places()[place].initial);
    let Some(mut matrix) = Matrix::of(net, &places) else {
        return Vec::new();
    };
    if !matrix.eliminate() {
        return Vec::new();
    }
    let initial = |column: usize| i64::from(net.places()[places[column]].initial);
    let dependent = (0..places.len()).filter_map(|column| {
        let terms = matrix.terms(column)?;
        let others = terms.iter().map(|(other, factor)| factor * initial(*other));
        Some(DependentPlace {
            place: places[column],
            constant: initial(column) - others.sum::<i64>(),
            terms: terms
                .iter()
                .map(|(other, factor)| (places[*other], *factor))
                .collect(),
        })
    });
    dependent.take(MOST).collect()
}

struct Matrix {
    rows: Vec<Vec<i64>>,
    /// The row and the column of each pivot.
    pivots: Vec<(usize, usize)>,
}

impl Matrix {
    /// Of a net's different changes at these places; none if it were too large.
    fn of(net: &Net, places: &[usize]) -> Option<Self> {
        let mut column_of = vec![None; net.places().len()];
        for (column, &place) in places.iter().enumerate() {
            column_of[place] = Some(column);
        }
        let changes = net.transitions().iter().map(|transition| {
            let effects = transition.effects().into_iter();
            let here = effects.filter(|effect| effect.change != 0);
            here.filter_map(|effect| Some((column_of[effect.place]?, effect.change)))
                .collect::<Vec<_>>()
        });
        let changes: BTreeSet<Vec<(usize, i64)>> = changes.collect();
        if changes.len().saturating_mul(places.len()) > ENTRIES {
            return None;
        }
        let rows = changes.into_iter().map(|changes| {
            let mut row = vec![0; places.len()];
            for (column, change) in changes {
                row[column] = change;
            }
            row
        });
        Some(Self {
            rows: rows.collect(),
            pivots: Vec::new(),
        })
    }

    /// Makes each pivot the only entry of its column that is not 0, until no row without one has an
    /// entry of 1 or -1. False if that takes too long, or numbers become too large.
    fn eliminate(&mut self) -> bool {
        let mut changes_left = CHANGES;
        let mut has_pivot = vec![false; self.rows.len()];
        let mut next = 0;
        // Rows without a pivot, again and again, until none of them gets one.
        let mut without = 0;
        while without < self.rows.len() {
            let number = next % self.rows.len();
            (next, without) = (next + 1, without + 1);
            if has_pivot[number] {
                continue;
            }
            let unit = self.rows[number].iter().position(|entry| entry.abs() == 1);
            let Some(column) = unit else { continue };
            without = 0;
            has_pivot[number] = true;
            self.pivots.push((number, column));
            let sign = self.rows[number][column];
            self.rows[number]
                .iter_mut()
                .for_each(|entry| *entry *= sign);
            let pivot = self.rows[number].clone();
            for (other, row) in self.rows.iter_mut().enumerate() {
                let factor = row[column];
                if other == number || factor == 0 {
                    continue;
                }
                if changes_left < row.len() {
                    return false;
                }
                changes_left -= row.len();
                for (entry, of_pivot) in row.iter_mut().zip(&pivot) {
                    *entry -= factor * of_pivot;
                    if entry.abs() > FACTOR {
                        return false;
                    }
                }
            }
        }
        true
    }

    /// The columns of which this one is a sum, with their factors; none where it is a pivot's, or a
    /// row without pivot has it.
    fn terms(&self, column: usize) -> Option<Vec<(usize, i64)>> {
        if self.pivots.iter().any(|(_, pivot)| *pivot == column) {
            return None;
        }
        let mut entries = vec![0; self.rows.len()];
        for (row, entries) in self.rows.iter().zip(&mut entries) {
            *entries = row[column];
        }
        let mut terms = Vec::new();
        for &(row, pivot) in &self.pivots {
            match std::mem::take(&mut entries[row]) {
                0 => {}
                factor => terms.push((pivot, factor)),
            }
        }
        entries.iter().all(|entry| *entry == 0).then_some(terms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::{Arc, NetPlace, Transition};

    /// Tokens that go from `a` to `b`, two at a time, and one of them to `c` each time; `d` counts
    /// what is in `b` and `c` together, and `e` nothing.
    #[test]
    fn a_place_that_is_a_sum_of_others_depends_on_them() {
        let place = |id: &str, initial| NetPlace {
            id: id.into(),
            initial,
        };
        let places = vec![
            place("a", 10),
            place("b", 0),
            place("c", 1),
            place("d", 7),
            place("e", 3),
        ];
        let arcs = |arcs: &[(usize, u32)]| {
            let arcs = arcs.iter().map(|&(place, weight)| Arc { place, weight });
            arcs.collect::<Vec<_>>()
        };
        let transition = |takes: &[(usize, u32)], puts: &[(usize, u32)]| Transition {
            id: format!("{takes:?}"),
            takes: arcs(takes),
            puts: arcs(puts),
        };
        let transitions = vec![
            transition(&[(0, 2)], &[(1, 1), (2, 1), (3, 2)]),
            transition(&[(1, 1), (3, 1)], &[(0, 1)]),
            transition(&[(4, 2)], &[(4, 2)]),
        ];
        let net = Net::new("sums", places, transitions).unwrap();
        let dependent = dependent_places(&net, |_| true);
        let mut places: Vec<usize> = dependent.iter().map(|place| place.place).collect();
        places.sort_unstable();
        assert_eq!(places, [0, 3, 4]);
        // Two tokens of `a` less for each of `c` more, and for each of `b` one of `a` less.
        let mut marking = [10_i64, 0, 1, 7, 3];
        for firing in [0, 1, 0, 0, 1, 1, 2] {
            for effect in net.transitions()[firing].effects() {
                marking[effect.place] += effect.change;
            }
            for place in &dependent {
                let terms = place.terms.iter();
                let sum: i64 = terms.map(|(other, factor)| marking[*other] * factor).sum();
                assert_eq!(place.constant + sum, marking[place.place]);
            }
        }
        assert_eq!(dependent_places(&net, |place| place < 2), []);
    }
}
