//! Models of the bucket locks: that holders of one bucket never meet, and that nobody who
//! waits is forgotten, in every order of two threads' steps up to three preemptions.

mod sync {
    pub(super) use loom::sync::{
        Mutex,
        atomic::{AtomicU64, Ordering, fence},
    };

    /// loom takes time with every word.
    pub(super) const LOCK_BITS: u32 = 6;
}

// The same file once more, over loom's atomics, which work inside of its models alone.
#[allow(dead_code)]
#[allow(clippy::duplicate_mod)]
#[path = "locks.rs"]
mod locks;

use locks::{BucketLocks, Held};
use loom::model::Builder;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;
use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Wake, Waker};

fn model(of: impl Fn() + Send + Sync + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(of);
}

/// A task: it is polled again only when it was woken.
struct WokenTask(AtomicU64);

impl Wake for WokenTask {
    fn wake(self: std::sync::Arc<Self>) {
        self.0.store(1, Ordering::Release);
    }
}

fn poll<F: Future>(future: Pin<&mut F>, task: &std::sync::Arc<WokenTask>) -> Option<F::Output> {
    let waker = Waker::from(std::sync::Arc::clone(task));
    match future.poll(&mut Context::from_waker(&waker)) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}

/// What two threads change while they hold a bucket, and the locks of that.
#[derive(Default)]
struct LockedBucket {
    locks: BucketLocks,
    inside: Inside,
}

struct Inside(AtomicU64);

impl Default for Inside {
    fn default() -> Self {
        Self(AtomicU64::new(0))
    }
}

impl Inside {
    /// Is in the bucket for a moment, alone.
    fn visit(&self, held: Held<'_>) {
        assert_eq!(self.0.load(Ordering::Relaxed), 0, "another holds it");
        self.0.store(1, Ordering::Relaxed);
        self.0.store(0, Ordering::Relaxed);
        drop(held);
    }
}

/// Two threads do this. One waits, if it has to, until the other is gone: by then it must have been
/// woken.
fn two(
    first: impl AsyncFnOnce(&LockedBucket) + Send + Sync + Copy + 'static,
    second: impl AsyncFnOnce(&LockedBucket) + Send + Sync + Copy + 'static,
) {
    model(move || {
        let shared = Arc::new(LockedBucket::default());
        let other = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                // This one gives up if it cannot at once, and leaves nothing behind.
                let task = std::sync::Arc::new(WokenTask(AtomicU64::new(0)));
                let _ = poll(pin!(second(&shared)), &task);
            })
        };
        let task = std::sync::Arc::new(WokenTask(AtomicU64::new(0)));
        let mut taking = pin!(first(&shared));
        let done = poll(taking.as_mut(), &task).is_some();
        other.join().unwrap();
        if !done {
            assert_eq!(task.0.load(Ordering::Acquire), 1, "it was not woken");
            assert!(poll(taking, &task).is_some(), "it was woken for nothing");
        }
    });
}

#[test]
fn holders_of_a_bucket_take_turns() {
    two(
        async |shared| shared.inside.visit(shared.locks.take(&[1, 2]).await),
        async |shared| shared.inside.visit(shared.locks.take(&[2, 3]).await),
    );
}

#[test]
fn who_is_alone_meets_no_holder() {
    two(
        async |shared| shared.inside.visit(shared.locks.take_alone(&[]).await),
        async |shared| shared.inside.visit(shared.locks.take(&[1]).await),
    );
}

#[test]
fn a_holder_meets_nobody_who_is_alone() {
    two(
        async |shared| shared.inside.visit(shared.locks.take(&[1]).await),
        async |shared| shared.inside.visit(shared.locks.take_alone(&[]).await),
    );
}

#[test]
fn two_are_alone_one_after_the_other() {
    two(
        async |shared| shared.inside.visit(shared.locks.take_alone(&[]).await),
        async |shared| shared.inside.visit(shared.locks.take_alone(&[]).await),
    );
}

#[test]
fn what_is_added_is_held_by_one() {
    two(
        async |shared| {
            let held = shared.locks.take(&[1]).await;
            if held.try_add(2) {
                shared.inside.visit(held);
            }
        },
        async |shared| {
            let held = shared.locks.take(&[3]).await;
            if held.try_add(2) {
                shared.inside.visit(held);
            }
        },
    );
}

#[test]
fn what_is_added_and_given_back_wakes_who_waits() {
    two(
        async |shared| shared.inside.visit(shared.locks.take(&[2]).await),
        async |shared| {
            let held = shared.locks.take(&[3]).await;
            let more = shared.locks.take(&[1]).await;
            assert!(!held.try_add_all([2, 1]));
            drop(more);
        },
    );
}
