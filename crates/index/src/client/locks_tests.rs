//! [`BucketLocks`] in one thread.

use super::locks::{BucketLocks, bit_of};
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

fn poll<F: Future>(future: std::pin::Pin<&mut F>) -> Option<F::Output> {
    match future.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}

#[test]
fn buckets_are_taken_together_or_not_at_all() {
    let locks = BucketLocks::default();
    let first = poll(pin!(locks.take(&[1, 2, 1]))).expect("all are free");
    let mut both = pin!(locks.take(&[2, 3]));
    assert!(poll(both.as_mut()).is_none());
    assert!(!locks.is_held(3), "who waits holds nothing");
    let other = poll(pin!(locks.take(&[3]))).expect("it is free");
    drop(first);
    assert!(poll(both.as_mut()).is_none());
    drop(other);
    let both = poll(both).expect("both are free");
    assert!(locks.is_held(2) && locks.is_held(3) && !locks.is_held(1));
    drop(both);
    assert!(!locks.is_held(2));
}

#[test]
fn more_is_added_once_and_given_back() {
    let locks = BucketLocks::default();
    let held = poll(pin!(locks.take(&[7]))).unwrap();
    let other = poll(pin!(locks.take(&[8]))).unwrap();
    assert_eq!(locks.holders(), 2);
    assert!(held.try_add(7), "it has that one");
    assert!(held.try_add(9) && !held.try_add(8) && !other.try_add(9));
    assert!(held.can_add(7) && held.can_add(10) && !held.can_add(8));
    assert!(!held.try_add_all([7, 10, 8]) && !locks.is_held(10) && locks.is_held(7));
    assert!(held.try_add_all([9, 10]) && locks.is_held(10));
    drop(other);
    assert!(held.try_add(8) && locks.is_held(8));
    drop(held);
    assert!([7, 8, 9, 10].iter().all(|bucket| !locks.is_held(*bucket)));
}

#[test]
fn who_is_alone_waits_for_all_and_all_wait_for_it() {
    let locks = BucketLocks::default();
    let held = poll(pin!(locks.take(&[1]))).unwrap();
    let mut alone = Box::pin(locks.take_alone(&[5]));
    assert!(poll(alone.as_mut()).is_none());
    let mut later = pin!(locks.take(&[2]));
    assert!(poll(later.as_mut()).is_none(), "it comes behind");
    assert!(held.try_add(3), "who holds something may go on");
    drop(held);
    let held = poll(alone.as_mut()).expect("nobody else holds anything");
    assert_eq!(locks.holders(), 0);
    assert!(locks.is_held(5) && poll(pin!(locks.take_alone(&[]))).is_none());
    assert!(poll(later.as_mut()).is_none());
    drop(held);
    assert!(poll(later.as_mut()).is_some());
    // Who gives up waiting to be alone is in nobody's way.
    let held = poll(pin!(locks.take(&[1]))).unwrap();
    let mut given_up = Box::pin(locks.take_alone(&[]));
    assert!(poll(given_up.as_mut()).is_none());
    drop(given_up);
    assert!(poll(pin!(locks.take(&[2]))).is_some());
    drop(held);
}

#[test]
fn few_buckets_share_a_bit() {
    let mut bits: Vec<u32> = (0..4096).map(bit_of).collect();
    bits.sort_unstable();
    bits.dedup();
    assert!(bits.len() > 4000, "{} bits of 4096 buckets", bits.len());
}
