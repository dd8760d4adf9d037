//! Files that are not finished: they go when the process is told to end.

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::{Handle, Signals};
use std::io;
use std::path::Path;
use std::thread::JoinHandle;

/// Removes a file when a signal ends the process, for as long as this is held.
pub struct RemovedOnSignal {
    signals: Handle,
    waiting: Option<JoinHandle<()>>,
}

impl RemovedOnSignal {
    /// For the file at this path.
    ///
    /// # Errors
    /// If the system gives no handler for signals.
    pub fn new(path: &Path) -> io::Result<Self> {
        let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
        let (handle, path) = (signals.handle(), path.to_path_buf());
        let waiting = std::thread::spawn(move || {
            if let Some(signal) = signals.forever().next() {
                let _ = std::fs::remove_file(path);
                let _ = signal_hook::low_level::emulate_default_handler(signal);
            }
        });
        Ok(Self {
            signals: handle,
            waiting: Some(waiting),
        })
    }
}

impl Drop for RemovedOnSignal {
    fn drop(&mut self) {
        self.signals.close();
        if let Some(waiting) = self.waiting.take() {
            let _ = waiting.join();
        }
    }
}
