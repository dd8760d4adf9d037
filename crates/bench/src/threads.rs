//! Work for all cores.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// How many threads can run at once here.
#[must_use]
pub fn available() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Runs `work` on so many threads at once.
///
/// # Errors
/// That of any of them.
pub fn on_each<E: Send>(threads: usize, work: impl Fn() -> Result<(), E> + Sync) -> Result<(), E> {
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

/// Does `count` jobs on as many threads as the machine has cores; returns what they gave, in order.
/// Each job is a simulation of its own with a seed of its own, so that the threads make no
/// difference to the figures.
///
/// # Errors
/// That of any of them.
pub fn in_order<T: Send, E: Send>(
    count: usize,
    job: impl Fn(usize) -> Result<T, E> + Sync,
) -> Result<Vec<T>, E> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::new());
    on_each(available().min(count.max(1)), || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= count {
                return Ok(());
            }
            let result = job(number)?;
            let mut done = done.lock().unwrap_or_else(|error| error.into_inner());
            done.push((number, result));
        }
    })?;
    let mut done = done.into_inner().unwrap_or_else(|error| error.into_inner());
    done.sort_by_key(|(number, _)| *number);
    Ok(done.into_iter().map(|(_, result)| result).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::BenchError;

    #[test]
    fn results_come_in_order_and_an_error_ends_it() {
        let squares = in_order(100, |number| Ok::<_, BenchError>(number * number)).unwrap();
        assert_eq!(squares, (0..100).map(|n| n * n).collect::<Vec<_>>());
        let failing = in_order(10, |number| match number {
            7 => Err(BenchError::bad("job", 7, "no seventh")),
            number => Ok(number),
        });
        assert!(failing.is_err());
        assert!(in_order(0, Ok::<_, BenchError>).unwrap().is_empty());
    }
}
