//! Why the last call of a thread failed.

use std::cell::RefCell;
use std::ffi::{CString, c_char};
use std::fmt::Display;

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

/// Remembers why a call failed.
pub(crate) fn note(error: impl Display) {
    // A message without its zeros: there are none but those of a caller's own text.
    let text = error.to_string().replace('\0', "");
    LAST.with(|last| *last.borrow_mut() = CString::new(text).unwrap_or_default());
}

/// What `made` holds; none, and a note, if it failed.
pub(crate) fn noted<T, E: Display>(made: Result<T, E>) -> Option<T> {
    made.map_err(note).ok()
}

/// Why the last call of this thread that failed did, as text. It is good until the thread's next
/// call of this library.
#[unsafe(no_mangle)]
pub extern "C" fn fs_error_message() -> *const c_char {
    LAST.with(|last| last.borrow().as_ptr())
}
