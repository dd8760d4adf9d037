//! A TCP connection that is looked at again and again before its thread sleeps.

use rustix::event::{PollFd, PollFlags, poll};
use std::io::{ErrorKind, Read, Result, Write};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

/// How long it is looked at: many times what an exchange takes, so that a thread sleeps only where
/// nothing is exchanged.
const LONGEST: Duration = Duration::from_millis(1);
/// Looks so often in vain before others may have the processor: far longer than an exchange takes,
/// so that it happens only where the other side has none.
const LOOKS: u32 = 1 << 10;

/// A connection whose reads and writes wait without sleeping for up to a millisecond: what a
/// system call and a wake-up cost does not hide what is measured beside it.
#[derive(Debug)]
pub struct PolledStream {
    stream: TcpStream,
}

impl PolledStream {
    /// Takes a connection, whose bytes leave at once.
    ///
    /// # Errors
    /// What the system says.
    pub fn new(stream: TcpStream) -> Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        Ok(Self { stream })
    }

    /// Does what the socket is not always ready for.
    fn when_ready<T>(
        &mut self,
        news: PollFlags,
        mut attempt: impl FnMut(&mut TcpStream) -> Result<T>,
    ) -> Result<T> {
        let (mut began, mut looks) = (None, 0_u32);
        loop {
            match attempt(&mut self.stream) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                done => return done,
            }
            looks = looks.wrapping_add(1);
            if began.get_or_insert_with(Instant::now).elapsed() < LONGEST {
                match looks.is_multiple_of(LOOKS) {
                    true => thread::yield_now(),
                    false => std::hint::spin_loop(),
                }
                continue;
            }
            match poll(&mut [PollFd::new(&self.stream, news)], None) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl Read for PolledStream {
    fn read(&mut self, bytes: &mut [u8]) -> Result<usize> {
        self.when_ready(PollFlags::IN, |stream| stream.read(bytes))
    }
}

impl Write for PolledStream {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        self.when_ready(PollFlags::OUT, |stream| stream.write(bytes))
    }

    fn flush(&mut self) -> Result<()> {
        self.stream.flush()
    }
}
