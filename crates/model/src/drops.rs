//! The three probe distributions, each as the drops of its probability mass.
//!
//! Let p_k be the probability that the terminating slot lies k slots after the first. The drop
//! d_k = p_k - p_{k+1} has a closed form in all three cases, as a first term and a ratio of
//! neighbours, which is what keeps 2^40 slots as exact as eight: no large logarithms are
//! subtracted from each other. The powers of the ratios go through `ln_1p`.
//!
//! Write f(M, N) = (1 - N/M) M^N for the number of ways to hash N keys into M slots that leave a
//! given slot empty (paper 000, section 3.3, Eq. 7), and f(0, 0) = 1.
//!
//! - **Miss** (Knuth; paper 000, Eqs. 7 and 8): d_k is the probability of an empty slot, a run of k
//!   occupied ones, and an empty slot: C(N, k) f(k+1, k) f(M-k-1, N-k) / M^N.
//! - **Hit that stops at the match**: a key's displacement is the distance that a miss had when the
//!   key came, so d_k is the miss's, averaged over n = 0..N-1 keys. The sum over n telescopes; with
//!   m = k + 1, d_k = m^(m-2) C(N, m) (M-m)^(N-m) / (N M^(N-1)).
//! - **Hit that returns all matches**: all orders of insertion give the same occupied slots, so
//!   take the key as inserted last, among n = N - 1. It fills the first empty slot after its home,
//!   and the lookup goes on over the run behind it, to the second empty slot. Summing the joint
//!   probability of the two runs over their lengths (Abel's identity, sum over e of C(s, e)
//!   (e+1)^(e-1) (s-e+1)^(s-e-1) = 2 (s+2)^(s-1)) leaves d_k = t_k - q_k, where q_k is the miss's
//!   drop at n keys and t_k = 2 C(n, k-1) (k+1)^(k-2) f(M-k-1, n-k+1) / M^n.

use crate::TableLoad;

/// How far to follow a sequence of drops.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DropExtent {
    /// At most this many drops.
    pub(crate) max_len: usize,
    /// Stop where what remains of the survival function sums to about this, times the first drop.
    pub(crate) negligible: f64,
}

/// d_0, d_1, ...; `complete` if what was left out is negligible.
#[derive(Debug)]
pub(crate) struct Drops {
    pub(crate) values: Vec<f64>,
    pub(crate) complete: bool,
}

impl Drops {
    fn set_from_end(&mut self, offset: usize, value: f64) {
        if let Some(slot) = self.values.iter_mut().rev().nth(offset) {
            *slot = value;
        }
    }
}

/// The powers (1 + 1/j)^j for j = 1, 2, ...: common to all tables, so worth keeping between them.
#[derive(Debug, Default)]
pub(crate) struct EulerPowers(Vec<f64>);

impl EulerPowers {
    fn get(&mut self, j: usize) -> f64 {
        while self.0.len() < j {
            let next = (self.0.len() + 1) as f64;
            self.0.push((next * (1.0 / next).ln_1p()).exp());
        }
        self.0[j - 1]
    }
}

/// The drops of a miss.
pub(crate) fn miss(table: TableLoad, extent: DropExtent, powers: &mut EulerPowers) -> Drops {
    match table.empty() {
        0 => full_table(table.slots(), extent),
        1 => one_empty_slot(table.slots(), extent),
        _ => runs(table.slots(), table.occupied(), extent, powers),
    }
}

/// The probabilities of an empty slot, a run of k occupied slots, and an empty slot; two slots or
/// more must be empty.
fn runs(slots: u64, keys: u64, extent: DropExtent, powers: &mut EulerPowers) -> Drops {
    let (m, n) = (slots as f64, keys as f64);
    let first = one_less_power(m, n - 1.0) * (m - n - 1.0) / m;
    follow(first, keys + 1, extent, |index| {
        let k = index as f64;
        let rest = m - k - 1.0;
        let growth = powers.get(index + 1) * (k + 1.0) / (k + 2.0);
        growth * (n - k) / rest * one_less_power(rest, n - k - 2.0)
    })
}

/// The drops of a hit that stops at its match; needs a key.
pub(crate) fn stop_at_match(
    table: TableLoad,
    extent: DropExtent,
    powers: &mut EulerPowers,
) -> Drops {
    let (m, n) = (table.slots() as f64, table.occupied() as f64);
    let first = one_less_power(m, n - 1.0);
    follow(first, table.occupied(), extent, |index| {
        let length = (index + 1) as f64;
        let rest = m - length;
        let shrink = length / (length + 1.0);
        let growth = powers.get(index + 1) * shrink * shrink;
        growth * (n - length) / rest * one_less_power(rest, n - length - 1.0)
    })
}

