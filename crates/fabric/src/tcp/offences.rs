//! Clients that ask again and again for what they may not have: they are slowed, then cut off.

use crate::error::Refusal;
use crate::net::agent::{ExecutionPause, ServedNode, count};

/// A client with so many offences has a rest after every turn in which it goes on so.
const SLOWED: u32 = 256;
/// A client with so many is cut off.
const CUT_OFF: u32 = 10_000;
/// Verbs that make up for one that was refused.
const MAKE_UP: u64 = 8;

/// Verbs of a client that were refused, and not made up for by others.
#[derive(Clone, Copy, Default)]
pub(super) struct Offences(u32);

impl Offences {
    pub(super) fn add_one(&mut self) {
        self.0 = self.0.saturating_add(1);
    }

    /// What becomes of a client at the end of a turn: it asked for so many verbs, and had `before`
    /// when the turn began. `is_amid_answer` says whether a frame has begun, in which no refusal
    /// can be told.
    #[inline]
    pub(super) fn judge(
        &mut self,
        pause: ExecutionPause,
        verbs: u64,
        before: Self,
        is_amid_answer: bool,
        served: &ServedNode,
    ) -> ExecutionPause {
        if self.0 == before.0 {
            let made_up = u32::try_from(verbs / MAKE_UP).unwrap_or(u32::MAX);
            self.0 = before.0.saturating_sub(made_up);
            return pause;
        }
        if self.0 >= CUT_OFF {
            count(&served.totals.cut_off, 1);
            return match pause {
                ExecutionPause::Full | ExecutionPause::Spent if is_amid_answer => {
                    ExecutionPause::Cut
                }
                _ => ExecutionPause::Refused(Refusal::TooManyRefused { limit: CUT_OFF }),
            };
        }
        match pause {
            ExecutionPause::Spent | ExecutionPause::Hungry(_) if self.0 >= SLOWED => {
                ExecutionPause::Resting
            }
            pause => pause,
        }
    }
}
