//! Exploring a net: with as many bits a place as turn out to be needed.

use super::journal::digest_of;
use super::{Explored, Header, LevelJournal, Options, Progress, explore};
use crate::error::{ExploreError, TokenLimit};
use crate::formula::Formula;
use crate::growth;
use crate::model::{Model, StateOverflow};
use crate::net::Net;
use crate::packed::PackedNet;
use std::path::Path;
use std::time::Instant;

/// Explores a net, with its markings packed as [`PackedNet`] says. Where a place turns out to need
/// more bits, the exploration begins anew. Where an invariant is given, the exploration ends at the
/// first level with a marking that violates it.
///
/// With a path for a journal, the exploration goes on from the journal there, or begins one.
/// Returns the net as it was packed in the end, which the markings of a trace are read by.
///
/// # Errors
/// [`ExploreError`]; [`ExploreError::Unbounded`] of a net that is seen to be so, before it is
/// explored or, where there is an invariant to be violated, when memory is full;
/// [`ExploreError::AboveLimit`] where a place would get 2^32 tokens.
pub fn explore_net<'n>(
    net: &'n Net,
    invariant: Option<&'n Formula>,
    options: &Options,
    journal: Option<&Path>,
    progress: &Progress,
) -> Result<(Explored, PackedNet<'n>), ExploreError> {
    let started = Instant::now();
    let options = Options {
        check_invariant: invariant.is_some(),
        ..options.clone()
    };
    if invariant.is_none() {
        growth::check(net)?;
    }
    // The invariant belongs to it: levels that are in a journal are not checked again.
    let digest = digest_of(&(net, invariant), (0, 1));
    let (mut packed, mut journal_file) = match journal {
        Some(path) if path.exists() => {
            let (packed, journal) = resumed(net, invariant, digest, path)?;
            (packed, Some(journal))
        }
        Some(path) => {
            let packed = PackedNet::sampled(net, invariant);
            let journal = LevelJournal::create(path, header_of(&packed, digest))?;
            (packed, Some(journal))
        }
        None => (PackedNet::sampled(net, invariant), None),
    };
    let mut grown = None;
    loop {
        let explored = explore(&packed, &options, journal_file.as_mut(), progress);
        let no_room = match explored {
            Ok(explored) => return Ok((explored.since(started), packed)),
            Err(ExploreError::NoRoom(no_room)) => no_room,
            Err(error) => return Err(growth::explained(net, error, grown)),
        };
        grown = Some(no_room);
        packed = packed
            .widened(no_room)
            .ok_or_else(|| above_limit(net, no_room))?;
        if let Some(path) = journal {
            journal_file = Some(LevelJournal::create(path, header_of(&packed, digest))?);
        }
    }
}

pub(super) fn above_limit(net: &Net, no_room: StateOverflow) -> ExploreError {
    ExploreError::AboveLimit {
        place: net.places()[no_room.part].id.clone(),
        limit: TokenLimit::Tokens(u32::MAX.into()),
    }
}

pub(super) fn header_of(packed: &PackedNet<'_>, digest: u64) -> Header {
    Header {
        bits: packed.bits() as u64,
        digest,
        layout: packed.widths().iter().map(|width| *width as u8).collect(),
    }
}

pub(super) fn resumed<'n>(
    net: &'n Net,
    invariant: Option<&'n Formula>,
    digest: u64,
    path: &Path,
) -> Result<(PackedNet<'n>, LevelJournal), ExploreError> {
    let journal = LevelJournal::open(path)?;
    let widths = journal
        .header()
        .layout
        .iter()
        .map(|width| u32::from(*width));
    let packed = PackedNet::with_widths(net, invariant, widths.collect());
    if *journal.header() != header_of(&packed, digest) {
        return Err(ExploreError::WrongJournal {
            path: path.into(),
            reason: "it is of another net or another invariant",
        });
    }
    Ok((packed, journal))
}
