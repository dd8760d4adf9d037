//! Files that are not finished: they go when the process is told to end.

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::{Handle, Signals};
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};
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
        let creating = Arc::new(Mutex::new(()));
        let created = Arc::clone(&creating);
        let waiting = std::thread::spawn(move || {
            if let Some(signal) = signals.forever().next() {
                // Held to the end: no file appears behind it.
                let _alone = created.lock();
                let _ = std::fs::remove_file(at);
                let _ = signal_hook::low_level::emulate_default_handler(signal);
            }
        });
        let removed = Self {
            signals: handle,
            waiting: Some(waiting),
        };
        let alone = creating.lock();
        let file = File::options().write(true).create_new(true).open(path)?;
        drop(alone);
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
