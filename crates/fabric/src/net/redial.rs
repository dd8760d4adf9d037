//! Reconnects in the background.

use super::backoff::Backoff;
use crate::error::os;
use crate::{FabricError, Result};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A thread that tries to connect until it has, or until this is dropped. What it then has is left
/// here.
pub(crate) struct Redial<C> {
    progress: Arc<Mutex<Progress<C>>>,
    /// Dropped with this, which ends the thread's waits.
    _wanted: Sender<()>,
}

/// How far it has come.
pub(crate) struct Progress<C> {
    /// The connection, once there is one.
    pub(crate) made: Option<C>,
    /// What the last attempt failed with.
    pub(crate) error: Option<FabricError>,
}

impl<C: Send + 'static> Redial<C> {
    /// Tries at once, and then again after waits. A connection that `is_open` denies when it would
    /// be left here counts as a failed attempt; what ends it later is for others to notice.
    ///
    /// # Errors
    /// [`FabricError::Os`] where no thread can be had.
    pub(crate) fn start(
        backoff: Backoff,
        dial: impl FnMut() -> Result<C> + Send + 'static,
        is_open: impl Fn(&C) -> bool + Send + 'static,
    ) -> Result<Self> {
        let progress = Arc::new(Mutex::new(Progress {
            made: None,
            error: None,
        }));
        let (wanted, is_wanted) = mpsc::channel();
        let result = Arc::clone(&progress);
        std::thread::Builder::new()
            .name("farslot-redial".into())
            .spawn(move || redial(backoff, dial, is_open, &result, &is_wanted))
            .map_err(os("spawning a thread"))?;
        Ok(Self {
            progress,
            _wanted: wanted,
        })
    }

    /// The progress so far. The connection can be taken out of it.
    pub(crate) fn progress(&self) -> MutexGuard<'_, Progress<C>> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn redial<C>(
    backoff: Backoff,
    mut dial: impl FnMut() -> Result<C>,
    is_open: impl Fn(&C) -> bool,
    result: &Mutex<Progress<C>>,
    is_wanted: &Receiver<()>,
) {
    for wait in backoff.waits() {
        let outcome = dial();
        let mut progress = result.lock().unwrap_or_else(PoisonError::into_inner);
        match outcome {
            // Asked with the progress locked: whoever notices an end after this finds the
            // connection there.
            Ok(made) if is_open(&made) => {
                progress.made = Some(made);
                return;
            }
            Ok(_) => {}
            Err(error) => progress.error = Some(error),
        }
        drop(progress);
        // Nothing is ever sent: either the time is up, or nobody wants the connection any more.
        if is_wanted.recv_timeout(wait) != Err(RecvTimeoutError::Timeout) {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const AT_ONCE: Backoff = Backoff {
        first: Duration::ZERO,
        longest: Duration::ZERO,
    };

    #[test]
    fn it_tries_until_it_has_a_connection_and_tells_of_the_attempts_before() {
        let (go_on, may_go_on) = mpsc::channel();
        let mut attempts = 0;
        let redial = Redial::start(
            AT_ONCE,
            move || {
                may_go_on.recv().unwrap();
                attempts += 1;
                match attempts {
                    3 => Ok("connection"),
                    _ => Err(FabricError::ConnectionRefused {
                        address: attempts.to_string(),
                    }),
                }
            },
            |_| true,
        )
        .unwrap();
        assert!(redial.progress().error.is_none());
        for expected in ["1", "2"] {
            go_on.send(()).unwrap();
            let error_seen = || redial.progress().error.clone();
            let address = expected.to_owned();
            let refused = Some(FabricError::ConnectionRefused { address });
            while error_seen() != refused {
                std::thread::yield_now();
            }
            assert_eq!(redial.progress().made, None);
        }
        go_on.send(()).unwrap();
        while redial.progress().made.take() != Some("connection") {
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_connection_that_has_ended_before_it_is_here_is_made_once_more() {
        let mut attempts = 0;
        let dial = move || {
            attempts += 1;
            Ok(attempts)
        };
        let redial = Redial::start(AT_ONCE, dial, |made| *made > 3).unwrap();
        while redial.progress().made.is_none() {
            std::thread::yield_now();
        }
        assert_eq!(redial.progress().made.take(), Some(4));
    }

    #[test]
    fn it_ends_when_nobody_wants_it_any_more() {
        let patient = Backoff {
            first: Duration::from_secs(3600),
            longest: Duration::from_secs(3600),
        };
        let (tried, has_tried) = mpsc::channel();
        let redial = Redial::<()>::start(
            patient,
            move || {
                tried.send(()).unwrap();
                Err(FabricError::NodeStopped {
                    node: crate::NodeId(0),
                    sent: true,
                })
            },
            |()| true,
        )
        .unwrap();
        has_tried.recv().unwrap();
        drop(redial);
        // The thread's end drops the other side.
        assert_eq!(has_tried.recv(), Err(mpsc::RecvError));
    }
}
