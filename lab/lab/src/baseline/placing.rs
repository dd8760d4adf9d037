//! How a design makes room for one more key.

use super::board::BucketBoard;
use super::homes::Homes;
use super::slots::Record;
use farslot::fabric::Endpoint;
use farslot::index::Result;
use std::rc::Rc;

/// A design, by how it makes room.
#[allow(
    async_fn_in_trait,
    reason = "used by one thread, over one endpoint: never Send"
)]
pub trait RoomPlanner: Homes + Sized {
    /// What of the design's own state a plan changes.
    type Change;

    /// Plans how a record whose window is full enters; nothing if it cannot. What it has read and
    /// would change is on the board.
    ///
    /// # Errors
    /// What reading says.
    async fn make_room<E: Endpoint>(
        &self,
        board: &mut BucketBoard<'_, E, Self>,
        newcomer: &Rc<Record>,
    ) -> Result<Option<Self::Change>>;

    /// Carries out what a plan changes of the state.
    fn apply(&self, change: Self::Change);
}
