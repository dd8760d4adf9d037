//! A shortest path to a state, found backwards through the levels.

use super::TraceStep;
use super::level::Blocks;
use super::store::{Coder, StateStore};
use super::worker::Search;
use crate::error::ExploreError;
use crate::model::{Model, Successors};

impl<M: Model> Search<'_, M> {
    /// A path from an initial state to the state with code `target`, which is in the last of
    /// `levels`. Each level is searched for a predecessor: no parents need be kept while exploring.
    pub(super) fn trace(
        &self,
        levels: &[Blocks],
        target: u64,
    ) -> Result<Vec<TraceStep>, ExploreError> {
        let store = self.read_store();
        let mut coder = store.coder();
        let mut code = target;
        let mut backwards = Vec::new();
        for level in levels.iter().rev().skip(1) {
            let step = self.predecessor(&store, &mut coder, level, code)?;
            let Some((action, before)) = step else { break };
            let action = Some(action);
            let state = self.state(&store, &mut coder, code)?;
            backwards.push(TraceStep { action, state });
            code = before;
        }
        let state = self.state(&store, &mut coder, code)?;
        backwards.push(TraceStep {
            action: None,
            state,
        });
        backwards.reverse();
        Ok(backwards)
    }

    fn state(
        &self,
        store: &StateStore,
        coder: &mut Coder,
        code: u64,
    ) -> Result<Vec<u64>, ExploreError> {
        let mut state = vec![0; self.words()];
        store.decode(coder, code, &mut state)?;
        Ok(state)
    }

    /// The first state of a level with a step to the state with code `code`: the action and its
    /// code.
    fn predecessor(
        &self,
        store: &StateStore,
        coder: &mut Coder,
        level: &Blocks,
        code: u64,
    ) -> Result<Option<(u32, u64)>, ExploreError> {
        let target = self.state(store, coder, code)?;
        let mut state = vec![0; self.words()];
        let mut successors = Successors::new(self.words());
        for before in level.codes() {
            store.decode(coder, before, &mut state)?;
            successors.clear();
            self.model.successors(&state, &mut successors)?;
            let mut states = successors.states().chunks_exact(self.words());
            if let Some(at) = states.position(|next| next == target) {
                return Ok(Some((successors.actions()[at], before)));
            }
        }
        Ok(None)
    }
}
