//! Passes a node's file descriptor to other processes, and tells each side when the other has gone.
//!
//! The owner listens on an abstract Unix socket, which the kernel removes with its process. A
//! client of the same user connects and sends one byte, [`READ_WRITE`] or [`READ_ONLY`]. The owner
//! answers [`WELCOME`] with the file attached, or [`REFUSED`]. The connection then stays open and
//! silent; its end tells each side that the other has died. The owner's thread sleeps otherwise.
//! A client of memory that is [kept](crate::keep) then looks for another owner of the same file.
//! A client that sends [`CALLS`] and its rights wants a channel for [calls](super::calls) instead,
//! whose thread gets the connection.
//!
//! Every connection takes one of the owner's open files, and any process of the machine can
//! connect. So the owner closes connections of other users at once, those that send nothing within
//! [`SPEAK_WITHIN`], and those that send more than one byte.

use crate::error::os;
use crate::memory::{FileId, id_of, read_only};
use crate::net::BACKLOG;
use crate::unix_socket::{UnixSocketMessage, receive_within, send_file, span, user_of_peer};
use crate::{FabricError, Result, Rights};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::SendFlags;
use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const READ_WRITE: u8 = b'w';
const READ_ONLY: u8 = b'r';
/// A bit; the others are the bits of rights.
const CALLS: u8 = 0x80;
const WELCOME: u8 = b'F';
const REFUSED: u8 = b'U';

/// How long a client waits for the owner's thread to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// How long a client may be connected before it has asked for anything.
const SPEAK_WITHIN: Duration = Duration::from_secs(1);
/// How long the owner takes no clients after it ran out of files.
const PAUSE: Duration = Duration::from_millis(100);
/// How long a client waits between two looks for an owner that may come back: at first, and at
/// most.
const SHORTEST_LOOK: Duration = Duration::from_millis(5);
const LONGEST_LOOK: Duration = Duration::from_millis(500);
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

/// A thread that waits on sockets until its switch is dropped.
pub(super) struct Watcher {
    switch: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
}

impl Watcher {
    fn start(name: &str, watch: impl FnOnce(UnixStream) + Send + 'static) -> Result<Self> {
        let (switch, stopped) = UnixStream::pair().map_err(os("socketpair"))?;
        let thread = std::thread::Builder::new()
            .name(name.into())
            .spawn(move || watch(stopped))
            .map_err(os("spawning a thread"))?;
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

/// The user that listens at an address; nothing if that cannot be learnt at once, for whoever has
/// taken the name may let others wait.
fn owner_of(address: &SocketAddr) -> Option<u32> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType};
    let name = address.as_abstract_name()?;
    let address = rustix::net::SocketAddrUnix::new_abstract_name(name).ok()?;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let (family, kind) = (AddressFamily::UNIX, SocketType::STREAM);
    let socket = rustix::net::socket_with(family, kind, flags, None).ok()?;
    rustix::net::connect(&socket, &address).ok()?;
    Some(user_of_peer(&socket).ok()?.as_raw())
}

/// Takes the connection of a client that wants to call, with these rights.
pub(super) type TakeCaller = Box<dyn Fn(UnixStream, Rights) + Send>;

/// Serves `file` under `name` until the result is dropped.
pub(super) fn serve(name: &str, file: BorrowedFd<'_>, take_caller: TakeCaller) -> Result<Watcher> {
    let address = address_of(name)?;
    let listener = UnixListener::bind_addr(&address).map_err(|error| {
        if error.kind() == std::io::ErrorKind::AddrInUse {
            FabricError::NameTaken {
                name: name.into(),
                owner: owner_of(&address),
            }
        } else {
            os("bind")(error)
        }
    })?;
    listener.set_nonblocking(true).map_err(os("fcntl"))?;
    rustix::net::listen(&listener, BACKLOG).map_err(os("listen"))?;
    let files = Files {
        read_only: read_only(file)?,
        writable: file.try_clone_to_owned().map_err(os("fcntl"))?,
        take_caller,
    };
    Watcher::start("farslot-serve", move |stopped| {
        watch_clients(&listener, &files, &stopped);
    })
}

/// The served file, as it is handed out.
struct Files {
    writable: OwnedFd,
    read_only: OwnedFd,
    take_caller: TakeCaller,
}

