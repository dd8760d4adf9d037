//! Which buckets of a table are being changed, by whatever runs side by side: the coroutines of one
//! thread, or those of several threads.
//!
//! A bucket is a number, of any table that the locks are for: what the numbers stand for is the
//! table's business. A bit says whether a bucket is held. Buckets share 2^14 bits by their hashes:
//! two that share one are held together, which makes somebody wait who need not, and nothing worse.
//!
//! **Nobody waits while it holds**: an operation takes all of its buckets at once, or none, and
//! what it takes later ([`Held::try_add`]) it takes at once or goes without. So nobody waits for
//! ever for who waits for it. Waiting is a coroutine's: its thread goes on with others. Who
//! releases something wakes all who wait, and they look again; thousands do not wait for the same
//! bucket where this is meant for.
//!
//! **Orders of memory.** Who takes a bucket sees all that its holder before has done, and so does
//! who sees that it is not held. The word `gate` decides between those who hold something and who
//! wants to be alone: it has the number of the former and a bit of the latter, and each of them
//! changes it before it looks. That a wake is not missed is Dekker's pattern: who waits puts its
//! waker down, and then looks again; who releases does so, and then looks for wakers; a fence is
//! between both steps of both. The models (`locks_models.rs`) run the orders that there are.

use super::sync::{AtomicU64, LOCK_BITS, Mutex, Ordering, fence};
use smallvec::SmallVec;
use std::cell::RefCell;
use std::future::poll_fn;
use std::sync::PoisonError;
use std::task::{Poll, Waker};

/// 2^64 divided by the golden ratio, made odd: neighbours get bits far apart, and few the same.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
/// Bit of the gate: somebody is alone, or waits until it is.
const ALONE: u64 = 1 << 63;

/// The buckets that are held.
pub struct BucketLocks {
    bits: Box<[AtomicU64]>,
    /// How many hold something, without who is alone; and [`ALONE`].
    gate: AtomicU64,
    waiting: WaitQueue,
}

/// Buckets that one operation holds, until it is dropped.
pub struct Held<'l> {
    locks: &'l BucketLocks,
    /// Each once.
    bits: RefCell<SmallVec<[u32; 4]>>,
    alone: bool,
}

impl Default for BucketLocks {
    fn default() -> Self {
        Self {
            bits: (0..1 << (LOCK_BITS - 6))
                .map(|_| AtomicU64::new(0))
                .collect(),
            gate: AtomicU64::new(0),
            waiting: WaitQueue::default(),
        }
    }
}

impl BucketLocks {
    /// Takes all of these buckets at once, waiting until none is held, and nobody alone nor waiting
    /// to be.
    pub async fn take(&self, buckets: &[u64]) -> Held<'_> {
        self.waiting.until(|| self.try_take(buckets)).await
    }

    /// Waits until nobody holds anything, and takes these buckets: no other is in the way then.
    /// From the moment that it waits, nobody else takes anything, but who holds something already
    /// (by [`Held::try_add`]).
    pub async fn take_alone(&self, buckets: &[u64]) -> Held<'_> {
        let alone = || self.gate.fetch_or(ALONE, Ordering::AcqRel) & ALONE == 0;
        self.waiting.until(|| alone().then_some(())).await;
        // Given back if this is dropped while it waits.
        let held = Held {
            locks: self,
            bits: RefCell::default(),
            alone: true,
        };
        let alone = || self.gate.load(Ordering::Acquire) == ALONE;
        self.waiting.until(|| alone().then_some(())).await;
        for bucket in buckets {
            held.try_add(*bucket);
        }
        held
    }

    /// Whether somebody holds this bucket, or one that shares its bit.
    #[inline]
    #[must_use]
    pub fn is_held(&self, bucket: u64) -> bool {
        let (word, mask) = self.place(bit_of(bucket));
        word.load(Ordering::Acquire) & mask != 0
    }

    /// How many hold something; 0 while one is alone.
    #[must_use]
    pub fn holders(&self) -> u64 {
        self.gate.load(Ordering::Acquire) & !ALONE
    }

    /// Takes all of these buckets at once, if none is held, and nobody alone nor waiting to be.
    pub fn try_take(&self, buckets: &[u64]) -> Option<Held<'_>> {
        // A look first: what fails has held nothing meanwhile, and need not wake anybody.
        if self.gate.load(Ordering::Acquire) & ALONE != 0
            || buckets.iter().any(|bucket| self.is_held(*bucket))
        {
            return None;
        }
        let before = self.gate.fetch_add(1, Ordering::AcqRel);
        let mut bits: SmallVec<[u32; 4]> = buckets.iter().map(|bucket| bit_of(*bucket)).collect();
        // In one order: of several who want some of the same, one gets all.
        bits.sort_unstable();
        bits.dedup();
        let wanted = bits.len();
        let got = match before & ALONE {
            0 => bits.iter().take_while(|bit| self.set(**bit)).count(),
            _ => 0,
        };
        bits.truncate(got);
        // Gives back what it has got, should others have been faster.
        let held = Held {
            locks: self,
            bits: RefCell::new(bits),
            alone: false,
        };
        (before & ALONE == 0 && got == wanted).then_some(held)
    }

    #[inline]
    fn place(&self, bit: u32) -> (&AtomicU64, u64) {
        (&self.bits[(bit / 64) as usize], 1 << (bit % 64))
    }

    /// Sets a bit; false if it was.
    #[inline]
    fn set(&self, bit: u32) -> bool {
        let (word, mask) = self.place(bit);
        word.fetch_or(mask, Ordering::AcqRel) & mask == 0
    }

    fn release(&self, bits: &[u32]) {
        for bit in bits {
            let (word, mask) = self.place(*bit);
            word.fetch_and(!mask, Ordering::AcqRel);
        }
    }
}

