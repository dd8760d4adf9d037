//! Small fields of a state, none of which lies in two words.

/// The `width` bits from bit `at` on.
#[inline]
pub(super) fn get(state: &[u64], at: usize, width: u32) -> u64 {
    (state[at / 64] >> (at % 64)) & ((1 << width) - 1)
}

/// Replaces the `width` bits from bit `at` on.
#[inline]
pub(super) fn set(state: &mut [u64], at: usize, width: u32, value: u64) {
    let word = &mut state[at / 64];
    let mask = ((1 << width) - 1) << (at % 64);
    *word = *word & !mask | (value << (at % 64)) & mask;
}
