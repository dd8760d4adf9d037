//! Buffers that a fabric writes into: owned by the endpoint's pool, never borrowed from a caller.
//!
//! A verb holds its [`Buffer`] until it completes. Where the future of a verb is dropped early, the
//! fabric keeps the buffer until the completion has arrived, so nothing is ever written into freed
//! memory. A buffer goes back to its pool when it is dropped.
//!
//! Buffers are carved out of *slabs*. Where a NIC uses the memory, a slab is what is registered
//! with it; everywhere else each buffer is a slab of its own.

use crate::{FabricError, Result};
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::rc::Rc;

/// The smallest buffer, in bytes: one cache line.
const SMALLEST: usize = 64;
/// Size classes double from [`SMALLEST`]; this many of them reach 64 MiB.
const CLASSES: usize = 21;
/// Slabs that a NIC registers grow with what it has registered already, from the first of these
/// sizes to the second: registering takes long, and what is registered is locked in memory.
const SLABS: (usize, usize) = (64 << 10, 2 << 20);

/// The buffers of one endpoint, in power-of-two size classes from 64 bytes on.
#[derive(Clone)]
pub struct BufferPool(Rc<Shelves>);

impl fmt::Debug for BufferPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BufferPool")
            .field("largest", &self.0.largest)
            .field("budget", &self.0.budget)
            .field("registered", &self.0.registered.get())
            .finish_non_exhaustive()
    }
}

struct Shelves {
    #[allow(
        clippy::vec_box,
        reason = "a buffer is the box: lending moves one word"
    )]
    free: [RefCell<Vec<Box<Memory>>>; CLASSES],
    largest: usize,
    budget: usize,
    registered: Cell<usize>,
    registrar: Option<Box<dyn Registrar>>,
}

/// Where the slabs of a pool come from that a NIC uses.
pub(crate) trait Registrar {
    /// Memory of so many bytes, a multiple of 64, that the NIC may use.
    ///
    /// # Errors
    /// What the system says.
    fn register(&self, bytes: usize) -> Result<Slab>;
}

/// Memory that buffers are carved out of. It stays where it is until the last of them is gone.
pub(crate) struct Slab {
    start: NonNull<u64>,
    /// The NIC's key to it; 0 without a NIC.
    key: u32,
    /// Frees the memory.
    _owner: Box<dyn Any>,
}

impl Slab {
    /// A slab of memory that `owner` keeps.
    ///
    /// # Safety
    /// From `start` on lie as many bytes as were asked for, initialised and aligned to 8, which
    /// nobody but the buffers uses until `owner` is dropped.
    pub(crate) unsafe fn new(start: NonNull<u64>, key: u32, owner: Box<dyn Any>) -> Self {
        Self {
            start,
            key,
            _owner: owner,
        }
    }

    /// A slab of this process's memory alone.
    fn of_heap(bytes: usize) -> Self {
        struct BoxedWords(NonNull<[u64]>);
        impl Drop for BoxedWords {
            fn drop(&mut self) {
                // SAFETY: the memory was a box's, and is made one again once.
                drop(unsafe { Box::from_raw(self.0.as_ptr()) });
            }
        }
        let words = vec![0u64; bytes / 8].into_boxed_slice();
        let words = NonNull::from(Box::leak(words));
        // SAFETY: it is as long as asked for, zeroed, and only reached through the slab until it is
        // freed.
        unsafe { Self::new(words.cast(), 0, Box::new(BoxedWords(words))) }
    }
}

impl BufferPool {
    /// A pool whose buffers hold at most `largest` bytes each and `budget` bytes in all.
    #[must_use]
    pub fn new(largest: usize, budget: usize) -> Self {
        Self::of(largest, budget, None)
    }

    /// A pool of memory that a NIC uses.
    pub(crate) fn registered(largest: usize, budget: usize, registrar: Box<dyn Registrar>) -> Self {
        Self::of(largest, budget, Some(registrar))
    }