struct Client {
    stream: UnixStream,
    /// When it is let go unless it has asked by then; nothing once it has its answer.
    ask_by: Option<Instant>,
}

fn watch_clients(listener: &UnixListener, files: &Files, stopped: &UnixStream) {
    let mut clients: Vec<Client> = Vec::new();
    let mut accept_from: Option<Instant> = None;
    loop {
        let now = Instant::now();
        accept_from = accept_from.filter(|from| *from > now);
        clients.retain(|client| client.ask_by.is_none_or(|by| by > now));

        let mut waited = vec![PollFd::new(stopped, PollFlags::IN)];
        waited.extend(
            clients
                .iter()
                .map(|client| PollFd::new(&client.stream, PollFlags::IN)),
        );
        if accept_from.is_none() {
            waited.push(PollFd::new(listener, PollFlags::IN));
        }
        let deadlines = clients.iter().filter_map(|client| client.ask_by);
        let timeout = deadlines.chain(accept_from).min().map(|by| span(by - now));
        match poll(&mut waited, timeout.as_ref()) {
            Ok(_) => {}
            Err(Errno::INTR) => continue,
            Err(_) => {
                std::thread::sleep(PAUSE);
                continue;
            }
        }
        let happened: Vec<bool> = waited.iter().map(|one| !one.revents().is_empty()).collect();
        drop(waited);
        if happened[0] {
            return;
        }
        let connected = accept_from.is_none() && happened[happened.len() - 1];
        let mut turn = happened[1..].iter();
        // A client speaks once; whatever comes after that, its end included, ends the connection.
        clients.retain_mut(|client| {
            let spoke = turn.next().is_some_and(|spoke| *spoke);
            !spoke || client.ask_by.take().is_some() && answer(&client.stream, files)
        });
        if connected {
            match listener.accept() {
                Ok((stream, _)) => clients.extend(admit(stream)),
                Err(error) => {
                    use std::io::ErrorKind::{ConnectionAborted, Interrupted, WouldBlock};
                    let passing = [ConnectionAborted, Interrupted, WouldBlock];
                    // Out of files or memory. The connection stays in the queue, and the listener
                    // readable: it is not looked at for a while.
                    if !passing.contains(&error.kind()) {
                        accept_from = Some(Instant::now() + PAUSE);
                    }
                }
            }
        }
    }
}

/// A client that may be waited for: one of this user, or root.
fn admit(stream: UnixStream) -> Option<Client> {
    let user = rustix::process::geteuid();
    let peer = user_of_peer(&stream).ok()?;
    if peer != user && !peer.is_root() {
        let _ = rustix::net::send(
            &stream,
            &[REFUSED],
            SendFlags::NOSIGNAL | SendFlags::DONTWAIT,
        );
        return None;
    }
    // Nothing ever blocks on a client; one that cannot be set up so is let go.
    stream.set_nonblocking(true).ok()?;
    Some(Client {
        stream,
        ask_by: Some(Instant::now() + SPEAK_WITHIN),
    })
}

/// Answers a client's request; false if the connection is over, or another thread's.
fn answer(mut client: &UnixStream, files: &Files) -> bool {
    let mut request = [0];
    if !matches!(client.read(&mut request), Ok(1)) {
        return false;
    }
    let file = match request[0] {
        READ_WRITE => files.writable.as_fd(),
        READ_ONLY => files.read_only.as_fd(),
        calls if calls & CALLS != 0 => {
            if let Ok(client) = client.try_clone() {
                (files.take_caller)(client, Rights::from_bits(calls));
            }
            return false;
        }
        _ => {
            refuse(client);
            return false;
        }
    };
    hand_out(client, file)
}

/// Tells a client that it gets nothing.
pub(super) fn refuse(mut client: &UnixStream) {
    let _ = client.write(&[REFUSED]);
}

/// Hands a file to a client; false if it cannot be had.
pub(super) fn hand_out(client: &UnixStream, file: BorrowedFd<'_>) -> bool {
    send_file(client, WELCOME, file)
}

/// Asks the owner of `name` for its file; also returns the connection, which ends with the owner.
pub(super) fn connect(name: &str, writable: bool) -> Result<(OwnedFd, UnixStream)> {
    ask(name, if writable { READ_WRITE } else { READ_ONLY })
}

