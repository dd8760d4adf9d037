//! The search that all ranks go through together, level by level.

use super::super::options::{Options, Progress};
use super::super::{Explored, LevelJournal};
use super::rank::RankSearch;
use super::ring::Exchange;
use super::sums::RankTotals;
use super::trace;
use crate::error::ExploreError;
use crate::model::Model;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// A rank's part of an exploration. It is boxed, so that this crate compiles it and not each that
/// runs it.
pub type Exploring<'x, T> = Pin<Box<dyn Future<Output = Result<T, ExploreError>> + 'x>>;

/// Explores a model to its end, or to the first level with a violation, together with the other
/// ranks, all of which call this with the same model and options. All return the same numbers and
/// the same path.
///
/// With a journal, each rank of its own, every level is written to it when it is complete, and the
/// exploration goes on from the last level that is in the journals of all ranks.
///
/// # Errors
/// [`ExploreError`]. Where a state has no room all ranks return that, and may go on with a wider
/// model over the same exchange; after any other error the exchange is of no more use.
pub async fn explore_rank<M: Model>(
    model: &M,
    options: &Options,
    exchange: &mut Exchange,
    mut journal: Option<&mut LevelJournal>,
    progress: &Progress,
) -> Result<Explored, ExploreError> {
    let started = Instant::now();
    if journal.is_some() {
        exchange.may_keep_journal()?;
    }
    let mut rank = RankSearch::new(model, options, exchange)?;
    let mut levels = Vec::new();
    let replayed = match &mut journal {
        Some(journal) => rank.replay(journal, &mut levels).await?,
        None => None,
    };
    let (mut level, mut depth) = match replayed {
        Some(replayed) => replayed,
        None => {
            let level = rank.begin().await?;
            if let Some(journal) = &mut journal {
                rank.record(journal, &level, 0);
            }
            (level, 0)
        }
    };
    let (sums, violation) = loop {
        rank.expand(&level).await?;
        let next = rank.intake.finish();
        rank.check_counts()?;
        let (sums, violator) = rank.sum(&next).await?;
        if options.check_invariant {
            levels.push(level);
        }
        show(progress, &sums, depth);
        if let Some(of) = violator {
            let target = rank.violation;
            break (sums, Some(trace::of(&mut rank, &levels, of, target).await?));
        }
        if sums.next == 0 {
            break (sums, None);
        }
        depth += 1;
        if let Some(journal) = &mut journal {
            rank.record(journal, &next, depth);
        }
        level = next;
    };
    Ok(Explored {
        states: sums.states,
        transitions: sums.transitions,
        deadlocks: sums.deadlocks,
        depth,
        tokens: sums.tokens,
        violation,
        bytes: sums.bytes,
        seconds: started.elapsed().as_secs_f64(),
        preparation: 0.0,
    })
}

fn show(progress: &Progress, sums: &RankTotals, depth: u64) {
    progress.states.store(sums.states, Ordering::Relaxed);
    let transitions = &progress.transitions;
    transitions.store(sums.transitions, Ordering::Relaxed);
    progress.at_level(depth, sums.bytes);
}
