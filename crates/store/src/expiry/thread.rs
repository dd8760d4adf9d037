//! The sweeper's thread.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::JoinHandle;

/// Removes records that have expired from the tables of a store, for as long as this is held: 5 ms
/// of work every 100 ms at most. See [`Store::sweeper`](crate::Store::sweeper).
pub struct Sweeper {
    removed: Arc<AtomicU64>,
    /// Dropped to end the thread.
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl fmt::Debug for Sweeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let removed = self.removed();
        f.debug_struct("Sweeper")
            .field("removed", &removed)
            .finish_non_exhaustive()
    }
}

impl Sweeper {
    /// Runs `work` on a thread, which counts what it removes and ends when nobody can send it
    /// anything any more.
    pub(super) fn start(
        work: impl FnOnce(&AtomicU64, &Receiver<()>) + Send + 'static,
    ) -> std::io::Result<Self> {
        let removed = Arc::new(AtomicU64::new(0));
        let (end, ended) = mpsc::channel();
        let count = Arc::clone(&removed);
        let thread = std::thread::Builder::new().name("farslot-sweeper".into());
        let thread = thread.spawn(move || work(&count, &ended))?;
        Ok(Self {
            removed,
            end: Some(end),
            thread: Some(thread),
        })
    }

    /// How many records it has removed.
    #[must_use]
    pub fn removed(&self) -> u64 {
        self.removed.load(Relaxed)
    }
}

impl Drop for Sweeper {
    fn drop(&mut self) {
        self.end = None;
        if self
            .thread
            .take()
            .is_some_and(|thread| thread.join().is_err())
        {
            log::error!("the thread that removes expired records has panicked");
        }
    }
}
