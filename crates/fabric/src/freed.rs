//! Memory that this process has freed, given back to the system.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes that were free when memory was last given back: those that the system has count as free
/// too.
static FREE_THEN: AtomicUsize = AtomicUsize::new(0);

/// Gives freed memory back to the system if more than `kept` bytes of it are left that the process
/// has freed since the last time, as after a flood of requests: the C library's allocator by itself
/// gives back only what lies behind everything that is in use. Returns how many bytes are left.
///
/// To be called every few seconds, with some 32 MiB for what is allocated next, or where more is
/// left than may be. All threads that allocate wait for it, some milliseconds for each GiB, and
/// what is allocated next costs a page fault a page. Does nothing where the allocator is not that
/// of the GNU C library.
pub fn give_back_freed(kept: usize) -> usize {
    let free = free_bytes();
    let then = FREE_THEN.fetch_min(free, Ordering::Relaxed);
    let left = free.saturating_sub(then);
    if left <= kept {
        return left;
    }
    trim();
    FREE_THEN.store(free_bytes(), Ordering::Relaxed);
    0
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
