//! Whether a net's structure bounds a place, whatever the initial marking is.
//!
//! It does so exactly if no firings, each any number of times, leave at least as many tokens in
//! every place and more in this one (Memmi and Roucairol, 1980): a linear program, whose dual are
//! weights of places of which no transition increases the sum. The simplex method begins without
//! firings and ends with the first that add tokens, or when it sees that there are none.

use crate::net::Net;

/// Entries of the largest table, and entries that are changed at most: a bound on the time.
const ENTRIES: usize = 4 << 20;
const CHANGES: usize = 1 << 27;
/// Numbers nearer to 0 are 0.
const NEAR: f64 = 1e-9;

/// Whether a place could get any number of tokens, as far as its net's arcs go; also where finding
/// out would take too long. Floating point: an answer that is likely, not one that is certain.
pub(super) fn may_grow(net: &Net, place: usize) -> bool {
    let (places, transitions) = (net.places().len(), net.transitions().len());
    if places.saturating_mul(transitions) > ENTRIES {
        return true;
    }
    Simplex::new(net, place).gains()
}

/// At first a row is a place with the tokens that it has got, and a column a transition with its
/// firings: all of them 0, and none may become less.
struct Simplex {
    /// What a row's variable loses for each unit of a column's.
    table: Vec<Vec<f64>>,
    /// What the place in question gains.
    gain: Vec<f64>,
    /// Variables by their numbers: those that stand for columns, and for rows.
    columns: Vec<usize>,
    rows: Vec<usize>,
}

impl Simplex {
    fn new(net: &Net, place: usize) -> Self {
        let (places, transitions) = (net.places().len(), net.transitions().len());
        let mut table = vec![vec![0.0; transitions]; places];
        for (column, transition) in net.transitions().iter().enumerate() {
            for effect in transition.effects() {
                table[effect.place][column] = -effect.change as f64;
            }
        }
        Self {
            gain: table[place].iter().map(|loss| -loss).collect(),
            table,
            columns: (0..transitions).collect(),
            rows: (transitions..transitions + places).collect(),
        }
    }

    fn gains(mut self) -> bool {
        // The steepest column is mostly the best, but only the first one never goes in a circle.
        let mut steep = 2 * (self.columns.len() + self.rows.len());
        let mut changes = 0;
        while let Some(column) = self.entering(steep > 0) {
            steep = steep.saturating_sub(1);
            let Some(row) = self.leaving(column) else {
                return true;
            };
            changes += self.exchange(row, column);
            if changes > CHANGES {
                return true;
            }
        }
        false
    }

    /// A column that adds tokens to the place.
    fn entering(&self, steepest: bool) -> Option<usize> {
        let gaining = (0..self.gain.len()).filter(|&column| self.gain[column] > NEAR);
        match steepest {
            true => gaining.max_by(|one, two| self.gain[*one].total_cmp(&self.gain[*two])),
            false => gaining.min_by_key(|&column| self.columns[column]),
        }
    }

    /// A row that would lose what it has not got; none where nothing holds the column back.
    fn leaving(&self, column: usize) -> Option<usize> {
        let losing = (0..self.table.len()).filter(|&row| self.table[row][column] > NEAR);
        losing.min_by_key(|&row| self.rows[row])
    }

    /// Exchanges the variables of a row and a column. How many entries that took.
    fn exchange(&mut self, row: usize, column: usize) -> usize {
        let mut pivot = std::mem::take(&mut self.table[row]);
        let by = pivot[column];
        for entry in &mut pivot {
            *entry /= by;
        }
        pivot[column] = 1.0 / by;
        let filled: Vec<usize> = (0..pivot.len()).filter(|&at| pivot[at] != 0.0).collect();
        let mut changes = pivot.len();
        for other in self.table.iter_mut().chain([&mut self.gain]) {
            let Some(factor) = other.get(column).copied().filter(|factor| *factor != 0.0) else {
                continue;
            };
            other[column] = 0.0;
            for &at in &filled {
                other[at] -= factor * pivot[at];
                if other[at].abs() < NEAR {
                    other[at] = 0.0;
                }
            }
            changes += filled.len();
        }
        self.table[row] = pivot;
        std::mem::swap(&mut self.rows[row], &mut self.columns[column]);
        changes + self.rows.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::{Arc, NetPlace, Transition};

    /// A net from what its transitions add to places; places without tokens.
    fn net(places: usize, changes: &[&[i64]]) -> Net {
        let place = |at: usize| NetPlace {
            id: format!("p{at}"),
            initial: 0,
        };
        let transition = |(number, changes): (usize, &&[i64])| {
            let arcs = |sign: i64| {
                let arcs = changes.iter().enumerate();
                let arcs = arcs.filter(|(_, change)| **change * sign > 0);
                let arcs = arcs.map(|(place, change)| Arc {
                    place,
                    weight: change.unsigned_abs() as u32,
                });
                arcs.collect()
            };
            Transition {
                id: format!("t{number}"),
                takes: arcs(-1),
                puts: arcs(1),
            }
        };
        let transitions = changes.iter().enumerate().map(transition).collect();
        Net::new("net", (0..places).map(place).collect(), transitions).unwrap()
    }

    fn growing(net: &Net) -> Vec<usize> {
        let places = 0..net.places().len();
        places.filter(|&place| may_grow(net, place)).collect()
    }

    #[test]
    fn places_that_a_weighted_sum_bounds_do_not_grow() {
        let none: [usize; 0] = [];
        assert_eq!(growing(&net(1, &[&[1]])), [0]);
        assert_eq!(growing(&net(1, &[&[-1]])), none);
        assert_eq!(growing(&net(2, &[&[-1, 1], &[1, -1]])), none);
        // Two for one, and one for one.
        assert_eq!(growing(&net(2, &[&[-1, 2], &[1, -1]])), [0, 1]);
        assert_eq!(growing(&net(2, &[&[-3, 7], &[7, -17]])), none);
        assert_eq!(growing(&net(2, &[&[-3, 7], &[7, -16]])), [0, 1]);
        // The last one counts the rounds; nothing else grows.
        let rounds: &[&[i64]] = &[&[-1, 1, 0, 0], &[0, -1, 1, 0], &[1, 0, -1, 1]];
        assert_eq!(growing(&net(4, rounds)), [3]);
        // What it counts is used up by another transition, which two others must feed.
        let fed: &[&[i64]] = &[&[-1, 1, 1, 0], &[1, -1, 0, 0], &[0, 0, -2, 1]];
        assert_eq!(growing(&net(4, fed)), [2, 3]);
    }

    #[test]
    fn long_rings_do_not_grow_and_long_rounds_do() {
        let places = 300;
        for gain in [0, 1] {
            let changes = (0..places).map(|at| {
                let mut changes = vec![0; places + 1];
                (changes[at], changes[(at + 1) % places]) = (-3, 3);
                changes[places] = if at == 7 { gain } else { 0 };
                changes
            });
            let changes: Vec<Vec<i64>> = changes.collect();
            let changes: Vec<&[i64]> = changes.iter().map(Vec::as_slice).collect();
            let net = net(places + 1, &changes);
            assert_eq!(may_grow(&net, places), gain == 1);
            assert!(!may_grow(&net, 0));
        }
    }
}