impl Held<'_> {
    /// Takes one bucket more, if it is free; never waits. True too if this holds it already.
    pub fn try_add(&self, bucket: u64) -> bool {
        let bit = bit_of(bucket);
        let mut bits = self.bits.borrow_mut();
        if bits.contains(&bit) {
            return true;
        }
        let free = self.locks.set(bit);
        if free {
            bits.push(bit);
        }
        free
    }

    /// Whether [`Held::try_add`] would take this bucket now.
    #[must_use]
    pub fn can_add(&self, bucket: u64) -> bool {
        !self.locks.is_held(bucket) || self.bits.borrow().contains(&bit_of(bucket))
    }

    /// Takes all of these buckets as well, if they are free; never waits. If not, it holds what it
    /// held before.
    pub fn try_add_all(&self, buckets: impl IntoIterator<Item = u64>) -> bool {
        let before = self.bits.borrow().len();
        let all = buckets.into_iter().all(|bucket| self.try_add(bucket));
        if !all {
            let mut bits = self.bits.borrow_mut();
            self.locks.release(&bits[before..]);
            bits.truncate(before);
            drop(bits);
            self.locks.waiting.wake();
        }
        all
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.locks.release(self.bits.get_mut());
        if self.alone {
            self.locks.gate.fetch_and(!ALONE, Ordering::AcqRel);
        } else {
            self.locks.gate.fetch_sub(1, Ordering::AcqRel);
        }
        self.locks.waiting.wake();
    }
}

#[inline]
pub(super) fn bit_of(bucket: u64) -> u32 {
    (bucket.wrapping_mul(GOLDEN) >> (64 - LOCK_BITS)) as u32
}

/// Coroutines that wait for something to change, of any threads.
pub struct WaitQueue {
    /// Whether there may be a waker: read without the lock by who has changed something.
    any: AtomicU64,
    wakers: Mutex<Vec<Waker>>,
}

impl Default for WaitQueue {
    fn default() -> Self {
        Self {
            any: AtomicU64::new(0),
            wakers: Mutex::new(Vec::new()),
        }
    }
}

impl WaitQueue {
    /// Waits until an attempt succeeds. It is made again whenever somebody [wakes](Self::wake)
    /// those who wait, and may be made for nothing.
    pub async fn until<T>(&self, mut attempt: impl FnMut() -> Option<T>) -> T {
        poll_fn(|cx| {
            if let Some(done) = attempt() {
                return Poll::Ready(done);
            }
            self.add(cx.waker());
            // What it waits for may have come about before it could be woken.
            attempt().map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }

    /// Lets those who wait look again: called after each change that they may wait for.
    #[inline]
    pub fn wake(&self) {
        fence(Ordering::SeqCst);
        if self.any.load(Ordering::Relaxed) != 0 {
            self.wake_all();
        }
    }

    #[cold]
    fn wake_all(&self) {
        let wakers = {
            let mut wakers = self.wakers.lock().unwrap_or_else(PoisonError::into_inner);
            self.any.store(0, Ordering::Relaxed);
            std::mem::take(&mut *wakers)
        };
        wakers.into_iter().for_each(Waker::wake);
    }

    fn add(&self, waker: &Waker) {
        let mut wakers = self.wakers.lock().unwrap_or_else(PoisonError::into_inner);
        // The coroutines of a batch have one waker.
        if !wakers.iter().any(|known| known.will_wake(waker)) {
            wakers.push(waker.clone());
        }
        self.any.store(1, Ordering::Relaxed);
        drop(wakers);
        fence(Ordering::SeqCst);
    }
}
