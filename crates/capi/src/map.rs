//! Maps from elements of any bytes to values of some words.

use crate::error::{Failure, note, noted};
use crate::input;
use crate::job::JobHandle;
use crate::outcome::FsOutcome;
use crate::shared::segments;
use farslot_fabric::shm::Node;
use farslot_set::{DataSet, DataShape, Spare};
use std::sync::atomic::{AtomicU64, Ordering};

/// A map: elements of up to so many bytes, each with an index that it keeps, and a value of some
/// words.
#[derive(Debug)]
pub struct MapHandle {
    map: DataSet,
    /// Serves this process's part of a map that it shares.
    _served: Option<Node>,
}

/// Space that a thread has taken for elements: one for each thread that inserts into a map.
#[derive(Debug, Default)]
pub struct SpareHandle(Spare);

/// What elements are: of exactly so many bytes, or of at most so many.
fn shape(element_bytes: usize, varies: bool, value_words: usize) -> DataShape {
    let shape = if varies {
        DataShape::varying(element_bytes)
    } else {
        DataShape::fixed(element_bytes)
    };
    shape.with_values(value_words)
}

fn given(map: Option<DataSet>, served: Option<Node>) -> *mut MapHandle {
    map.map_or(std::ptr::null_mut(), |map| {
        Box::into_raw(Box::new(MapHandle {
            map,
            _served: served,
        }))
    })
}

/// A map of this process's own: elements of `element_bytes` bytes, or of up to so many if their
/// length `varies`, with values of `value_words` words of 8 bytes; `buckets` for elements, and
/// `element_words` words for elements, their values and, where that varies, their lengths. Null if
/// that fails. To be freed by fs_map_free.
#[unsafe(no_mangle)]
pub extern "C" fn fs_map_new(
    element_bytes: usize,
    varies: bool,
    value_words: usize,
    buckets: u64,
    element_words: u64,
) -> *mut MapHandle {
    let shape = shape(element_bytes, varies, value_words);
    given(noted(DataSet::alone(shape, buckets, element_words)), None)
}

/// A map that the processes of a job share, on one machine: each owns so many buckets, and so many
/// words for the elements that it inserts. All of them call this, in the same order as other calls
/// for the job. Null if that fails.
///
/// # Safety
/// `job` is null or a job that was not freed, and no other thread uses it now.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fs_map_of_job(
    job: *mut JobHandle,
    element_bytes: usize,
    varies: bool,
    value_words: usize,
    buckets_per_rank: u64,
    element_words_per_rank: u64,
) -> *mut MapHandle {
    // SAFETY: as the caller says.
    let Some(job) = (unsafe { job.as_mut() }) else {
        note("no job");
        return std::ptr::null_mut();
    };
    let least = if varies { "up to " } else { "" };
    let kind = format!("a map of {least}{element_bytes} bytes to {value_words} words");
    let made = segments(&mut job.0, &kind, buckets_per_rank, element_words_per_rank);
    let Some((segments, node)) = noted(made) else {
        return std::ptr::null_mut();
    };
    let shape = shape(element_bytes, varies, value_words);
    given(noted(DataSet::over(shape, segments)), Some(node))
}

/// Space for one thread's elements of one map. To be freed by fs_spare_free, before or after the
/// map.
#[unsafe(no_mangle)]
pub extern "C" fn fs_spare_new() -> *mut SpareHandle {
    Box::into_raw(Box::default())
}

/// Frees a thread's space; what of it was not used stays unused. Null is none, and nothing happens.
///
/// # Safety
/// `spare` is null or was not freed, and nobody uses it any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fs_spare_free(spare: *mut SpareHandle) {
    if !spare.is_null() {
        // SAFETY: made by `Box::into_raw`, and given back once.
        drop(unsafe { Box::from_raw(spare) });
    }
}

/// The map and the bytes that a caller passes.
///
/// # Safety
/// `map` is null or a map that was not freed; `bytes` are `len`, or null with 0.
unsafe fn passed<'a>(
    map: *const MapHandle,
    bytes: *const u8,
    len: usize,
) -> Option<(&'a DataSet, &'a [u8])> {
    // SAFETY: as the caller says.
    let passed = unsafe {
        input::given(map, "map").and_then(|map| Ok((map, input::bytes(bytes, len, "element")?)))
    };
    let (map, bytes) = passed.map_err(Failure::note).ok()?;
    Some((&map.map, bytes))
}

/// Writes an element's index to where the caller wants it, if anywhere.
///
/// # Safety
/// `to` is null or has room for a word.
unsafe fn give_index(to: *mut u64, index: Option<u64>) {
    if let Some(index) = index
        && !to.is_null()
    {
        // SAFETY: as the caller says.
        unsafe { to.write(index) };
    }
}

/// Finds an element or inserts it, with the words of `value` as its value, or zeros if that is
/// null: FS_FOUND, FS_INSERTED or FS_FULL; FS_ERROR for an element of another length. Its index
/// goes to `index`, unless that is null. The value of an element that is there stays as it is.
///
/// # Safety
/// `map` is null or a map that was not freed; `spare` is null or was not freed, and no other thread
/// uses it now; `bytes` are `len`; `value` is null or as many words as values of the map; `index`
/// is null or has room for a word.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fs_map_find_or_put(
    map: *const MapHandle,
    spare: *mut SpareHandle,
    bytes: *const u8,
    len: usize,
    value: *const u64,
    index: *mut u64,
) -> FsOutcome {
    // SAFETY: as the caller says.
    let (passed, spare) = unsafe { (passed(map, bytes, len), spare.as_mut()) };
    let Some((map, element)) = passed else {
        return FsOutcome::FS_ERROR;
    };
    let Some(spare) = spare else {
        note("no spare");
        return FsOutcome::FS_ERROR;
    };
    let put = map.find_or_put_with(&mut spare.0, element, |new| {
        if !value.is_null() {
            // SAFETY: the caller says that it is as many words as values are.
            new.copy_from_slice(unsafe { std::slice::from_raw_parts(value, new.len()) });
        }
    });
    let (outcome, place) = FsOutcome::of_put(put);
    // SAFETY: as the caller says.
    unsafe { give_index(index, place) };
    outcome
}

