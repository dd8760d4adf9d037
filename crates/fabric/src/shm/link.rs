//! How a region's file reaches other processes, and how each side learns that the other has gone.
//!
//! The owner listens on an abstract Unix socket, which the kernel removes with its process. A client
//! of the same user connects and sends one byte, [`READ_WRITE`] or [`READ_ONLY`]; the owner answers
//! [`WELCOME`] with the file attached, or [`REFUSED`]. The connection then stays open and silent: its
//! end is the news of the other side's death. The owner's thread sleeps except for that.

use super::mapping::read_only;
use super::os;
use crate::{FabricError, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use std::io::{IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

const READ_WRITE: u8 = b'w';
const READ_ONLY: u8 = b'r';
const WELCOME: u8 = b'F';
const REFUSED: u8 = b'U';

/// How long a client waits for the owner's thread to answer.
const ANSWER_WITHIN: Timespec = Timespec {
    tv_sec: 5,
    tv_nsec: 0,
};
/// The kernel's limit on a socket's name is 108 bytes; the prefix and a zero byte take their part.
const LONGEST_NAME: usize = 80;

fn address_of(name: &str) -> Result<SocketAddr> {
    let bad = |reason| FabricError::BadName {
        name: name.into(),
        reason,
    };
    if name.is_empty() {
        return Err(bad("it is empty"));
    }
    if name.len() > LONGEST_NAME {
        return Err(bad("it is longer than 80 bytes"));
    }
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if !name.bytes().all(allowed) {
        return Err(bad(
            "only ASCII letters, digits, '-', '_' and '.' may be in it",
        ));
    }
    let user = rustix::process::geteuid().as_raw();
    SocketAddr::from_abstract_name(format!("farslot/{user}/{name}"))
        .map_err(|_| bad("the system does not take it"))
}

fn io(call: &'static str) -> impl Fn(std::io::Error) -> FabricError {
    move |error| FabricError::Os {
        call,
        error: error.to_string(),
    }
}

/// A thread that waits on sockets until its switch is dropped.
pub(super) struct Watcher {
    switch: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
}

impl Watcher {
    fn start(name: &str, watch: impl FnOnce(UnixStream) + Send + 'static) -> Result<Self> {
        let (switch, stopped) = UnixStream::pair().map_err(io("socketpair"))?;
        let thread = std::thread::Builder::new()
            .name(name.into())
            .spawn(move || watch(stopped))
            .map_err(io("spawning a thread"))?;
        Ok(Self {
            switch: Some(switch),
            thread: Some(thread),
        })
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.switch.take();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Serves `file` under `name` until the result is dropped.
pub(super) fn serve(name: &str, file: OwnedFd) -> Result<Watcher> {
    let listener = UnixListener::bind_addr(&address_of(name)?).map_err(|error| {
        if error.kind() == std::io::ErrorKind::AddrInUse {
            FabricError::NameTaken { name: name.into() }
        } else {
            io("bind")(error)
        }
    })?;
    listener.set_nonblocking(true).map_err(io("fcntl"))?;
    Watcher::start("farslot-serve", move |stopped| {
        watch_clients(&listener, &file, &stopped);
    })
}

fn watch_clients(listener: &UnixListener, file: &OwnedFd, stopped: &UnixStream) {
    let mut clients: Vec<UnixStream> = Vec::new();
    loop {
        let mut waited: Vec<PollFd<'_>> = vec![
            PollFd::new(stopped, PollFlags::IN),
            PollFd::new(listener, PollFlags::IN),
        ];
        waited.extend(
            clients
                .iter()
                .map(|client| PollFd::new(client, PollFlags::IN)),
        );
        if poll(&mut waited, None).is_err() {
            continue;
        }
        let happened: Vec<bool> = waited.iter().map(|one| !one.revents().is_empty()).collect();
        drop(waited);
        if happened[0] {
            return;
        }
        let mut turn = happened[2..].iter();
        // A client speaks once; whatever comes after that, its end included, ends the connection.
        clients.retain(|client| !turn.next().is_some_and(|spoke| *spoke) || answer(client, file));
        if happened[1]
            && let Ok((client, _)) = listener.accept()
        {
            // Never blocks on a client; one that cannot be set up so is let go.
            if client.set_nonblocking(true).is_ok() {
                clients.push(client);
            }
        }
    }
}

/// Answers a client's request; false if the connection is over.
fn answer(mut client: &UnixStream, file: &OwnedFd) -> bool {
    let mut request = [0];
    if !matches!(client.read(&mut request), Ok(1)) {
        return false;
    }
    let user = rustix::process::geteuid();
    let allowed = rustix::net::sockopt::socket_peercred(client)
        .is_ok_and(|peer| peer.uid == user || peer.uid.is_root());
    let attached = match request[0] {
        READ_WRITE if allowed => file.try_clone().ok(),
        READ_ONLY if allowed => read_only(file.as_fd()).ok(),
        _ => None,
    };
    let Some(attached) = attached else {
        let _ = client.write(&[REFUSED]);
        return false;
    };
    let files = [attached.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(&files))
        && sendmsg(
            client,
            &[IoSlice::new(&[WELCOME])],
            &mut control,
            SendFlags::NOSIGNAL,
        )
        .is_ok()
}

/// Asks the owner of `name` for its file; `gone` is set when the owner dies.
pub(super) fn connect(
    name: &str,
    writable: bool,
    gone: Arc<AtomicBool>,
) -> Result<(OwnedFd, Watcher)> {
    let no_such = || FabricError::NoSuchRegion { name: name.into() };
    let mut stream = UnixStream::connect_addr(&address_of(name)?).map_err(|error| {
        if error.kind() == std::io::ErrorKind::ConnectionRefused {
            no_such()
        } else {
            io("connect")(error)
        }
    })?;
    check_owner(&stream, name)?;
    let request = if writable { READ_WRITE } else { READ_ONLY };
    stream.write_all(&[request]).map_err(|_| no_such())?;
    let file = receive_file(&stream, name)?;
    let watcher = Watcher::start("farslot-link", move |stopped| {
        let mut waited = [
            PollFd::new(&stopped, PollFlags::IN),
            PollFd::new(&stream, PollFlags::IN),
        ];
        while poll(&mut waited, None).is_err() {}
        if !waited[1].revents().is_empty() {
            gone.store(true, Ordering::Release);
        }
    })?;
    Ok((file, watcher))
}

/// An abstract name can be taken by anybody: memory is accepted from the same user or root only.
fn check_owner(stream: &UnixStream, name: &str) -> Result<()> {
    let user = rustix::process::geteuid();
    let owner =
        rustix::net::sockopt::socket_peercred(stream).map_err(os("getsockopt(SO_PEERCRED)"))?;
    if owner.uid == user || owner.uid.is_root() {
        return Ok(());
    }
    Err(FabricError::WrongUser {
        name: name.into(),
        owner: owner.uid.as_raw(),
        user: user.as_raw(),
    })
}

fn receive_file(stream: &UnixStream, name: &str) -> Result<OwnedFd> {
    let mut waited = [PollFd::new(stream, PollFlags::IN)];
    let ready = poll(&mut waited, Some(&ANSWER_WITHIN)).map_err(os("poll"))?;
    if ready == 0 {
        return Err(FabricError::Os {
            call: "attaching",
            error: format!("the owner of {name:?} did not answer within 5 s"),
        });
    }
    let mut answer = [0];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = recvmsg(
        stream,
        &mut [IoSliceMut::new(&mut answer)],
        &mut control,
        RecvFlags::CMSG_CLOEXEC,
    )
    .map_err(os("recvmsg"))?;
    let file = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut files) => files.next(),
        _ => None,
    });
    match (received.bytes, answer[0], file) {
        (1, WELCOME, Some(file)) => Ok(file),
        (1, REFUSED, _) => Err(FabricError::Os {
            call: "attaching",
            error: format!("the owner of {name:?} refused"),
        }),
        (0, ..) => Err(FabricError::NoSuchRegion { name: name.into() }),
        _ => Err(FabricError::NotFarslot {
            what: format!("whoever serves {name:?}"),
            found: u64::from(answer[0]),
            expected: u64::from(WELCOME),
        }),
    }
}