/// What a client watches of the owner of its memory.
pub(super) struct Link {
    pub(super) name: String,
    /// Whether the memory outlives its owner, who may come back.
    pub(super) kept: bool,
    /// Which file the memory is.
    pub(super) file: FileId,
    /// Set while there is no owner.
    pub(super) gone: Arc<AtomicBool>,
    /// How often an owner has come back.
    pub(super) lives: Arc<AtomicU64>,
}

/// Watches the owner until the result is dropped.
pub(super) fn watch(mut stream: UnixStream, link: Link) -> Result<Watcher> {
    Watcher::start("farslot-link", move |stopped| {
        loop {
            let mut waited = [
                PollFd::new(&stopped, PollFlags::IN),
                PollFd::new(&stream, PollFlags::IN),
            ];
            while poll(&mut waited, None).is_err() {}
            if !waited[0].revents().is_empty() {
                return;
            }
            link.gone.store(true, Ordering::Release);
            match link.kept.then(|| wait_for_owner(&link, &stopped)).flatten() {
                Some(back) => stream = back,
                None => return,
            }
            // In this order: whoever sees the memory lent again sees that it is another life.
            link.lives.fetch_add(1, Ordering::Release);
            link.gone.store(false, Ordering::Release);
        }
    })
}

/// Waits until somebody serves the same memory again; nothing if another is served under its name,
/// or the client does not want it any more.
fn wait_for_owner(link: &Link, stopped: &UnixStream) -> Option<UnixStream> {
    let mut pause = SHORTEST_LOOK;
    loop {
        let mut waited = [PollFd::new(stopped, PollFlags::IN)];
        if !matches!(
            poll(&mut waited, Some(&span(pause))),
            Ok(0) | Err(Errno::INTR)
        ) {
            return None;
        }
        if let Ok((file, stream)) = connect(&link.name, false) {
            let is_same = id_of(&file).is_ok_and(|file| file == link.file);
            return is_same.then_some(stream);
        }
        pause = (2 * pause).min(LONGEST_LOOK);
    }
}

/// Asks the owner of `name` for a channel for calls with these rights; its file, and the
/// connection.
pub(super) fn connect_for_calls(name: &str, rights: Rights) -> Result<(OwnedFd, UnixStream)> {
    ask(name, CALLS | rights.bits())
}

fn ask(name: &str, request: u8) -> Result<(OwnedFd, UnixStream)> {
    let no_such = || FabricError::NoSuchRegion { name: name.into() };
    let address = address_of(name)?;
    let connected = loop {
        match UnixStream::connect_addr(&address) {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            other => break other,
        }
    };
    let mut stream = connected.map_err(|error| {
        if error.kind() == std::io::ErrorKind::ConnectionRefused {
            no_such()
        } else {
            os("connect")(error)
        }
    })?;
    check_owner(&stream, name)?;
    stream.write_all(&[request]).map_err(|_| no_such())?;
    let file = receive_file(&stream, name)?;
    Ok((file, stream))
}

/// An abstract name can be taken by anybody: memory is accepted from the same user or root only.
fn check_owner(stream: &UnixStream, name: &str) -> Result<()> {
    let user = rustix::process::geteuid();
    let owner = user_of_peer(stream).map_err(os("getsockopt(SO_PEERCRED)"))?;
    if owner == user || owner.is_root() {
        return Ok(());
    }
    Err(FabricError::WrongUser {
        name: name.into(),
        owner: owner.as_raw(),
        user: user.as_raw(),
    })
}

fn receive_file(stream: &UnixStream, name: &str) -> Result<OwnedFd> {
    match receive_within(stream, ANSWER_WITHIN)? {
        UnixSocketMessage::Byte(WELCOME, Some(file)) => Ok(file),
        UnixSocketMessage::Byte(REFUSED, _) => Err(FabricError::Os {
            call: "attaching",
            error: format!("the owner of {name:?} refused"),
        }),
        UnixSocketMessage::Byte(found, _) => Err(FabricError::NotFarslot {
            subject: format!("whoever serves {name:?}"),
            found: found.into(),
            expected: WELCOME.into(),
        }),
        UnixSocketMessage::Nothing => Err(FabricError::Os {
            call: "attaching",
            error: format!("the owner of {name:?} did not answer within 5 s"),
        }),
        UnixSocketMessage::Closed => Err(FabricError::NoSuchRegion { name: name.into() }),
    }
}
