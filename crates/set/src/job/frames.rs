//! Frames on the connections of a job, and what their errors mean.

use super::error::JobError;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// "FARSJOB" and the version of the frames.
pub(super) const MAGIC: u64 = 0x0242_4f4a_5352_4146;
/// Between two tries to connect.
pub(super) const PAUSE: Duration = Duration::from_millis(20);

pub(super) const HELLO: u32 = 1;
pub(super) const PART: u32 = 2;
pub(super) const ALL: u32 = 3;
pub(super) const DEAD: u32 = 4;
pub(super) const REFUSED: u32 = 5;
pub(super) const BEGUN: u32 = 6;

pub(super) fn lost(rank: u32, error: &std::io::Error, after: Duration) -> JobError {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => JobError::TimedOut { rank, after },
        _ => JobError::RankDied { rank },
    }
}

pub(super) fn send(to: &mut TcpStream, kind: u32, payload: &[u8]) -> std::io::Result<()> {
    let mut frame = Vec::with_capacity(8 + payload.len());
    frame.extend_from_slice(&(payload.len() as u32).to_le_bytes());
    frame.extend_from_slice(&kind.to_le_bytes());
    frame.extend_from_slice(payload);
    to.write_all(&frame)
}

/// The next frame of a rank: kind and payload, which is at most `most` bytes.
pub(super) fn receive(
    from: &mut TcpStream,
    rank: u32,
    most: usize,
    deadline: Instant,
    timeout: Duration,
) -> Result<(u32, Vec<u8>), JobError> {
    let mut head = [0; 8];
    fill(from, &mut head, deadline).map_err(|error| lost(rank, &error, timeout))?;
    let [a, b, c, d, kind @ ..] = head;
    let bytes = u32::from_le_bytes([a, b, c, d]) as usize;
    if bytes > most {
        return Err(JobError::Malformed {
            rank,
            reason: "a frame that is too long",
        });
    }
    let mut payload = vec![0; bytes];
    fill(from, &mut payload, deadline).map_err(|error| lost(rank, &error, timeout))?;
    Ok((u32::from_le_bytes(kind), payload))
}

fn fill(from: &mut TcpStream, mut buffer: &mut [u8], deadline: Instant) -> std::io::Result<()> {
    while !buffer.is_empty() {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        from.set_read_timeout(Some(left))?;
        match from.read(buffer) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(bytes) => buffer = &mut buffer[bytes..],
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

pub(super) fn split_parts(mut all: &[u8], ranks: u32) -> Result<Vec<Vec<u8>>, JobError> {
    let malformed = JobError::Malformed {
        rank: 0,
        reason: "parts that do not add up",
    };
    let mut parts = Vec::new();
    for _ in 0..ranks {
        let (len, rest) = all.split_first_chunk::<4>().ok_or(malformed.clone())?;
        let len = u32::from_le_bytes(*len) as usize;
        let (part, rest) = rest.split_at_checked(len).ok_or(malformed.clone())?;
        parts.push(part.to_vec());
        all = rest;
    }
    if all.is_empty() {
        Ok(parts)
    } else {
        Err(malformed)
    }
}

/// The rank that a new connection says it is, and of how many.
pub(super) fn greeted(
    stream: &mut TcpStream,
    by: Instant,
    timeout: Duration,
) -> Option<(u32, u32)> {
    stream.set_nonblocking(false).ok()?;
    stream.set_nodelay(true).ok()?;
    let (kind, hello) = receive(stream, 0, 16, by, timeout).ok()?;
    let (magic, rest) = hello.split_first_chunk::<8>()?;
    let (of, rest) = rest.split_first_chunk::<4>()?;
    let (rank, of) = (
        u32::from_le_bytes(rest.try_into().ok()?),
        u32::from_le_bytes(*of),
    );
    let fits = kind == HELLO && u64::from_le_bytes(*magic) == MAGIC && rank < of;
    fits.then_some((rank, of))
}
