//! Files that are not finished: they go when the process is told to end.

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::{Handle, Signals};
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// Removes a file when a signal ends the process, for as long as this is held.
pub struct RemovedOnSignal {
    signals: Handle,
    waiting: Option<JoinHandle<()>>,
}

impl RemovedOnSignal {
    /// Creates the file at this path, where there is none. A signal comes before that, or finds it.
    ///
    /// # Errors
    /// If the system gives no handler for signals, or what it says of the file.
    pub fn create(path: &Path) -> io::Result<(Self, File)> {
        let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
        let (handle, at) = (signals.handle(), path.to_path_buf());
        let is_there = Arc::new(Mutex::new(false));
        let seen = Arc::clone(&is_there);
        let waiting = std::thread::spawn(move || {
            if let Some(signal) = signals.forever().next() {
                // Held to the end: no file appears behind it. One that another has made stays.
                let is_there = seen.lock();
                if is_there.as_deref().is_ok_and(|is_there| *is_there) {
                    let _ = std::fs::remove_file(at);
                }
                let _ = signal_hook::low_level::emulate_default_handler(signal);
            }
        });
        let removed = Self {
            signals: handle,
            waiting: Some(waiting),
        };
        let mut creating = is_there.lock().unwrap_or_else(PoisonError::into_inner);
        let file = File::options().write(true).create_new(true).open(path)?;
        *creating = true;
        drop(creating);
        Ok((removed, file))
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
