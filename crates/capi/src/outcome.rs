//! What find-or-put did, for C.

use crate::error::note;
use farslot_set::{Outcome, SetError};

/// What a call did.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(non_camel_case_types, reason = "C's names")]
pub enum FsOutcome {
    /// The element was there.
    FS_FOUND = 0,
    /// The element was absent and is there now: of all callers, one is told so.
    FS_INSERTED = 1,
    /// The element is absent, and there is no room for it.
    FS_FULL = 2,
    /// The element is absent.
    FS_ABSENT = 3,
    /// The call failed: see fs_error_message.
    FS_ERROR = 4,
}

impl FsOutcome {
    /// The outcome of a find-or-put, and where the element is.
    pub(crate) fn of_put(put: Result<Outcome, SetError>) -> (Self, Option<u64>) {
        match put {
            Ok(Outcome::Found(place)) => (Self::FS_FOUND, Some(place)),
            Ok(Outcome::Inserted(place)) => (Self::FS_INSERTED, Some(place)),
            Ok(Outcome::Full) => (Self::FS_FULL, None),
            Err(error) => {
                note(error);
                (Self::FS_ERROR, None)
            }
        }
    }
}
