//! What ends a process that serves, and what has it read its files again.

use crate::failure::{Failure, Result};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::io::Read;
use std::sync::mpsc;

/// What a process that serves is told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ServeSignal {
    /// To end: by SIGINT or SIGTERM, or because standard input was closed.
    End,
    /// To read its files again: by SIGHUP.
    Reload,
}

/// Tells when the process is to end and, if it `reloads`, when to read its files again. SIGHUP is
/// left alone otherwise, so that `nohup` works.
///
/// # Errors
/// Of installing the signal handlers.
pub fn switch(while_stdin: bool, reloads: bool) -> Result<mpsc::Receiver<ServeSignal>> {
    let (sender, receiver) = mpsc::channel();
    let mut wanted = vec![SIGINT, SIGTERM];
    wanted.extend(reloads.then_some(SIGHUP));
    let mut signals = Signals::new(wanted).map_err(Failure::io("signals"))?;
    let on_signal = sender.clone();
    std::thread::spawn(move || {
        for signal in signals.forever() {
            let request = match signal {
                SIGHUP => ServeSignal::Reload,
                _ => ServeSignal::End,
            };
            // Where nobody waits any more, the process is ending already.
            if on_signal.send(request).is_err() || request == ServeSignal::End {
                return;
            }
        }
    });
    if while_stdin {
        std::thread::spawn(move || {
            let mut ignored = [0; 64];
            while matches!(std::io::stdin().read(&mut ignored), Ok(1..)) {}
            let _ = sender.send(ServeSignal::End);
        });
    }
    Ok(receiver)
}