/// The drops of a hit that reads on to the first empty slot; needs a key.
pub(crate) fn all_matches(table: TableLoad, extent: DropExtent, powers: &mut EulerPowers) -> Drops {
    match table.empty() {
        0 => full_table(table.slots(), extent),
        1 => all_matches_but_one(table.slots(), extent, powers),
        _ => all_matches_general(table, extent, powers),
    }
}

fn all_matches_general(table: TableLoad, extent: DropExtent, powers: &mut EulerPowers) -> Drops {
    let (m, n) = (table.slots() as f64, table.occupied() as f64);
    // t_1, then t_{k+1} / t_k, with n of the module's comment equal to N - 1.
    let first = ((n - 2.0) * (-2.0 / m).ln_1p()).exp() * (m - n - 1.0) / m;
    let pairs = follow(first, table.occupied(), extent, |index| {
        let k = (index + 1) as f64;
        let rest = m - k - 1.0;
        let shrink = (k + 1.0) / (k + 2.0);
        let growth = powers.get(index + 2) * shrink * shrink * (k + 1.0) / k;
        growth * (n - k) / rest * one_less_power(rest, n - k - 2.0)
    });
    let mut values = Vec::with_capacity(pairs.values.len() + 1);
    values.push(-one_less_power(m, n - 2.0) * (m - n) / m);
    values.extend(pairs.values.iter().enumerate().map(|(index, pair)| {
        let k = (index + 1) as f64;
        let single = (n - k) * (k + 1.0) * (m - n) / (2.0 * k * (m - k - 1.0) * (m - n - 1.0));
        pair * (1.0 - single)
    }));
    Drops {
        values,
        complete: pairs.complete,
    }
}

/// All matches, when the key filled the last slot but one: t_k is zero up to the very last term.
fn all_matches_but_one(slots: u64, extent: DropExtent, powers: &mut EulerPowers) -> Drops {
    let untruncated = DropExtent {
        negligible: 0.0,
        ..extent
    };
    let mut drops = runs(slots, slots - 2, untruncated, powers);
    for value in &mut drops.values {
        *value = -*value;
    }
    // Without the last term the drops say nothing about where the mass ends.
    drops.complete &= drops.values.len() < extent.max_len;
    if drops.complete {
        drops.values.push(2.0 / slots as f64);
    }
    drops
}

/// A miss with one empty slot: equally likely at every distance, so one drop at the end.
fn one_empty_slot(slots: u64, extent: DropExtent) -> Drops {
    let mut drops = flat(slots, extent);
    if drops.complete {
        drops.set_from_end(0, 1.0 / slots as f64);
    }
    drops
}

/// A table without an empty slot: the lookup ends when it has read all of it, at distance M - 1.
fn full_table(slots: u64, extent: DropExtent) -> Drops {
    let mut drops = flat(slots, extent);
    if drops.complete {
        drops.set_from_end(0, 1.0);
        drops.set_from_end(1, -1.0);
    }
    drops
}

fn flat(slots: u64, extent: DropExtent) -> Drops {
    Drops {
        values: vec![0.0; slots.min(extent.max_len as u64) as usize],
        complete: slots <= extent.max_len as u64,
    }
}

/// The sequence that starts at `first`, with `ratio(k)` of term k + 1 to term k, over `support`
/// terms.
fn follow(
    first: f64,
    support: u64,
    extent: DropExtent,
    mut ratio: impl FnMut(usize) -> f64,
) -> Drops {
    let len = support.min(extent.max_len as u64) as usize;
    let mut values = vec![first];
    let mut term = first;
    for k in 1..len {
        let step = ratio(k - 1);
        term *= step;
        values.push(term);
        // Three sums separate a drop from the sum of the survival function, each adding 1 / (1 -
        // ratio).
        if step < 1.0 && term < extent.negligible * first * (1.0 - step).powi(3) {
            return Drops {
                values,
                complete: true,
            };
        }
    }
    Drops {
        values,
        complete: support <= extent.max_len as u64,
    }
}

/// (1 - 1/base)^exponent, also where the base is large or the exponent zero.
fn one_less_power(base: f64, exponent: f64) -> f64 {
    if exponent == 0.0 {
        return 1.0;
    }
    let x = 1.0 / base;
    let log = if base < SERIES_FROM {
        (-x).ln_1p()
    } else {
        -x * (1.0 + x * (0.5 + x * (1.0 / 3.0 + x * 0.25)))
    };
    (exponent * log).exp()
}

/// From here on four terms of the series of ln(1 - x) are exact to the last bit, and much faster.
const SERIES_FROM: f64 = 16384.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_series_continues_the_logarithm() {
        for base in [16384.0f64, 16385.0, 1e5, 1e9, 1e12] {
            let exact = (base * (-1.0 / base).ln_1p()).exp();
            assert!((one_less_power(base, base) / exact - 1.0).abs() < 5e-16);
        }
        assert_eq!(one_less_power(1.0, 0.0), 1.0);
        assert_eq!(one_less_power(1.0, 3.0), 0.0);
    }
}
