//! Exploring a net by several ranks.

use super::super::net::{digest_of, header_of, resumed, unbounded};
use super::super::{Explored, Journal, Options, Progress};
use super::rank::Rank;
use super::ring::{Exchange, RingShape};
use super::search::explore_rank;
use crate::error::{ExploreError, RankError};
use crate::formula::Formula;
use crate::net::Net;
use crate::packed::PackedNet;
use farslot_fabric::Endpoint;
use std::path::{Path, PathBuf};

/// [`explore_net`](super::super::explore_net) by all ranks together: each calls this with the same
/// net, invariant and options. Begins anew, with all ranks, where a place turns out to need more
/// bits.
///
/// With a path for a journal, each rank writes one of its own there, `PATH.0-of-3` and so on, and
/// the exploration goes on from those that are there.
///
/// # Errors
/// As [`explore_rank`]; [`ExploreError::Unbounded`]; [`ExploreError::WrongJournal`] on all ranks
/// where some have a journal with levels, and others none.
pub async fn explore_net_rank<'n, E: Endpoint>(
    net: &'n Net,
    invariant: Option<&'n Formula>,
    options: &Options,
    exchange: &mut Exchange<E>,
    journal: Option<&Path>,
    progress: &Progress,
) -> Result<(Explored, PackedNet<'n>), ExploreError> {
    let options = Options {
        check_invariant: invariant.is_some(),
        ..options.clone()
    };
    // The walks are the same on every rank, and so are the widths.
    let mut packed = PackedNet::sampled(net, invariant);
    let mut file = None;
    let ranks = (exchange.rank(), exchange.ranks());
    let journal = journal.map(|path| path_of(path, ranks));
    let digest = digest_of(net, invariant, ranks);
    if let Some(path) = &journal {
        let resumed = together(net, invariant, &options, exchange, digest, path).await?;
        (packed, file) = (resumed.0, Some(resumed.1));
    }
    loop {
        match explore_rank(&packed, &options, exchange, file.as_mut(), progress).await {
            Ok(explored) => return Ok((explored, packed)),
            Err(ExploreError::NoRoom(no_room)) => {
                packed = packed
                    .widened(no_room)
                    .ok_or_else(|| unbounded(net, no_room))?;
                if let Some(path) = &journal {
                    file = Some(Journal::create(path, header_of(&packed, digest))?);
                }
            }
            Err(error) => return Err(error),
        }
    }
}

/// How a rank fares with its journal: it has none, it has one, it has one that it cannot use.
const NONE: u64 = 0;
const SOME: u64 = 1;
const FAILED: u64 = 2;

/// A rank's journal, beside those of the others.
fn path_of(path: &Path, (rank, ranks): (usize, usize)) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{rank}-of-{ranks}"));
    name.into()
}

/// The journals from which all ranks go on, or new ones; and the net as they have it packed.
async fn together<'n, E: Endpoint>(
    net: &'n Net,
    invariant: Option<&'n Formula>,
    options: &Options,
    exchange: &mut Exchange<E>,
    digest: u64,
    path: &Path,
) -> Result<(PackedNet<'n>, Journal), ExploreError> {
    let (mut failed, mut journal) = (None, None);
    let mut packed = PackedNet::sampled(net, invariant);
    if path.exists() {
        match resumed(net, invariant, digest, path) {
            Ok(resumed) => (packed, journal) = (resumed.0, Some(resumed.1)),
            Err(error) => failed = Some(error),
        }
    }
    // How this rank fares, the levels in its journal, and the widths of its places.
    let fares = match (&failed, &journal) {
        (Some(_), _) => FAILED,
        (None, None) => NONE,
        (None, Some(_)) => SOME,
    };
    let levels = journal.as_ref().map_or(0, Journal::levels);
    let mut own = vec![fares, levels];
    own.extend(packed.widths().iter().map(|width| u64::from(*width)));
    let parts = Rank::new(&packed, options, exchange)?.gather(&own).await?;
    if let Some(error) = failed {
        return Err(error);
    }
    let (mut some_have_levels, mut some_have_none, mut widest) = (false, false, Vec::new());
    for (rank, part) in parts.iter().enumerate() {
        if part.first() == Some(&FAILED) {
            return Err(RankError::GaveUp { rank }.into());
        }
        let widths = part.get(2..).filter(|_| part.len() == own.len());
        let widths = widths.ok_or_else(|| RankError::malformed(rank, "widths of another net"))?;
        some_have_none |= part[0] == NONE;
        some_have_levels |= part[1] > 0;
        widest.resize(widths.len(), 0);
        for (widest, width) in widest.iter_mut().zip(widths) {
            *widest = (*width).max(*widest);
        }
    }
    if some_have_levels && some_have_none {
        return Err(ExploreError::WrongJournal {
            path: path.into(),
            reason: "some ranks have a journal and others have none",
        });
    }
    match journal {
        Some(journal) if widest == own[2..] && parts.iter().all(|part| part[2..] == own[2..]) => {
            Ok((packed, journal))
        }
        // New, or killed while all began anew with more bits.
        _ => {
            let widths = widest.into_iter().map(|width| width.min(64) as u32);
            let packed = PackedNet::with_widths(net, invariant, widths.collect());
            let journal = Journal::create(path, header_of(&packed, digest))?;
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
