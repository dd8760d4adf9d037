//! Tables and figures of the papers, reproduced.

mod table1;

use crate::{BenchError, Progress, ReproReport, Result};

/// What a reproduction may vary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Slots of each table.
    pub slots: u64,
    /// Tables that are averaged over.
    pub tables: u32,
    /// Lookups, in each table, behind each cell.
    pub lookups: u32,
    /// What all chance derives from.
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            slots: 1 << 22,
            tables: 16,
            lookups: 20_000,
            seed: 0,
        }
    }
}

type Reproduction = fn(&Options, Progress<'_>) -> Result<ReproReport>;

const ALL: [(&str, &str, Reproduction); 1] = [(
    table1::ID,
    "paper 000, table 1: READs per lookup, and read sizes",
    table1::run,
)];

/// What can be reproduced: its id, and what that is.
pub fn all() -> impl Iterator<Item = (&'static str, &'static str)> {
    ALL.iter().map(|(id, title, _)| (*id, *title))
}

/// Reproduces one table or figure.
///
/// # Errors
/// [`BenchError::UnknownId`], [`BenchError::BadOption`], or what the measurement says.
pub fn run(id: &str, options: &Options, progress: Progress<'_>) -> Result<ReproReport> {
    match ALL.iter().find(|(known, _, _)| *known == id) {
        Some((_, _, run)) => run(options, progress),
        None => Err(BenchError::UnknownId {
            id: id.into(),
            known: ALL.map(|(known, _, _)| known).join(", "),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_id_is_answered_with_the_known_ones() {
        let error = run("000-table9", &Options::default(), &|_| {}).unwrap_err();
        assert!(error.is_usage());
        let said = error.to_string();
        assert!(all().all(|(id, _)| said.contains(id)), "{said}");
    }
}
