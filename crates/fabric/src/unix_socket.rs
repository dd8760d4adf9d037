//! Files that go over Unix sockets, and whose process is at the other end of one.

use crate::Result;
use crate::error::os;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use rustix::process::Uid;
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// The user of the process that a socket is connected to.
///
/// Not by rustix: its credentials hold a process number that is never 0, and 0 is what the kernel
/// gives for a process of another PID namespace, such as another container's.
pub(crate) fn user_of_peer(socket: impl AsFd) -> std::io::Result<Uid> {
    let mut peer = libc::ucred {
        pid: 0,
        uid: 0,
        gid: 0,
    };
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes, and `peer` has as many.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut peer).cast(),
            &raw mut length,
        )
    };
    match result {
        0 => Ok(Uid::from_raw(peer.uid)),
        _ => Err(std::io::Error::last_os_error()),
    }
}

/// Sends a byte with a file; false if the other side cannot be reached.
pub(crate) fn send_file(stream: &UnixStream, byte: u8, file: BorrowedFd<'_>) -> bool {
    let attached = [file];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(&attached))
        && sendmsg(
            stream,
            &[IoSlice::new(&[byte])],
            &mut control,
            SendFlags::NOSIGNAL,
        )
        .is_ok()
}

/// What the other side has sent.
#[derive(Debug)]
pub(crate) enum UnixSocketMessage {
    /// A byte, perhaps with a file.
    Byte(u8, Option<OwnedFd>),
    /// Nothing so far.
    Nothing,
    /// It has closed the connection.
    Closed,
}

/// Receives a byte, if one is there.
pub(crate) fn receive(stream: &UnixStream) -> Result<UnixSocketMessage> {
    let mut byte = [0];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = rustix::io::retry_on_intr(|| {
        recvmsg(
            stream,
            &mut [IoSliceMut::new(&mut byte)],
            &mut control,
            RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT,
        )
    });
    let bytes = match received {
        Ok(received) => received.bytes,
        Err(Errno::AGAIN) => return Ok(UnixSocketMessage::Nothing),
        Err(Errno::CONNRESET) => 0,
        Err(error) => return Err(os("recvmsg")(error)),
    };
    let file = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut files) => files.next(),
        _ => None,
    });
    Ok(match bytes {
        0 => UnixSocketMessage::Closed,
        _ => UnixSocketMessage::Byte(byte[0], file),
    })
}

/// Waits so long for a byte.
pub(crate) fn receive_within(stream: &UnixStream, within: Duration) -> Result<UnixSocketMessage> {
    let mut waited = [PollFd::new(stream, PollFlags::IN)];
    let until = Instant::now() + within;
    loop {
        let left = span(until.saturating_duration_since(Instant::now()));
        match poll(&mut waited, Some(&left)) {
            Ok(0) => return Ok(UnixSocketMessage::Nothing),
            Ok(_) => return receive(stream),
            Err(Errno::INTR) => {}
            Err(error) => return Err(os("poll")(error)),
        }
    }
}

/// A time as `poll` takes it.
pub(crate) fn span(left: Duration) -> Timespec {
    Timespec {
        tv_sec: left.as_secs() as i64,
        tv_nsec: left.subsec_nanos().into(),
    }
}
