//! What calls did, for C.

use crate::error::{Failure, FsKind, done, note};
use farslot_set::{Outcome, SetError};

/// What a call did.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(non_camel_case_types, reason = "C's names")]
pub enum FsOutcome {
    /// The element or the key was there.
    FS_FOUND = 0,
    /// The element or the key was absent and is there now: of all callers, one is told so.
    FS_INSERTED = 1,
    /// The element is absent, and its set or map has no room for it. A table that has none says
    /// FS_ERROR, with FS_KIND_FULL or FS_KIND_OUT_OF_MEMORY.
    FS_FULL = 2,
    /// The element or the key is absent, or the queue is empty.
    FS_ABSENT = 3,
    /// The call failed: see fs_error_message and fs_error_kind.
    FS_ERROR = 4,
    /// It is done: of calls that can do nothing else, or fail.
    FS_DONE = 5,
    /// The key was there, and its value was replaced.
    FS_REPLACED = 6,
    /// The key has another value than was expected, or is absent; nothing was changed.
    FS_DIFFERS = 7,
    /// The value is longer than the room for it: nothing was copied, nor taken.
    FS_TOO_LONG = 8,
    /// Other transactions were in the way: nothing was changed. See fs_error_message, too.
    FS_CONFLICT = 9,
    /// The transaction's own body gave it up: nothing was changed.
    FS_ABORTED = 10,
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

    /// The outcome of something that finds a key, or not.
    pub(crate) const fn found(was_there: bool) -> Self {
        match was_there {
            true => Self::FS_FOUND,
            false => Self::FS_ABSENT,
        }
    }

    /// The outcome of a put.
    pub(crate) const fn put(is_new: bool) -> Self {
        match is_new {
            true => Self::FS_INSERTED,
            false => Self::FS_REPLACED,
        }
    }
}

/// The outcome of a call's work.
pub(crate) fn outcome(work: impl FnOnce() -> Result<FsOutcome, Failure>) -> FsOutcome {
    done(work).unwrap_or_else(|failed| match failed {
        FsKind::FS_KIND_CONFLICT => FsOutcome::FS_CONFLICT,
        _ => FsOutcome::FS_ERROR,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{fs_error_kind, fs_error_may_have_taken_effect, fs_error_message, made};
    use std::ffi::CStr;

    #[test]
    fn a_panic_is_a_failure_that_may_have_taken_effect() {
        let none: Option<u8> = None;
        let ended = outcome(|| Ok(none.map(|_| FsOutcome::FS_DONE).expect("a bug\0 of ours")));
        assert_eq!(ended, FsOutcome::FS_ERROR);
        // SAFETY: it is good until the next call.
        let said = unsafe { CStr::from_ptr(fs_error_message()) };
        assert_eq!(said.to_str(), Ok("the library panicked: a bug of ours"));
        assert!(fs_error_may_have_taken_effect());
        assert!(made(|| -> Result<u8, Failure> { panic!("so does this") }).is_null());
        assert_eq!(fs_error_kind(), FsKind::FS_KIND_OTHER);
    }
}
