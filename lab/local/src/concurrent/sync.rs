//! What threads synchronise by. The tables name it and not `std`, so that their models run the same
//! lines over loom's.

pub(super) use std::sync::{
    Mutex,
    atomic::{AtomicU64, AtomicUsize, Ordering, fence},
};

/// Waiting for a few stores of another thread.
#[derive(Default)]
pub(super) struct SpinBackoff {
    waited: u32,
}

impl SpinBackoff {
    /// Turns before the other thread is taken for one that has no core.
    const TURNS: u32 = 64;

    pub(super) fn wait(&mut self) {
        self.waited += 1;
        if self.waited < Self::TURNS {
            std::hint::spin_loop();
        } else {
            std::thread::yield_now();
        }
    }
}

/// The guard of a lock. A panic of a `Hash` while it was held has left nothing half done: nothing
/// of the user's is called between the stores of a change.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> impl std::ops::DerefMut<Target = T> + '_ {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}
