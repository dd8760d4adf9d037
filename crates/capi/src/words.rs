//! Sets of words.

use crate::error::{note, noted};
use crate::job::JobHandle;
use crate::outcome::FsOutcome;
use crate::shared::segments;
use farslot_fabric::shm::Node;
use farslot_set::WordSet;

/// A set of words of up to 63 bits.
#[derive(Debug)]
pub struct WordSetHandle {
    set: WordSet,
    /// Serves this process's part of a set that it shares.
    _served: Option<Node>,
}

fn given(set: Option<WordSet>, served: Option<Node>) -> *mut WordSetHandle {
    set.map_or(std::ptr::null_mut(), |set| {
        Box::into_raw(Box::new(WordSetHandle {
            set,
            _served: served,
        }))
    })
}

/// A set of this process's own with so many buckets, one for each word and some more: above nine
/// tenths it gets slow, and full at last. Null if that fails. To be freed by fs_word_set_free.
#[unsafe(no_mangle)]
pub extern "C" fn fs_word_set_new(buckets: u64) -> *mut WordSetHandle {
    given(noted(WordSet::alone(buckets)), None)
}

/// A set that the processes of a job share, on one machine: each owns so many buckets of it. All of
/// them call this, in the same order as other calls for the job. Null if that fails. The memory of
/// a process that has ended stays for as long as others use the set.
///
/// # Safety
/// `job` is null or a job that was not freed, and no other thread uses it now.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fs_word_set_of_job(
    job: *mut JobHandle,
    buckets_per_rank: u64,
) -> *mut WordSetHandle {
    // SAFETY: as the caller says.
    let Some(job) = (unsafe { job.as_mut() }) else {
        note("no job");
        return std::ptr::null_mut();
    };
    match noted(segments(&mut job.0, "a set of words", buckets_per_rank, 0)) {
        Some((segments, node)) => given(Some(WordSet::over(segments)), Some(node)),
        None => std::ptr::null_mut(),
    }
}

/// Finds a word or inserts it: FS_FOUND, FS_INSERTED or FS_FULL; FS_ERROR for a word of 64 bits.
///
/// # Safety
/// `set` is null or a set that was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fs_word_set_find_or_put(
    set: *const WordSetHandle,
    word: u64,
) -> FsOutcome {
    // SAFETY: as the caller says.
    let Some(set) = (unsafe { set.as_ref() }) else {
        note("no set");
        return FsOutcome::FS_ERROR;
    };
    FsOutcome::of_put(set.set.find_or_put(word)).0
}

/// Finds or inserts `count` words in turn, whose waits for memory overlap, and writes what became
/// of each to `outcomes`. Returns false, and inserts none, if one is of 64 bits.
///
/// # Safety
/// `set` is null or a set that was not freed; `words` and `outcomes` have room for `count`, or
/// `count` is 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fs_word_set_find_or_put_all(
    set: *const WordSetHandle,
    words: *const u64,
    outcomes: *mut FsOutcome,
    count: usize,
) -> bool {
    // SAFETY: as the caller says.
    let Some(set) = (unsafe { set.as_ref() }) else {
        note("no set");
        return false;
    };
    if count == 0 {
        return true;
    }
    if words.is_null() || outcomes.is_null() {
        note("no words, or nowhere to write what became of them");
        return false;
    }
    // SAFETY: `count` words are there, and nobody changes them during the call.
    let words = unsafe { std::slice::from_raw_parts(words, count) };
    let put = set.set.find_or_put_all(words, |at, put| {
        let outcome = FsOutcome::of_put(Ok(put)).0;
        // SAFETY: `at` is below `count`, and there is room for so many. Written as memory that may
        // never have been.
        unsafe { outcomes.add(at).write(outcome) };
    });
    noted(put).is_some()
}

/// Whether a word is in the set: FS_FOUND or FS_ABSENT; FS_ERROR for a word of 64 bits.
///
/// # Safety
/// `set` is null or a set that was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fs_word_set_find(set: *const WordSetHandle, word: u64) -> FsOutcome {
    // SAFETY: as the caller says.
    let Some(set) = (unsafe { set.as_ref() }) else {
        note("no set");
        return FsOutcome::FS_ERROR;
    };
    match noted(set.set.contains(word)) {
        Some(true) => FsOutcome::FS_FOUND,
        Some(false) => FsOutcome::FS_ABSENT,
        None => FsOutcome::FS_ERROR,
    }
}

/// Words in the set; 0 of null.
///
/// # Safety
/// `set` is null or a set that was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fs_word_set_len(set: *const WordSetHandle) -> u64 {
    // SAFETY: as the caller says.
    unsafe { set.as_ref() }.map_or(0, |set| set.set.segments().counted())
}

/// Frees a set. Null is no set, and nothing happens.
///
/// # Safety
/// `set` is null or a set that was not freed, and nobody uses it any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fs_word_set_free(set: *mut WordSetHandle) {
    if !set.is_null() {
        // SAFETY: made by `Box::into_raw`, and given back once.
        drop(unsafe { Box::from_raw(set) });
    }
}
