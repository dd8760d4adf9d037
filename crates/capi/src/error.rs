//! Why the last call of a thread failed, and what a call makes of a failure.

use farslot::{ErrorKind, StoreError};
use std::cell::RefCell;
use std::ffi::{CString, c_char};
use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What a failure comes down to, for a program that decides by it what to do next.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(non_camel_case_types, reason = "C's names")]
pub enum FsKind {
    /// Nothing has failed yet.
    #[default]
    FS_KIND_NONE = 0,
    /// No slot is left for a new key, or no room in a queue. The table goes on serving.
    FS_KIND_FULL = 1,
    /// No memory is left: for a record, for a table to grow, or for a table in the store.
    FS_KIND_OUT_OF_MEMORY = 2,
    /// A key or a value that the table does not hold, mostly of another size.
    FS_KIND_DOES_NOT_FIT = 3,
    /// Another client is the table's only writer, or has become it.
    FS_KIND_WRITER_BUSY = 4,
    /// The table never changes again.
    FS_KIND_SEALED = 5,
    /// The table is to be built whole, and has not been.
    FS_KIND_NOT_BUILT = 6,
    /// The scheme of the table cannot do that.
    FS_KIND_UNSUPPORTED = 7,
    /// There is no such table.
    FS_KIND_NO_SUCH_TABLE = 8,
    /// The table was dropped, cleared or renamed by another client.
    FS_KIND_TABLE_GONE = 9,
    /// There is a table of that name.
    FS_KIND_TABLE_EXISTS = 10,
    /// An argument, an address, a name or an option that cannot be used.
    FS_KIND_BAD_INPUT = 11,
    /// A node cannot be reached.
    FS_KIND_NODE_DOWN = 12,
    /// A node did not answer in time: what was asked of it may have taken effect.
    FS_KIND_TIMED_OUT = 13,
    /// A node came back empty.
    FS_KIND_NODE_RESTARTED = 14,
    /// The secret or the grant does not allow it.
    FS_KIND_ACCESS_DENIED = 15,
    /// Others were faster, time and again.
    FS_KIND_CONTENDED = 16,
    /// Another transaction was in the way of one, each time that it was run.
    FS_KIND_CONFLICT = 17,
    /// Too much is under way: later there may be room.
    FS_KIND_BUSY = 18,
    /// It was opened before a fork, or was closed.
    FS_KIND_CLOSED = 19,
    /// What is in the memory is not what clients leave there.
    FS_KIND_DAMAGED = 20,
    /// Anything else; the message says what.
    FS_KIND_OTHER = 21,
}

impl From<&StoreError> for FsKind {
    fn from(error: &StoreError) -> Self {
        if matches!(error, StoreError::Conflict { .. }) {
            return Self::FS_KIND_CONFLICT;
        }
        match error.kind() {
            ErrorKind::Full => Self::FS_KIND_FULL,
            ErrorKind::OutOfMemory => Self::FS_KIND_OUT_OF_MEMORY,
            ErrorKind::DoesNotFit => Self::FS_KIND_DOES_NOT_FIT,
            ErrorKind::WriterBusy => Self::FS_KIND_WRITER_BUSY,
            ErrorKind::Sealed => Self::FS_KIND_SEALED,
            ErrorKind::NotBuilt => Self::FS_KIND_NOT_BUILT,
            ErrorKind::Unsupported => Self::FS_KIND_UNSUPPORTED,
            ErrorKind::NoSuchTable => Self::FS_KIND_NO_SUCH_TABLE,
            ErrorKind::TableGone => Self::FS_KIND_TABLE_GONE,
            ErrorKind::TableExists => Self::FS_KIND_TABLE_EXISTS,
            ErrorKind::BadInput => Self::FS_KIND_BAD_INPUT,
            ErrorKind::NodeDown => Self::FS_KIND_NODE_DOWN,
            ErrorKind::TimedOut => Self::FS_KIND_TIMED_OUT,
            ErrorKind::NodeRestarted => Self::FS_KIND_NODE_RESTARTED,
            ErrorKind::AccessDenied => Self::FS_KIND_ACCESS_DENIED,
            ErrorKind::Contended => Self::FS_KIND_CONTENDED,
            ErrorKind::Busy => Self::FS_KIND_BUSY,
            ErrorKind::Closed => Self::FS_KIND_CLOSED,
            ErrorKind::Damaged => Self::FS_KIND_DAMAGED,
            _ => Self::FS_KIND_OTHER,
        }
    }
}

