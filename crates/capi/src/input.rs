//! What callers pass, checked as far as it can be.

use crate::error::Failure;
use crate::outcome::FsOutcome;
use std::ffi::{CStr, c_char};

/// Bytes that a program has somewhere.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct FsBytes {
    /// Where they are; null only if there are none.
    pub data: *const u8,
    /// How many they are.
    pub len: usize,
}

/// Room of a program's own for a value, and what became of the lookup that was to fill it.
#[repr(C)]
#[derive(Debug)]
pub struct FsValue {
    /// Where the value goes; null only if there is no room.
    pub to: *mut u8,
    /// Bytes that there is room for.
    pub room: usize,
    /// Bytes of the value, of FS_FOUND and FS_TOO_LONG. It is set by the call, as the outcome is.
    pub len: usize,
    /// FS_FOUND, FS_ABSENT, FS_TOO_LONG or FS_ERROR.
    pub outcome: FsOutcome,
}

/// The text at a pointer; none where it is null.
///
/// # Safety
/// The pointer is null or to a text that ends with a zero, for as long as it is used.
pub(crate) unsafe fn text<'a>(at: *const c_char) -> Result<Option<&'a str>, Failure> {
    if at.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller says that it is a text.
    let text = unsafe { CStr::from_ptr(at) };
    text.to_str().map(Some).map_err(Failure::bad)
}

/// The text at a pointer, which must be there.
///
/// # Safety
/// As of [`text`].
pub(crate) unsafe fn required<'a>(at: *const c_char, argument: &str) -> Result<&'a str, Failure> {
    // SAFETY: as the caller says.
    let text = unsafe { text(at) }?;
    text.ok_or_else(|| Failure::bad(format!("no {argument}")))
}

/// Bytes at a pointer: of a key or a value, of which no table has longer ones than `u32::MAX`.
///
/// # Safety
/// They are there for as long as they are used, unless there are more than `u32::MAX`.
pub(crate) unsafe fn bytes<'a>(
    data: *const u8,
    len: usize,
    argument: &str,
) -> Result<&'a [u8], Failure> {
    match (data.is_null(), len) {
        (_, 0) => Ok(&[]),
        (true, _) => Err(Failure::bad(format!(
            "no {argument}, but a length of {len}"
        ))),
        (false, len) if len > u32::MAX as usize => {
            let said = format!(
                "a {argument} of {len} bytes is over the limit of {}",
                u32::MAX
            );
            Err(Failure::bad(said))
        }
        // SAFETY: as the caller says.
        (false, len) => Ok(unsafe { std::slice::from_raw_parts(data, len) }),
    }
}

/// What a pointer is to.
///
/// # Safety
/// It is null, or what it is to is there for as long as it is used.
pub(crate) unsafe fn given<'a, T>(at: *const T, argument: &str) -> Result<&'a T, Failure> {
    // SAFETY: as the caller says.
    let given = unsafe { at.as_ref() };
    given.ok_or_else(|| Failure::bad(format!("no {argument}")))
}

/// So many items at a pointer.
///
/// # Safety
/// They are there for as long as they are used.
pub(crate) unsafe fn items<'a, T>(
    at: *const T,
    count: usize,
    argument: &str,
) -> Result<&'a [T], Failure> {
    check_items(at, count, argument)?;
    match count {
        0 => Ok(&[]),
        // SAFETY: as the caller says, and it is not null.
        count => Ok(unsafe { std::slice::from_raw_parts(at, count) }),
    }
}

/// Refuses a place where there cannot be so many items.
pub(crate) fn check_items<T>(at: *const T, count: usize, argument: &str) -> Result<(), Failure> {
    if count > isize::MAX as usize / size_of::<T>().max(1) {
        return Err(Failure::bad(format!(
            "{count} {argument} are more than memory holds"
        )));
    }
    if count > 0 && (at.is_null() || !at.is_aligned()) {
        return Err(Failure::bad(format!(
            "no {argument}, but a number of {count}"
        )));
    }
    Ok(())
}

/// Writes to where the caller wants it, if anywhere.
///
/// # Safety
/// `to` is null or has room.
pub(crate) unsafe fn give<T>(to: *mut T, value: T) {
    if !to.is_null() {
        // SAFETY: as the caller says.
        unsafe { to.write(value) };
    }
}

/// Room for a value: null, or so many bytes.
#[derive(Clone, Copy)]
pub(crate) struct ValueRoom {
    to: *mut u8,
    room: usize,
}

// SAFETY: it is written by one thread at a time, for which the thread that has it waits.
unsafe impl Send for ValueRoom {}

impl ValueRoom {
    /// # Safety
    /// `to` has room for `room` bytes for as long as this is used, or is null with 0.
    pub(crate) unsafe fn new(to: *mut u8, room: usize) -> Result<Self, Failure> {
        if to.is_null() && room > 0 {
            return Err(Failure::bad(format!(
                "nowhere to write a value, but room for {room}"
            )));
        }
        Ok(Self { to, room })
    }

    pub(crate) const fn len(self) -> usize {
        self.room
    }

    /// Copies a value there; false, and nothing is copied, if it is longer.
    pub(crate) fn fill(self, value: &[u8]) -> bool {
        if value.len() > self.room {
            return false;
        }
        if !value.is_empty() {
            // SAFETY: there is room for as many, apart from what this library has.
            unsafe {
                self.to
                    .copy_from_nonoverlapping(value.as_ptr(), value.len())
            };
        }
        true
    }
}
