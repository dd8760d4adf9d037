//! A shortest path to a state, found backwards through the levels by all ranks together.

use super::super::TraceStep;
use super::super::level::Blocks;
use super::rank::RankSearch;
use crate::error::{ExploreError, RankError};
use crate::model::{Model, Successors};

/// A path from an initial state to the state with code `target` of `rank`, which is in the last of
/// `levels`. Each rank looks for a predecessor in its part of the level before; the first rank that
/// has one tells all.
pub(super) async fn of<M: Model>(
    this: &mut RankSearch<'_, '_, M>,
    levels: &[Blocks],
    rank: usize,
    target: Option<u64>,
) -> Result<Vec<TraceStep>, ExploreError> {
    let mut state = vec![0; this.words()];
    let words = match target {
        Some(code) if rank == this.exchange.rank() => {
            this.intake
                .store
                .decode(&mut this.intake.coder, code, &mut state)?;
            &state[..]
        }
        _ => &[],
    };
    let parts = this.gather(words).await?;
    let mut state = checked(&parts[rank], rank, this.words())?.to_vec();
    let mut backwards = Vec::new();
    for level in levels.iter().rev().skip(1) {
        let words = predecessor(this, level, &state)?;
        let parts = this.gather(&words).await?;
        let mut ranks = parts.iter().enumerate();
        let Some((of, found)) = ranks.find(|(_, part)| !part.is_empty()) else {
            break;
        };
        let before = checked(&found[1..], of, this.words())?.to_vec();
        let action = Some(found[0] as u32);
        let state_after = std::mem::replace(&mut state, before);
        backwards.push(TraceStep {
            action,
            state: state_after,
        });
    }
    backwards.push(TraceStep {
        action: None,
        state,
    });
    backwards.reverse();
    Ok(backwards)
}

fn checked(state: &[u64], rank: usize, words: usize) -> Result<&[u64], RankError> {
    if state.len() == words {
        return Ok(state);
    }
    Err(RankError::malformed(rank, "a state of another length"))
}

/// The first state of this rank's part of a level with a step to `target`, behind its action;
/// nothing if there is none.
fn predecessor<M: Model>(
    this: &mut RankSearch<'_, '_, M>,
    level: &Blocks,
    target: &[u64],
) -> Result<Vec<u64>, ExploreError> {
    let mut successors = Successors::new(this.words());
    let mut found = vec![0; 1 + this.words()];
    for code in level.codes() {
        let state = &mut found[1..];
        this.intake
            .store
            .decode(&mut this.intake.coder, code, state)?;
        successors.clear();
        this.model.successors(state, &mut successors)?;
        let mut states = successors.states().chunks_exact(target.len());
        if let Some(at) = states.position(|next| next == target) {
            found[0] = successors.actions()[at].into();
            return Ok(found);
        }
    }
    Ok(Vec::new())
}