/// Why a call failed.
#[derive(Debug, Default)]
pub(crate) struct Failure {
    text: CString,
    kind: FsKind,
    may_have_taken_effect: bool,
}

impl Failure {
    pub(crate) fn new(kind: FsKind, said: impl Display) -> Self {
        // A message without its zeros: there are none but those of a caller's own text.
        let text = said.to_string().replace('\0', "");
        Self {
            text: CString::new(text).unwrap_or_default(),
            kind,
            may_have_taken_effect: false,
        }
    }

    pub(crate) fn bad(said: impl Display) -> Self {
        Self::new(FsKind::FS_KIND_BAD_INPUT, said)
    }

    /// The same, which may have taken effect all the same or not.
    pub(crate) fn in_doubt(self, may_have_taken_effect: bool) -> Self {
        Self {
            may_have_taken_effect,
            ..self
        }
    }

    /// The first failure of a batch, of which this one comes later.
    pub(crate) fn before(first: Self, later: &Self) -> Self {
        let is_in_doubt = first.may_have_taken_effect || later.may_have_taken_effect;
        first.in_doubt(is_in_doubt)
    }

    /// Remembers it for the calling thread; what it comes down to.
    pub(crate) fn note(self) -> FsKind {
        let kind = self.kind;
        // A thread that is ending has nowhere to keep it.
        let _ = LAST.try_with(|last| *last.borrow_mut() = self);
        kind
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        // Of a batch the program has the outcomes of all keys, and is told here of those that
        // failed alone.
        if let StoreError::Batch(failed) = error {
            let mut failures = failed.failures().iter();
            let in_doubt = failures.any(|(_, error)| error.may_have_taken_effect());
            return Self::from(failed.into_first()).in_doubt(in_doubt);
        }
        Self::new(FsKind::from(&error), &error).in_doubt(error.may_have_taken_effect())
    }
}

thread_local! {
    static LAST: RefCell<Failure> = RefCell::default();
}

/// Remembers why a call failed.
pub(crate) fn note(error: impl Display) {
    Failure::new(FsKind::FS_KIND_OTHER, error).note();
}

/// What `made` holds; none, and a note, if it failed.
pub(crate) fn noted<T, E: Display>(made: Result<T, E>) -> Option<T> {
    made.map_err(note).ok()
}

/// Does a call's work: what it returns, or a note. A panic ends here.
pub(crate) fn done<T>(work: impl FnOnce() -> Result<T, Failure>) -> Result<T, FsKind> {
    let done = catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let said = panic.downcast_ref::<String>().map(String::as_str);
        let said = said.or_else(|| panic.downcast_ref::<&str>().copied());
        let said = format!(
            "the library panicked: {}",
            said.unwrap_or("without a message")
        );
        Err(Failure::new(FsKind::FS_KIND_OTHER, said).in_doubt(true))
    });
    done.map_err(Failure::note)
}

/// What a call makes, to be freed by another; null if it fails.
pub(crate) fn made<T>(work: impl FnOnce() -> Result<T, Failure>) -> *mut T {
    let made = done(|| Ok(Box::into_raw(Box::new(work()?))));
    made.unwrap_or(std::ptr::null_mut())
}

/// Why the last call of this thread that failed did, as text. It is good until the thread's next
/// call of this library.
#[unsafe(no_mangle)]
pub extern "C" fn fs_error_message() -> *const c_char {
    LAST.with(|last| last.borrow().text.as_ptr())
}

/// What the failure of the last call of this thread that failed comes down to; FS_KIND_OTHER for
/// most of sets and maps.
#[unsafe(no_mangle)]
pub extern "C" fn fs_error_kind() -> FsKind {
    LAST.with(|last| last.borrow().kind)
}

/// Whether the last call of this thread that failed may have taken effect all the same, or may
/// still: a node did not answer, for instance.
#[unsafe(no_mangle)]
pub extern "C" fn fs_error_may_have_taken_effect() -> bool {
    LAST.with(|last| last.borrow().may_have_taken_effect)
}
