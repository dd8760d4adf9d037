//! The tick of a transaction, within one that serves connections: all of its steps are done
//! together or none is, and nothing else executes meanwhile.

use super::{ByKey, TickRoom, TickSteps};
use crate::databases::Databases;
use crate::failure::Failure;
use crate::watch::WatchRegistry;

impl TickSteps<'_> {
    /// An empty one of a transaction, whose requests are done together or not at all.
    pub(crate) fn of_transaction(now: u64, room: TickRoom) -> Self {
        Self {
            has_done: true,
            ..Self::new(now, ByKey::default(), room)
        }
    }

    /// The room of a transaction in it that may take so many bytes.
    pub(crate) const fn room_within(&self, bytes: usize) -> TickRoom {
        let TickRoom {
            replies, is_short, ..
        } = self.room;
        TickRoom {
            alone: bytes,
            together: bytes,
            replies: if is_short { replies } else { usize::MAX },
            is_short,
        }
    }

    /// Runs all steps that have not been run, of a transaction that holds the exclusive lock; none
    /// if there is no room for all. Returns whether there was.
    pub(crate) fn run_transaction(
        &mut self,
        databases: &mut Databases,
        watches: &WatchRegistry,
    ) -> bool {
        let numbers = self.databases();
        let has_room = self.load_all(databases, &numbers);
        if has_room {
            self.execute(databases, numbers, watches);
        }
        has_room
    }

    /// Has all steps fail that have not been run.
    pub(crate) fn refuse(&mut self, failure: &Failure) {
        for chain in 0..self.chains.len() {
            self.fail(chain, failure);
        }
        self.forget();
    }

    /// Counts bytes that a transaction has taken, so that not too many of them are done in a tick.
    pub(crate) fn charge(&mut self, bytes: usize) {
        self.taken += bytes;
    }
}
