//! Exploring a net by several ranks.

use super::super::journal::digest_of;
use super::super::net::{above_limit, header_of, resumed};
use super::super::{Explored, LevelJournal, Options, Progress};
use super::journals::{compare, path_of};
use super::rank::RankSearch;
use super::ring::{Exchange, RingShape};
use super::search::{Exploring, explore_rank};
use crate::error::{ExploreError, RankError};
use crate::formula::Formula;
use crate::growth;
use crate::net::Net;
use crate::packed::PackedNet;
use std::path::Path;
use std::time::Instant;

/// [`explore_net`](super::super::explore_net) by all ranks together: each calls this with the same
/// net, invariant and options. Begins anew, with all ranks, where a place turns out to need more
/// bits.
///
/// With a path for a journal, each rank writes one of its own there, `PATH.0-of-3` and so on, and
/// the exploration goes on from those that are there.
///
/// # Errors
/// As [`explore_rank`]; of the net as [`explore_net`](super::super::explore_net);
/// [`ExploreError::WrongJournal`] on all ranks where some have a journal with levels, and others
/// none.
pub fn explore_net_rank<'n>(
    net: &'n Net,
    invariant: Option<&'n Formula>,
    options: &'n Options,
    exchange: &'n mut Exchange,
    journal: Option<&'n Path>,
    progress: &'n Progress,
) -> Exploring<'n, (Explored, PackedNet<'n>)> {
    Box::pin(explore_net(
        net, invariant, options, exchange, journal, progress,
    ))
}

async fn explore_net<'n>(
    net: &'n Net,
    invariant: Option<&'n Formula>,
    options: &Options,
    exchange: &mut Exchange,
    journal: Option<&Path>,
    progress: &Progress,
) -> Result<(Explored, PackedNet<'n>), ExploreError> {
    let started = Instant::now();
    let options = Options {
        check_invariant: invariant.is_some(),
        ..options.clone()
    };
    // The walks are the same on every rank, and so are what they find and the widths.
    if invariant.is_none() {
        growth::check(net)?;
    }
    let mut packed = PackedNet::sampled(net, invariant);
    let mut file = None;
    let ranks = (exchange.rank(), exchange.ranks());
    let journal = journal.map(|path| path_of(path, ranks));
    let digest = digest_of(&(net, invariant), ranks);
    if let Some(path) = &journal {
        exchange.may_keep_journal()?;
        let resumed = together(net, invariant, &options, exchange, digest, path).await?;
        (packed, file) = (resumed.0, Some(resumed.1));
    }
    let mut grown = None;
    loop {
        match explore_rank(&packed, &options, exchange, file.as_mut(), progress).await {
            Ok(explored) => return Ok((explored.since(started), packed)),
            Err(ExploreError::NoRoom(no_room)) => {
                grown = Some(no_room);
                packed = packed
                    .widened(no_room)
                    .ok_or_else(|| above_limit(net, no_room))?;
                if let Some(path) = &journal {
                    file = Some(LevelJournal::create(path, header_of(&packed, digest))?);
                }
            }
            Err(error) => return Err(growth::explained(net, error, grown)),
        }
    }
}

/// The journals from which all ranks go on, or new ones; and the net as they have it packed.
async fn together<'n>(
    net: &'n Net,
    invariant: Option<&'n Formula>,
    options: &Options,
    exchange: &mut Exchange,
    digest: u64,
    path: &Path,
) -> Result<(PackedNet<'n>, LevelJournal), ExploreError> {
    let mut packed = PackedNet::sampled(net, invariant);
    let mut journal = Ok(None);
    if path.exists() {
        match resumed(net, invariant, digest, path) {
            Ok(resumed) => (packed, journal) = (resumed.0, Ok(Some(resumed.1))),
            Err(error) => journal = Err(error),
        }
    }
    let widths = packed.widths().iter().map(|width| u64::from(*width));
    let mut rank = RankSearch::new(&packed, options, exchange)?;
    let compared = compare(&mut rank, path, journal, widths.collect()).await?;
    drop(rank);
    match compared.journal {
        Some(journal) if compared.all_alike => Ok((packed, journal)),
        // New, or killed while all began anew with more bits.
        _ => {
            let widths = compared.largest.into_iter();
            let widths = widths.map(|width| width.min(64) as u32).collect();
            let packed = PackedNet::with_widths(net, invariant, widths);
            let journal = LevelJournal::create(path, header_of(&packed, digest))?;
            Ok((packed, journal))
        }
    }
}

/// The rings that the ranks of a net's exploration need, however many bits its places turn out to
/// need.
///
/// # Errors
/// As [`RingShape::for_states`].
pub fn rings_for_net(net: &Net, ranks: u32) -> Result<RingShape, RankError> {
    // At worst every place has half a word.
    RingShape::for_states(ranks, net.places().len().div_ceil(2) + 2)
}
