//! The least of all runtimes.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

struct BlockOnWaker(Thread);

impl Wake for BlockOnWaker {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// What a future comes to, which wakes this thread when it is to be polled again.
///
/// ```
/// assert_eq!(farslot_testbed::block_on(async { 6 * 7 }), 42);
/// ```
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    let waker = Waker::from(Arc::new(BlockOnWaker(thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(done) => return done,
            Poll::Pending => thread::park(),
        }
    }
}
