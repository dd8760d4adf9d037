//! Work for all cores.

use crate::Result;
use std::thread;

/// How many threads can run at once here.
pub(crate) fn available() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Runs `work` on so many threads at once; an error if any of them has one.
pub(crate) fn on_each(threads: usize, work: impl Fn() -> Result<()> + Sync) -> Result<()> {
    thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(&work)).collect();
        let ends = workers.into_iter().map(|worker| {
            let end = worker.join();
            end.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        // All of them are waited for, whichever fails first.
        ends.fold(Ok(()), Result::and)
    })
}
