//! Journals of an exploration by several ranks: each has one of its own, with its parts of the
//! levels.

use super::super::{Header, LevelJournal, Options};
use super::rank::RankSearch;
use super::ring::Exchange;
use crate::error::{ExploreError, RankError};
use crate::model::Model;
use std::path::{Path, PathBuf};

/// How a rank fares with its journal: it has none, it has one, it has one that it cannot use.
const NONE: u64 = 0;
const SOME: u64 = 1;
const FAILED: u64 = 2;

/// A rank's journal for [`explore_rank`](super::explore_rank), beside those of the others: of
/// `PATH`, `PATH.0-of-3` and so on. All ranks call this together, each with its own header. It is
/// the one that is there, or a new one.
///
/// # Errors
/// As [`LevelJournal::open_or_create`]; [`RankError::GaveUp`] where another rank cannot use its
/// own; [`ExploreError::WrongJournal`] on all ranks where some have a journal with levels, and
/// others none.
pub async fn join_journals<M: Model>(
    model: &M,
    options: &Options,
    exchange: &mut Exchange,
    path: &Path,
    header: Header,
) -> Result<LevelJournal, ExploreError> {
    exchange.may_keep_journal()?;
    let path = path_of(path, (exchange.rank(), exchange.ranks()));
    let journal = match path.exists() {
        true => LevelJournal::open_or_create(&path, header.clone()).map(Some),
        false => Ok(None),
    };
    let mut rank = RankSearch::new(model, options, exchange)?;
    let compared = compare(&mut rank, &path, journal, Vec::new()).await?;
    match compared.journal {
        Some(journal) => Ok(journal),
        None => LevelJournal::create(&path, header),
    }
}

/// A rank's journal, beside those of the others.
pub(super) fn path_of(path: &Path, (rank, ranks): (usize, usize)) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{rank}-of-{ranks}"));
    name.into()
}

/// What all ranks have in the way of journals.
pub(super) struct Compared {
    /// This rank's, if it has one.
    pub(super) journal: Option<LevelJournal>,
    /// The largest layouts of all ranks, number by number.
    pub(super) largest: Vec<u64>,
    /// Whether all have the same layout.
    pub(super) all_alike: bool,
}

/// Tells the other ranks of this one's journal and of how it packs states, and hears of theirs.
pub(super) async fn compare<M: Model>(
    rank: &mut RankSearch<'_, '_, M>,
    path: &Path,
    journal: Result<Option<LevelJournal>, ExploreError>,
    layout: Vec<u64>,
) -> Result<Compared, ExploreError> {
    let fares = match &journal {
        Err(_) => FAILED,
        Ok(None) => NONE,
        Ok(Some(_)) => SOME,
    };
    let levels = journal.iter().flatten().map(LevelJournal::levels).sum();
    let mut words = vec![fares, levels];
    words.extend(&layout);
    let parts = rank.gather(&words).await?;
    let journal = journal?;
    let (mut some_have_levels, mut some_have_none) = (false, false);
    let mut largest = layout;
    let mut all_alike = true;
    for (rank, part) in parts.iter().enumerate() {
        if part.first() == Some(&FAILED) {
            return Err(RankError::GaveUp { rank }.into());
        }
        if part.len() != words.len() {
            return Err(RankError::malformed(rank, "a layout of another model").into());
        }
        some_have_none |= part[0] == NONE;
        some_have_levels |= part[1] > 0;
        all_alike &= part[2..] == words[2..];
        for (largest, number) in largest.iter_mut().zip(&part[2..]) {
            *largest = (*number).max(*largest);
        }
    }
    if some_have_levels && some_have_none {
        return Err(ExploreError::WrongJournal {
            path: path.into(),
            reason: "some ranks have a journal and others have none",
        });
    }
    Ok(Compared {
        journal,
        largest,
        all_alike,
    })
}
