//! Memory that this process has freed, given back to the system.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Freed bytes that the allocator may keep for what is allocated next.
const KEPT: usize = 32 << 20;

/// Bytes that were free when memory was last given back: those that the system has count as free
/// too.
static FREE_THEN: AtomicUsize = AtomicUsize::new(0);

/// Gives freed memory back to the system if the process has freed much since the last time, as
/// after a flood of requests: the C library's allocator by itself gives back only what lies behind
/// everything that is in use. Returns whether it was called for.
///
/// To be called every few seconds, by a thread that serves nobody: it may take some milliseconds
/// for each GiB. Does nothing where the allocator is not that of the GNU C library.
pub fn give_back_freed() -> bool {
    let free = free_bytes();
    let then = FREE_THEN.load(Ordering::Relaxed);
    if free < then.saturating_add(KEPT) {
        FREE_THEN.fetch_min(free, Ordering::Relaxed);
        return false;
    }
    give_back_all_freed();
    true
}

/// Gives all freed memory back to the system, as [`give_back_freed`] does, however much it is: for
/// one who has counted what was freed.
pub fn give_back_all_freed() {
    trim();
    FREE_THEN.store(free_bytes(), Ordering::Relaxed);
}

/// Bytes that the allocator has and nothing uses.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn free_bytes() -> usize {
    // SAFETY: it takes no pointers, and locks what it looks at.
    unsafe { libc::mallinfo2() }.fordblks
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn trim() {
    // SAFETY: it takes no pointers, touches free memory alone, and locks it meanwhile.
    unsafe { libc::malloc_trim(0) };
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
const fn free_bytes() -> usize {
    0
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
const fn trim() {}
