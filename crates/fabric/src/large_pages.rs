//! Large pages for a client's own memory.

use rustix::mm::Advice;

/// Bytes of a large page on the processors that are usual.
const LARGE_PAGE: usize = 2 << 20;

/// A vector of zeros, in large pages where it is large and the kernel has some: what is looked at
/// here and there, as the index of a table is, then waits for fewer walks of the page table.
#[must_use]
pub fn zeros_in_large_pages<T: bytemuck::Zeroable + Clone>(len: usize) -> Vec<T> {
    // Not touched yet: the kernel gives pages as they are.
    let zeros = vec![T::zeroed(); len];
    let start = zeros.as_ptr() as usize;
    let bytes = size_of_val(&zeros[..]);
    let first = start.next_multiple_of(LARGE_PAGE);
    let end = (start + bytes) / LARGE_PAGE * LARGE_PAGE;
    if first < end {
        let from = zeros.as_ptr().cast::<u8>().wrapping_add(first - start);
        // SAFETY: the pages from `first` to `end` lie within the vector's allocation, and this
        // advice changes the content of none. A refusal costs only speed.
        let _ = unsafe {
            rustix::mm::madvise(from.cast_mut().cast(), end - first, Advice::LinuxHugepage)
        };
    }
    zeros
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_zeros_of_any_length() {
        for len in [0, 1, 1000, LARGE_PAGE / 8, LARGE_PAGE / 2 + 3] {
            let mut zeros: Vec<u64> = zeros_in_large_pages(len);
            assert!(zeros.len() == len && zeros.iter().all(|word| *word == 0));
            if let Some(last) = zeros.last_mut() {
                *last = 7;
            }
        }
    }
}
