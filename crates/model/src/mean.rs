//! Mean probe distances in closed form: Knuth's Q functions.
//!
//! Knuth, The Art of Computer Programming vol. 3, section 6.4, Theorem K: a miss in linear probing
//! takes (1 + Q_1(M, N)) / 2 probes and a hit takes (1 + Q_0(M, N - 1)) / 2. A distance is one less
//! than a number of probes. These sums are short (the terms die after about 40 / (1 - load) or 9
//! sqrt(M) of them), so they tell how much of a distribution lies beyond what was tabulated.

use crate::TableLoad;

/// Knuth's Q_r(M, N) = sum over k of C(r + k, k) N (N - 1) ... (N - k + 1) / M^k, for r = 0 or 1.
fn knuth_q(order: KnuthOrder, slots: u64, keys: u64) -> f64 {
    let (slots, keys) = (slots as f64, keys as f64);
    let per_slot = 1.0 / slots;
    let (mut sum, mut falling, mut k) = (1.0, 1.0, 0.0);
    while k < keys {
        falling *= (keys - k) * per_slot;
        k += 1.0;
        let term = match order {
            KnuthOrder::Zero => falling,
            KnuthOrder::One => falling * (k + 1.0),
        };
        sum += term;
        // The terms fall at least geometrically from here on, at the ratio of the next two.
        if falling * (k + 1.0) * slots < (slots - keys + k) * sum * 1e-17 {
            break;
        }
    }
    sum
}

#[derive(Clone, Copy)]
enum KnuthOrder {
    Zero,
    One,
}

/// Mean slots before the first empty one, from a random slot of a table with an empty slot.
pub(crate) fn miss(table: TableLoad) -> f64 {
    if table.empty() == 0 {
        return (table.slots() - 1) as f64;
    }
    0.5 * (knuth_q(KnuthOrder::One, table.slots(), table.occupied()) - 1.0)
}

/// Mean displacement of a random key of a table with a key.
pub(crate) fn stop_at_match(table: TableLoad) -> f64 {
    displacement(table.slots(), table.occupied().saturating_sub(1))
}

/// Mean displacement of a random key of a table that holds so many others (at most as many as it
/// has slots). Whose turn it is at a slot does not matter: it is the same in every order of the
/// keys.
pub(crate) fn displacement(slots: u64, occupied: u64) -> f64 {
    0.5 * (knuth_q(KnuthOrder::Zero, slots, occupied) - 1.0)
}

/// Mean slots from a random key's home slot to the first empty slot after it.
///
/// The keys that overflow a slot's left edge number `load` x the mean displacement on average; a
/// slot with n keys at home that is occupied hands on n - 1 more than it got. Summing that balance
/// over all the distances gives mean = (miss + load x displacement) / load.
pub(crate) fn all_matches(table: TableLoad) -> f64 {
    if table.empty() == 0 {
        return (table.slots() - 1) as f64;
    }
    miss(table) / table.load() + stop_at_match(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_tables_have_knuths_limits() {
        for load in [0.1, 0.5, 0.9, 0.99] {
            let table = TableLoad::from_load(1 << 40, load).unwrap();
            let empty = 1.0 - load;
            let expected_miss = 0.5 * (1.0 / (empty * empty) - 1.0);
            let expected_hit = 0.5 * (1.0 / empty - 1.0);
            let expected_all = 0.5 * (2.0 - load * load) / (empty * empty);
            assert!((miss(table) / expected_miss - 1.0).abs() < 1e-6);
            assert!((stop_at_match(table) / expected_hit - 1.0).abs() < 1e-6);
            assert!((all_matches(table) / expected_all - 1.0).abs() < 1e-6);
        }
    }

    #[test]
    fn one_empty_slot_is_equally_likely_anywhere() {
        for slots in [1, 2, 10, 1000, 1 << 20] {
            let table = TableLoad::new(slots, slots - 1).unwrap();
            let expected = (slots - 1) as f64 / 2.0;
            assert!((miss(table) - expected).abs() <= 1e-9 * expected.max(1.0));
        }
    }
}
