//! Buffers that a fabric writes into: owned by the endpoint's pool, never borrowed from a caller.
//!
//! A verb holds its [`Buffer`] until it completes. Where the future of a verb is dropped early, the
//! fabric keeps the buffer until the completion has arrived, so nothing is ever written into freed
//! memory. A buffer goes back to its pool when it is dropped.

use crate::{FabricError, Result};
use std::cell::{Cell, RefCell};
use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::rc::Rc;

/// The smallest buffer, in bytes: one cache line.
const SMALLEST: usize = 64;
/// Size classes double from [`SMALLEST`]; this many of them reach 64 MiB.
const CLASSES: usize = 21;

/// The buffers of one endpoint, in power-of-two size classes from 64 bytes on.
#[derive(Clone)]
pub struct BufferPool(Rc<Shelves>);

struct Shelves {
    #[allow(
        clippy::vec_box,
        reason = "a buffer is the box: lending moves one word"
    )]
    free: [RefCell<Vec<Box<Memory>>>; CLASSES],
    largest: usize,
    budget: usize,
    registered: Cell<usize>,
}

impl BufferPool {
    /// A pool whose buffers hold at most `largest` bytes each and `budget` bytes in all.
    #[must_use]
    pub fn new(largest: usize, budget: usize) -> Self {
        Self(Rc::new(Shelves {
            free: std::array::from_fn(|_| RefCell::new(Vec::new())),
            largest: largest.min(SMALLEST << (CLASSES - 1)),
            budget,
            registered: Cell::new(0),
        }))
    }

    /// The most bytes that one buffer holds.
    #[must_use]
    pub fn largest(&self) -> usize {
        self.0.largest
    }

    /// A buffer of `len` bytes, its content unspecified.
    ///
    /// # Errors
    /// [`FabricError::BufferTooLarge`] over the largest size, [`FabricError::BuffersExhausted`] where
    /// the pool's budget is used up.
    #[inline]
    pub fn take(&self, len: usize) -> Result<Buffer> {
        let class = class_of(len);
        if len <= self.0.largest
            && let Some(memory) = self.0.free[class].borrow_mut().pop()
        {
            return Ok(self.lend(memory, len));
        }
        self.register(class, len)
    }

    /// A buffer that holds a copy of `bytes`.
    ///
    /// # Errors
    /// As [`BufferPool::take`].
    #[inline]
    pub fn copy_of(&self, bytes: &[u8]) -> Result<Buffer> {
        let mut buffer = self.take(bytes.len())?;
        buffer.copy_from_slice(bytes);
        Ok(buffer)
    }

    /// A buffer of `len` bytes, its content unspecified: `used` itself where it has the room.
    ///
    /// # Errors
    /// As [`BufferPool::take`].
    #[inline]
    pub fn take_again(&self, mut used: Buffer, len: usize) -> Result<Buffer> {
        if len <= used.0.words.len() * 8 {
            used.0.len = len;
            return Ok(used);
        }
        drop(used);
        self.take(len)
    }

    #[inline]
    fn lend(&self, mut memory: Box<Memory>, len: usize) -> Buffer {
        memory.len = len;
        memory.home = Some(Rc::clone(&self.0));
        Buffer(ManuallyDrop::new(memory))
    }

    #[cold]
    fn register(&self, class: usize, len: usize) -> Result<Buffer> {
        if len > self.0.largest {
            return Err(FabricError::BufferTooLarge {
                requested: len,
                limit: self.0.largest,
            });
        }
        let bytes = SMALLEST << class;
        if self.0.registered.get() + bytes > self.0.budget {
            self.release_idle();
        }
        let registered = self.0.registered.get() + bytes;
        if registered > self.0.budget {
            return Err(FabricError::BuffersExhausted {
                requested: bytes,
                budget: self.0.budget,
            });
        }
        self.0.registered.set(registered);
        let words = vec![0; bytes / 8].into_boxed_slice();
        let memory = Memory {
            words,
            len,
            home: None,
        };
        Ok(self.lend(Box::new(memory), len))
    }

    /// Gives up the buffers that nobody uses, of all classes: sizes that were in demand once must not
    /// keep those that are now from being had.
    fn release_idle(&self) {
        for free in &self.0.free {
            for memory in free.take() {
                let registered = self.0.registered.get() - memory.words.len() * 8;
                self.0.registered.set(registered);
            }
        }
    }
}

#[inline]
const fn class_of(len: usize) -> usize {
    if len <= SMALLEST {
        return 0;
    }
    (usize::BITS - ((len - 1) / SMALLEST).leading_zeros()) as usize
}

/// Registered memory that its holder owns: bytes for the caller, 8-byte words for the fabric.
///
/// A single pointer: buffers are moved into verbs, out of completions and into values for every READ.
pub struct Buffer(ManuallyDrop<Box<Memory>>);

struct Memory {
    words: Box<[u64]>,
    /// Bytes lent.
    len: usize,
    /// Where it goes back to; nothing while it lies there.
    home: Option<Rc<Shelves>>,
}

impl Buffer {
    /// The buffer as little-endian 8-byte words, the last one reaching past the length where that
    /// is no multiple of 8.
    #[inline]
    #[must_use]
    pub fn words(&self) -> &[u64] {
        &self.0.words[..self.0.len.div_ceil(8)]
    }

    /// The words, to be filled.
    #[inline]
    pub fn words_mut(&mut self) -> &mut [u64] {
        let memory = &mut *self.0;
        &mut memory.words[..memory.len.div_ceil(8)]
    }
}

impl Deref for Buffer {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.0.words)[..self.0.len]
    }
}

impl DerefMut for Buffer {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        let memory = &mut *self.0;
        &mut bytemuck::cast_slice_mut(&mut memory.words)[..memory.len]
    }
}

impl Drop for Buffer {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the memory is taken out once, here, and `self` is not used afterwards.
        let mut memory = unsafe { ManuallyDrop::take(&mut self.0) };
        if let Some(home) = memory.home.take() {
            let class = class_of(memory.words.len() * 8);
            home.free[class].borrow_mut().push(memory);
        }
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({} bytes)", self.0.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_hold_their_sizes() {
        for len in [0, 1, 63, 64, 65, 128, 129, 4096, 1 << 20] {
            assert!(SMALLEST << class_of(len) >= len, "{len}");
            assert!(len <= SMALLEST || SMALLEST << (class_of(len) - 1) < len);
        }
    }

    #[test]
    fn a_dropped_buffer_is_used_again_and_the_budget_holds() {
        let pool = BufferPool::new(1 << 12, 200);
        let first = pool.take(100).unwrap();
        drop(first);
        let again = pool.take(128).unwrap();
        assert_eq!(
            pool.take(100).unwrap_err(),
            FabricError::BuffersExhausted {
                requested: 128,
                budget: 200
            }
        );
        // What lies idle makes room for another size.
        drop(again);
        let other = pool.take(60).unwrap();
        let again = pool.take(128).unwrap();
        drop(other);
        assert_eq!(
            pool.take(1 << 13).unwrap_err(),
            FabricError::BufferTooLarge {
                requested: 1 << 13,
                limit: 1 << 12
            }
        );
        let again = pool.take_again(again, 10).unwrap();
        assert_eq!((again.len(), again.words().len()), (10, 2));
        assert_eq!(pool.take_again(again, 128).unwrap().len(), 128);
        assert_eq!(&*pool.copy_of(b"far").unwrap(), b"far");
    }
}
