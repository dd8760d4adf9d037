//! Rank 0's listener while its job runs: whoever comes now is too late, and is told so.

use super::frames::{BEGUN, PAUSE, greeted, send};
use std::io::Read;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The longest time for one that comes late to say who it is, and then to go.
const PATIENCE: Duration = Duration::from_millis(500);

/// A thread that answers until this is dropped, which closes the listener.
#[derive(Debug)]
pub(super) struct LatecomerListener {
    is_closed: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl LatecomerListener {
    /// Answers whoever comes to the listener of a job of so many ranks, which must not block.
    pub(super) fn new(listener: TcpListener, ranks: u32) -> Self {
        let is_closed = Arc::new(AtomicBool::new(false));
        let closed = Arc::clone(&is_closed);
        let answer = move || {
            while !closed.load(Ordering::Acquire) {
                match listener.accept() {
                    Ok((stream, _)) => answer(stream, ranks),
                    Err(_) => std::thread::park_timeout(PAUSE),
                }
            }
        };
        // Without a thread the listener is closed: late ones wait in vain, and nothing else
        // changes.
        let thread = std::thread::Builder::new().spawn(answer).ok();
        Self { is_closed, thread }
    }
}

impl Drop for LatecomerListener {
    fn drop(&mut self) {
        self.is_closed.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

fn answer(mut stream: TcpStream, ranks: u32) {
    let by = Instant::now() + PATIENCE;
    if let Some((rank, _)) = greeted(&mut stream, by, PATIENCE) {
        let begun = [rank, ranks].map(u32::to_le_bytes).concat();
        say_last(&mut stream, BEGUN, &begun);
    }
}

/// Sends a frame after which nothing follows. A connection that is closed with bytes that were not
/// read is reset, and what was sent can be lost: what the other has sent is read before.
pub(super) fn say_last(stream: &mut TcpStream, kind: u32, payload: &[u8]) {
    if send(stream, kind, payload).is_err() || stream.shutdown(Shutdown::Write).is_err() {
        return;
    }
    let by = Instant::now() + PATIENCE;
    let mut buffer = [0; 4096];
    loop {
        let left = by.saturating_duration_since(Instant::now());
        if left.is_zero() || stream.set_read_timeout(Some(left)).is_err() {
            return;
        }
        match stream.read(&mut buffer) {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
    }
}