/// Finds an element: FS_FOUND, with its index in `index` unless that is null, or FS_ABSENT;
/// FS_ERROR for an element of another length.
///
/// # Safety
/// As of fs_map_find_or_put.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fs_map_find(
    map: *const MapHandle,
    bytes: *const u8,
    len: usize,
    index: *mut u64,
) -> FsOutcome {
    // SAFETY: as the caller says.
    let Some((map, element)) = (unsafe { passed(map, bytes, len) }) else {
        return FsOutcome::FS_ERROR;
    };
    let found = noted(map.find(element));
    // SAFETY: as the caller says.
    unsafe { give_index(index, found.flatten()) };
    match found {
        Some(Some(_)) => FsOutcome::FS_FOUND,
        Some(None) => FsOutcome::FS_ABSENT,
        None => FsOutcome::FS_ERROR,
    }
}

/// Copies the bytes of the element with this index to `to`, as many as there is room for, and
/// returns how many it has. SIZE_MAX, with a message, where there cannot be an element.
///
/// # Safety
/// `map` is null or a map that was not freed; `to` has room for `room` bytes, or `room` is 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fs_map_get(
    map: *const MapHandle,
    index: u64,
    to: *mut u8,
    room: usize,
) -> usize {
    // SAFETY: as the caller says.
    let Some(map) = (unsafe { map.as_ref() }) else {
        note("no map");
        return usize::MAX;
    };
    let Some(bytes) = noted(map.map.get(index)) else {
        return usize::MAX;
    };
    let copied = bytes.len().min(room);
    if copied > 0 && !to.is_null() {
        // SAFETY: there is room for so many, and what was just allocated overlaps nothing.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, copied) };
    }
    bytes.len()
}

/// A word of an element's value.
///
/// # Safety
/// `map` is null or a map that was not freed.
unsafe fn word<'a>(map: *const MapHandle, index: u64, word: usize) -> Option<&'a AtomicU64> {
    // SAFETY: as the caller says.
    let Some(map) = (unsafe { map.as_ref() }) else {
        note("no map");
        return None;
    };
    let found = noted(map.map.value(index))?.get(word);
    if found.is_none() {
        note(format!("values have no word {word}"));
    }
    found
}

/// Loads a word of the value of the element with this index into `to`. Returns whether there is
/// one.
///
/// # Safety
/// `map` is null or a map that was not freed; `to` has room for a word.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fs_map_load(
    map: *const MapHandle,
    index: u64,
    word_of: usize,
    to: *mut u64,
) -> bool {
    // SAFETY: as the caller says.
    let word = unsafe { word(map, index, word_of) };
    // SAFETY: as the caller says.
    unsafe { give_index(to, word.map(|word| word.load(Ordering::Acquire))) };
    word.is_some()
}

/// Stores a word of the value of the element with this index. Returns whether there is one.
///
/// # Safety
/// `map` is null or a map that was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fs_map_store(
    map: *const MapHandle,
    index: u64,
    word_of: usize,
    value: u64,
) -> bool {
    // SAFETY: as the caller says.
    let word = unsafe { word(map, index, word_of) };
    word.map(|word| word.store(value, Ordering::Release))
        .is_some()
}

/// Replaces a word of the value of the element with this index by `value` if it is `expected`, and
/// writes what it was to `was`, unless that is null. Returns whether there is such a word.
///
/// # Safety
/// `map` is null or a map that was not freed; `was` is null or has room for a word.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fs_map_compare_swap(
    map: *const MapHandle,
    index: u64,
    word_of: usize,
    expected: u64,
    value: u64,
    was: *mut u64,
) -> bool {
    // SAFETY: as the caller says.
    let word = unsafe { word(map, index, word_of) };
    let seen = word.map(|word| {
        let swapped = word.compare_exchange(expected, value, Ordering::AcqRel, Ordering::Acquire);
        swapped.unwrap_or_else(|seen| seen)
    });
    // SAFETY: as the caller says.
    unsafe { give_index(was, seen) };
    seen.is_some()
}

/// Sets flags in a word of the value of the element with this index, and writes the word before to
/// `was`, unless that is null: of all who set a flag, one sees it unset. Returns whether there is
/// such a word.
///
/// # Safety
/// As of fs_map_compare_swap.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fs_map_set_flags(
    map: *const MapHandle,
    index: u64,
    word_of: usize,
    flags: u64,
    was: *mut u64,
) -> bool {
    // SAFETY: as the caller says.
    let word = unsafe { word(map, index, word_of) };
    let seen = word.map(|word| word.fetch_or(flags, Ordering::AcqRel));
    // SAFETY: as the caller says.
    unsafe { give_index(was, seen) };
    seen.is_some()
}

/// Frees a map. Null is no map, and nothing happens.
///
/// # Safety
/// `map` is null or a map that was not freed, and nobody uses it any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fs_map_free(map: *mut MapHandle) {
    if !map.is_null() {
        // SAFETY: made by `Box::into_raw`, and given back once.
        drop(unsafe { Box::from_raw(map) });
    }
}
