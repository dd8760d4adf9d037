//! Work with a progress bar that Ctrl-C stops in order: what is done is kept, and the same command
//! goes on from there. A second Ctrl-C ends the process at once.

use farslot::snapshots::{OnProgress, SnapshotProgress};
use farslot_terminal::failure::{Failure, Result};
use indicatif::{ProgressBar, ProgressStyle};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether the process was told to end.
pub struct UntilStopped(Arc<AtomicBool>);

impl UntilStopped {
    /// From now on.
    ///
    /// # Errors
    /// If the system gives no handler for signals.
    pub fn new() -> Result<Self> {
        let stopped = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            let end = || Arc::clone(&stopped);
            // In this order, so that the first signal does not end the process.
            signal_hook::flag::register_conditional_shutdown(signal, 128 + signal, end())
                .and_then(|_| signal_hook::flag::register(signal, end()))
                .map_err(Failure::io("signals"))?;
        }
        Ok(Self(stopped))
    }

    /// Runs `work` on a table under a progress bar with the time that is left.
    pub fn run<T>(&self, table: &str, work: impl FnOnce(OnProgress<'_>) -> T) -> T {
        let template = "{msg} {wide_bar} {human_pos}/{human_len} records {per_sec} {eta}";
        let style = ProgressStyle::with_template(template);
        let bar = ProgressBar::new(0)
            .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
            .with_message(table.to_owned());
        let done = work(&|progress: SnapshotProgress| {
            bar.set_length(progress.of);
            bar.set_position(progress.records);
            match self.0.load(Ordering::Relaxed) {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        });
        bar.finish_and_clear();
        done
    }
}
