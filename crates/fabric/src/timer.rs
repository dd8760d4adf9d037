//! Time: sleeping and timeouts on an endpoint's clock, real or virtual.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

/// A span or an instant in nanoseconds: of the wall clock on real fabrics, of the virtual clock in
/// [`sim`](crate::sim). Instants count from the start of the process or of the simulation.
pub type Nanos = u64;

/// A span as people say it: `1 s`, `250 ms`, `1.5 us`.
#[derive(Clone, Copy, Debug)]
pub struct InWords(pub Nanos);

impl fmt::Display for InWords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000)];
        let unit = units.into_iter().find(|(_, nanos)| self.0 >= *nanos);
        let (name, nanos) = unit.unwrap_or(("ns", 1));
        let thousandths = self.0 as u128 * 1000 / nanos as u128;
        match thousandths % 1000 {
            0 => write!(f, "{} {name}", thousandths / 1000),
            rest => {
                let rest = format!("{rest:03}");
                write!(
                    f,
                    "{}.{} {name}",
                    thousandths / 1000,
                    rest.trim_end_matches('0')
                )
            }
        }
    }
}

/// A future did not end in time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("not done within {}", InWords(*.after))]
pub struct TimedOut {
    /// The time it was given, in nanoseconds.
    pub after: Nanos,
}

/// The sleeping futures of one endpoint.
#[derive(Default)]
pub struct Timers {
    /// By deadline, then by order of arrival, so that equal deadlines fire in a fixed order.
    sleeping: RefCell<BTreeMap<(Nanos, u64), Waker>>,
    next: Cell<u64>,
}

impl fmt::Debug for Timers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Timers")
            .field("sleeping", &self.sleeping.borrow().len())
            .finish_non_exhaustive()
    }
}

impl Timers {
    /// The earliest deadline.
    pub(crate) fn next_deadline(&self) -> Option<Nanos> {
        let sleeping = self.sleeping.borrow();
        sleeping
            .first_key_value()
            .map(|((deadline, _), _)| *deadline)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.sleeping.borrow().is_empty()
    }

    /// Wakes whatever was to sleep until `now`; returns how many.
    pub(crate) fn fire(&self, now: Nanos) -> usize {
        let mut fired = 0;
        loop {
            let first = {
                let mut sleeping = self.sleeping.borrow_mut();
                match sleeping.first_entry() {
                    Some(entry) if entry.key().0 <= now => entry.remove(),
                    _ => return fired,
                }
            };
            first.wake();
            fired += 1;
        }
    }
}

/// Resolves at a deadline. Made by [`sleep`](crate::EndpointExt::sleep).
pub struct Sleep<'t> {
    timers: &'t Timers,
    deadline: Nanos,
    entry: Option<u64>,
}

impl fmt::Debug for Sleep<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sleep")
            .field("deadline", &self.deadline)
            .finish_non_exhaustive()
    }
}

impl<'t> Sleep<'t> {
    pub(crate) fn until(timers: &'t Timers, deadline: Nanos) -> Self {
        Self {
            timers,
            deadline,
            entry: None,
        }
    }
}

impl Future for Sleep<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut sleeping = self.timers.sleeping.borrow_mut();
        match self.entry {
            // Only `Timers::fire` takes an entry away: it is gone once the deadline has passed.
            Some(entry) => match sleeping.get_mut(&(self.deadline, entry)) {
                None => Poll::Ready(()),
                Some(waker) => {
                    waker.clone_from(cx.waker());
                    Poll::Pending
                }
            },
            None => {
                let entry = self.timers.next.get();
                self.timers.next.set(entry + 1);
                sleeping.insert((self.deadline, entry), cx.waker().clone());
                drop(sleeping);
                self.entry = Some(entry);
                Poll::Pending
            }
        }
    }
}

impl Drop for Sleep<'_> {
    fn drop(&mut self) {
        if let Some(entry) = self.entry {
            self.timers
                .sleeping
                .borrow_mut()
                .remove(&(self.deadline, entry));
        }
    }
}

/// Runs `future` until `sleep` ends.
pub(crate) async fn timeout<F: Future>(
    sleep: impl Future<Output = ()>,
    span: Nanos,
    future: F,
) -> Result<F::Output, TimedOut> {
    let mut future = pin!(future);
    let mut sleep = pin!(sleep);
    std::future::poll_fn(|cx| {
        if let Poll::Ready(output) = future.as_mut().poll(cx) {
            return Poll::Ready(Ok(output));
        }
        sleep
            .as_mut()
            .poll(cx)
            .map(|()| Err(TimedOut { after: span }))
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_said_as_people_say_them() {
        for (nanos, words) in [
            (0, "0 ns"),
            (999, "999 ns"),
            (1_500, "1.5 us"),
            (250_000_000, "250 ms"),
            (1_000_000_000, "1 s"),
            (2_050_000_000, "2.05 s"),
        ] {
            assert_eq!(InWords(nanos).to_string(), words);
        }
    }
}
