//! Placements of paper 001, to be counted side by side.

pub(crate) mod cost;
pub(crate) mod ours;
pub(crate) mod race;
pub(crate) mod split;

#[cfg(test)]
mod tests;
