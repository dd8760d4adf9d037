//! Prefetch of a cache line.

/// Asks for the cache line on which a value begins: a hint, which takes no time of its own and
/// changes nothing. On processors other than x86-64 and aarch64 it does nothing.
#[inline]
pub fn prefetch<T>(value: &T) {
    prefetch_at(std::ptr::from_ref(value));
}

/// The same of the line at an address, whatever is there.
#[inline(always)]
pub(crate) fn prefetch_at<T>(line: *const T) {
    #[cfg(target_arch = "x86_64")]
    {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch is a hint: it reads nothing architecturally and cannot fault.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(line.cast()) }
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: a prefetch is a hint: it reads nothing architecturally and cannot fault.
    unsafe {
        core::arch::asm!("prfm pldl1keep, [{line}]", line = in(reg) line, options(nostack, readonly))
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = line;
}