    fn of(largest: usize, budget: usize, registrar: Option<Box<dyn Registrar>>) -> Self {
        Self(Rc::new(Shelves {
            free: std::array::from_fn(|_| RefCell::new(Vec::new())),
            largest: largest.min(SMALLEST << (CLASSES - 1)),
            budget,
            registered: Cell::new(0),
            registrar,
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
    /// [`FabricError::BufferTooLarge`] above the largest size; [`FabricError::BuffersExhausted`] if
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
        if len <= used.0.bytes {
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
        let registered = self.0.registered.get();
        if registered + bytes > self.0.budget {
            return Err(FabricError::BuffersExhausted {
                requested: bytes,
                budget: self.0.budget,
            });
        }
        let (slab, count) = match &self.0.registrar {
            None => (Slab::of_heap(bytes), 1),
            Some(registrar) => {
                let wanted = registered.clamp(SLABS.0, SLABS.1);
                let count = (wanted.min(self.0.budget - registered) / bytes).max(1);
                (registrar.register(count * bytes)?, count)
            }
        };
        self.0.registered.set(registered + count * bytes);
        let slab = Rc::new(slab);
        let mut carved = (0..count).map(|index| {
            Box::new(Memory {
                // SAFETY: the slab has `count` times so many bytes.
                start: unsafe { slab.start.byte_add(index * bytes) },
                bytes,
                len,
                key: slab.key,
                home: None,
                slab: Rc::clone(&slab),
            })
        });
        let first = carved.next();
        self.0.free[class].borrow_mut().extend(carved);
        // There is one at least.
        first.map_or_else(|| self.take(len), |first| Ok(self.lend(first, len)))
    }

    /// Gives up the slabs of which nobody uses a buffer, of all classes: sizes that were in demand
    /// once must not keep those that are now from being had.
    fn release_idle(&self) {
        for free in &self.0.free {
            let mut idle = HashMap::new();
            for memory in &*free.borrow() {
                *idle.entry(Rc::as_ptr(&memory.slab)).or_insert(0) += 1;
            }
            free.borrow_mut().retain(|memory| {
                // Each of a slab's buffers holds it once.
                let held = Rc::strong_count(&memory.slab);
                let all_idle = idle.get(&Rc::as_ptr(&memory.slab)) == Some(&held);
                if all_idle {
                    // Those of it that are dropped after this one are still to be found idle, all
                    // of them.
                    idle.insert(Rc::as_ptr(&memory.slab), held - 1);
                    let registered = self.0.registered.get() - memory.bytes;
                    self.0.registered.set(registered);
                }
                !all_idle
            });
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

/// An owned piece of registered memory: bytes to the caller, 8-byte words to the fabric.
///
/// A single pointer: buffers are moved into verbs, out of completions and into values for every
/// READ.
pub struct Buffer(ManuallyDrop<Box<Memory>>);

struct Memory {
    start: NonNull<u64>,
    /// Bytes that there are: those of its class.
    bytes: usize,
    /// Bytes lent.
    len: usize,
    /// The NIC's key to the memory.
    key: u32,
    /// Where it goes back to; nothing while it lies there.
    home: Option<Rc<Shelves>>,
    /// What it was carved out of, and stays in.
    slab: Rc<Slab>,
}

impl Memory {
    #[inline]
    fn words(&self) -> &[u64] {
        // SAFETY: the slab has so many bytes here, initialised and aligned, and is held. They are
        // this memory's alone: no others overlap, it is owned by one buffer or by the pool, and a
        // NIC writes to it only while a fabric holds the buffer for a verb on its way and does not
        // look into it.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len.div_ceil(8)) }
    }

    #[inline]
    fn words_mut(&mut self) -> &mut [u64] {
        // SAFETY: as above, and `self` is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len.div_ceil(8)) }
    }
}

impl Buffer {
    /// The buffer as little-endian 8-byte words. The last one extends past the length if that is no
    /// multiple of 8.
    #[inline]
    #[must_use]
    pub fn words(&self) -> &[u64] {
        self.0.words()
    }

    /// The words, to be filled.
    #[inline]
    pub fn words_mut(&mut self) -> &mut [u64] {
        self.0.words_mut()
    }

    /// Leaves the buffer no longer than `len` bytes.
    #[inline]
    pub fn truncate(&mut self, len: usize) {
        self.0.len = self.0.len.min(len);
    }

    /// Where the bytes are, for a NIC, and its key to them.
    #[inline]
    pub(crate) fn place(&self) -> (u64, u32) {
        (self.0.start.as_ptr().expose_provenance() as u64, self.0.key)
    }
}

impl Deref for Buffer {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        &bytemuck::cast_slice(self.0.words())[..self.0.len]
    }
}

impl DerefMut for Buffer {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        let len = self.0.len;
        &mut bytemuck::cast_slice_mut(self.0.words_mut())[..len]
    }
}

impl Drop for Buffer {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the memory is taken out once, here, and `self` is not used afterwards.
        let mut memory = unsafe { ManuallyDrop::take(&mut self.0) };
        if let Some(home) = memory.home.take() {
            let class = class_of(memory.bytes);
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

    /// Counts what is registered, in a test.
    struct Counting(Rc<Cell<usize>>);

    impl Registrar for Counting {
        fn register(&self, bytes: usize) -> Result<Slab> {
            struct SlabCounter(
                Rc<Cell<usize>>,
                usize,
                #[allow(dead_code, reason = "only dropped")] Slab,
            );
            impl Drop for SlabCounter {
                fn drop(&mut self) {
                    self.0.set(self.0.get() - self.1);
                }
            }
            self.0.set(self.0.get() + bytes);
            let slab = Slab::of_heap(bytes);
            let start = slab.start;
            let owner = SlabCounter(Rc::clone(&self.0), bytes, slab);
            // SAFETY: the memory is that of the slab within, which is dropped with the owner.
            Ok(unsafe { Slab::new(start, 7, Box::new(owner)) })
        }
    }

    #[test]
    fn buffers_of_a_slab_are_apart_and_it_goes_when_none_of_them_is_used() {
        let registered = Rc::new(Cell::new(0));
        let registrar = Box::new(Counting(Rc::clone(&registered)));
        let pool = BufferPool::registered(1 << 20, 255 << 10, registrar);
        let mut lent: Vec<_> = (0..1024u64)
            .map(|number| {
                let mut buffer = pool.take(64).unwrap();
                buffer.words_mut().fill(number);
                buffer
            })
            .collect();
        assert_eq!(registered.get(), 64 << 10, "one slab of 1024 lines");
        for (number, buffer) in (0..).zip(&lent) {
            assert_eq!(buffer.words(), [number; 8]);
            assert_eq!(buffer.place().1, 7);
        }
        let another = pool.take(64).unwrap();
        assert_eq!(registered.get(), 128 << 10);
        // The first slab's buffers are all idle, of the second's one is lent.
        lent.clear();
        let large = pool.take(128 << 10).unwrap();
        assert_eq!(registered.get(), (64 << 10) + (128 << 10));
        drop((another, large));
        assert!(pool.take(256 << 10).is_err(), "over the budget");
        assert_eq!(registered.get(), 0, "what was idle made room all the same");
        let last = pool.take(1).unwrap();
        drop(pool);
        assert_eq!(registered.get(), 64 << 10);
        drop(last);
        assert_eq!(registered.get(), 0);
    }
}
