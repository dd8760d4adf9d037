//! Exploring a net by several ranks.

use super::super::net::unbounded;
use super::super::{Explored, Options, Progress};
use super::ring::{Exchange, RingShape};
use super::search::explore_rank;
use crate::error::{ExploreError, RankError};
use crate::formula::Formula;
use crate::net::Net;
use crate::packed::PackedNet;
use farslot_fabric::Endpoint;

/// [`explore_net`](super::super::explore_net) by all ranks together: each calls this with the same
/// net, invariant and options. Begins anew, with all ranks, where a place turns out to need more
/// bits.
///
/// # Errors
/// As [`explore_rank`]; [`ExploreError::Unbounded`].
pub async fn explore_net_rank<'n, E: Endpoint>(
    net: &'n Net,
    invariant: Option<&'n Formula>,
    options: &Options,
    exchange: &mut Exchange<E>,
    progress: &Progress,
) -> Result<(Explored, PackedNet<'n>), ExploreError> {
    let options = Options {
        check_invariant: invariant.is_some(),
        ..options.clone()
    };
    // The walks are the same on every rank, and so are the widths.
    let mut packed = PackedNet::sampled(net, invariant);
    loop {
        match explore_rank(&packed, &options, exchange, progress).await {
            Ok(explored) => return Ok((explored, packed)),
            Err(ExploreError::NoRoom(no_room)) => {
                packed = packed
                    .widened(no_room)
                    .ok_or_else(|| unbounded(net, no_room))?;
            }
            Err(error) => return Err(error),
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
