//! Shared memory between real processes. A test that needs a second one starts this file again.

use farslot_fabric::shm::{Node, RegionSpec, ShmEndpoint, attach};
use farslot_fabric::*;
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::process::{Child, Command, Stdio};
use std::rc::Rc;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const NAME: &str = "FARSLOT_TEST_SERVE";
/// The most files that the second process may open.
const FILES: &str = "FARSLOT_TEST_FILES";

fn spec(rights: Rights) -> RegionSpec {
    RegionSpec {
        len: 1 << 20,
        rights,
    }
}

fn unique(name: &str) -> String {
    format!("test-{name}-{}", std::process::id())
}

/// Not a test of its own: what the second process does.
#[test]
fn owner_process() {
    let Ok(name) = std::env::var(NAME) else {
        return;
    };
    if let Ok(files) = std::env::var(FILES) {
        let most = Some(files.parse().unwrap());
        let low = Rlimit {
            current: most.map(|most: u64| most - 1),
            maximum: most,
        };
        setrlimit(Resource::Nofile, low).unwrap();
    }
    let node = Node::serve(&name, &[spec(Rights::ALL)]).unwrap();
    node.serve_calls(Arc::new(Mortal));
    let limit = getrlimit(Resource::Nofile);
    assert_eq!(limit.current, limit.maximum, "raised as far as it goes");
    println!("serving");
    std::thread::sleep(Duration::from_secs(60));
}

/// Replies what it is sent, and ends its process when it is told to.
struct Mortal;

impl Handler for Mortal {
    fn handle(&self, call: Call<'_>) -> CallAnswer {
        if call.request == b"die" {
            std::process::abort();
        }
        let bytes = call.request.len().min(call.reply.len());
        call.reply[..bytes].copy_from_slice(&call.request[..bytes]);
        CallAnswer::Now(bytes)
    }
}

#[test]
fn calls_of_an_owner_that_dies_fail_at_once_and_those_before_are_answered() {
    let name = unique("mortal");
    let mut owner = start_owner(&name);
    let node = attach(&name, Rights::ALL).unwrap();
    let limits = Limits {
        verb_timeout: 60_000_000_000,
        ..Limits::default()
    };
    let executor = Executor::new(Rc::new(ShmEndpoint::new(vec![node], limits)));
    let endpoint = executor.endpoint();
    let calls = (0..20).map(|number| {
        let text: &[u8] = if number == 10 { b"die" } else { b"live" };
        let request = endpoint.core().buffers.copy_of(text).unwrap();
        endpoint.call((NodeId(0), RegionId(0)), request, 4)
    });
    let mut ends = Vec::new();
    executor.block_on(window(20, calls, |_, end| {
        ends.push(end.map(|reply| reply.to_vec()))
    }));
    let stopped = Err(FabricError::NodeStopped {
        node: NodeId(0),
        sent: true,
    });
    // Replies that were not published yet are lost with their process.
    let answered = ends.iter().take_while(|end| **end == Ok(b"live".to_vec()));
    let answered = answered.count();
    assert!(answered <= 10, "{ends:?}");
    assert!(
        ends[answered..].iter().all(|end| *end == stopped),
        "{ends:?}"
    );
    assert!(!owner.wait().unwrap().success());
}

fn start_owner(name: &str) -> Child {
    start_owner_with(name, None)
}

fn start_owner_with(name: &str, files: Option<u64>) -> Child {
    let mut owner = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "shm_processes::owner_process", "--nocapture"])
        .env(NAME, name)
        .envs(files.map(|files| (FILES, files.to_string())))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(owner.stdout.take().unwrap()).lines();
    let serves = lines.any(|line| line.unwrap().contains("serving"));
    if !serves {
        let status = owner.wait().unwrap();
        panic!("the owner ended before it served: {status}");
    }
    owner
}

fn executor(node: Node) -> Executor<ShmEndpoint> {
    Executor::new(Rc::new(ShmEndpoint::new(vec![node], Limits::default())))
}

fn at(offset: u64) -> RemoteAddr {
    RemoteAddr {
        node: NodeId(0),
        region: RegionId(0),
        offset,
    }
}

#[test]
fn clients_share_the_memory_and_a_killed_owner_is_noticed() {
    let name = unique("kill");
    let mut owner = start_owner(&name);
    let (one, two) = (attach(&name, Rights::ALL), attach(&name, Rights::ALL));
    let (one, two) = (executor(one.unwrap()), executor(two.unwrap()));
    one.block_on(one.endpoint().fetch_add(at(8), 41)).unwrap();
    assert_eq!(two.block_on(two.endpoint().fetch_add(at(8), 1)), Ok(41));

    assert_eq!(
        Node::serve(&name, &[spec(Rights::ALL)]).map(|_| ()),
        Err(FabricError::NameTaken {
            name: name.clone(),
            owner: Some(rustix::process::geteuid().as_raw()),
        })
    );

    owner.kill().unwrap();
    owner.wait().unwrap();
    let since = Instant::now();
    let gone = loop {
        match one.block_on(one.endpoint().read(at(8), 8)) {
            Err(error) => break error,
            Ok(_) => assert!(since.elapsed() < Duration::from_secs(10)),
        }
    };
    // It may have gone as the READ was under way.
    assert!(matches!(
        gone,
        FabricError::NodeStopped {
            node: NodeId(0),
            ..
        }
    ));
    let later = one.block_on(one.endpoint().fetch_add(at(8), 1));
    let unsent = FabricError::NodeStopped {
        node: NodeId(0),
        sent: false,
    };
    assert_eq!(later, Err(unsent));
    assert_eq!(
        attach(&name, Rights::ALL).map(|_| ()),
        Err(FabricError::NoSuchRegion { name: name.clone() })
    );
    // Nothing is left of the name: it can be served again, and starts empty.
    let again = Node::serve(&name, &[spec(Rights::ALL)]).unwrap();
    let again = executor(again);
    assert_eq!(again.block_on(again.endpoint().fetch_add(at(8), 1)), Ok(0));
}

#[test]
fn a_read_only_client_cannot_write() {
    let name = unique("readonly");
    let owner = Node::serve(&name, &[spec(Rights::ALL)]).unwrap();
    let owner = executor(owner);
    owner
        .block_on(owner.endpoint().fetch_add(at(0), 9))
        .unwrap();
    let reader = executor(attach(&name, Rights::READ).unwrap());
    let seen = reader.block_on(reader.endpoint().read(at(0), 8)).unwrap();
    assert_eq!(seen.words(), [9]);
    assert!(matches!(
        reader.block_on(reader.endpoint().compare_swap(at(0), 9, 1)),
        Err(FabricError::AccessDenied {
            granted: Rights::READ,
            ..
        })
    ));
}

#[test]
fn a_read_only_client_takes_no_messages() {
    let name = unique("inbox");
    let node = Node::serve(&name, &[spec(Rights::ALL)]).unwrap();
    let owner = executor(node.clone());
    let data = owner.endpoint().core().buffers.copy_of(b"call").unwrap();
    let sent = owner.endpoint().write_imm(at(0), data, 5);
    owner.block_on(sent).unwrap();
    let reader = attach(&name, Rights::READ).unwrap();
    assert_eq!(reader.take_message(), None);
    let writer = attach(&name, Rights::ALL).unwrap();
    assert_eq!(writer.take_message(), Some(Message { imm: 5, len: 4 }));
    assert_eq!(node.take_message(), None);
}

#[test]
fn names_are_checked_and_strangers_refused() {
    for name in ["", "a/b", "sp ace", &"x".repeat(81)] {
        assert!(matches!(
            attach(name, Rights::ALL).map(|_| ()),
            Err(FabricError::BadName { .. })
        ));
    }
    assert!(matches!(
        attach("nobody-serves-this", Rights::ALL).map(|_| ()),
        Err(FabricError::NoSuchRegion { .. })
    ));
}

/// Serves `file`, whatever it is, to one client as an owner would.
fn serve_once(name: &str, file: OwnedFd) -> JoinHandle<()> {
    let listener = UnixListener::bind_addr(&address_of(name)).unwrap();
    std::thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        client.read_exact(&mut [0]).unwrap();
        let files = [file.as_fd()];
        let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = rustix::net::SendAncillaryBuffer::new(&mut space);
        assert!(control.push(rustix::net::SendAncillaryMessage::ScmRights(&files)));
        rustix::net::sendmsg(
            &client,
            &[std::io::IoSlice::new(b"F")],
            &mut control,
            rustix::net::SendFlags::empty(),
        )
        .unwrap();
    })
}

fn sealed(bytes: u64) -> OwnedFd {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = rustix::fs::memfd_create("stranger", flags).unwrap();
    rustix::fs::ftruncate(&file, bytes).unwrap();
    rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK).unwrap();
    file
}

#[test]
fn memory_that_is_no_farslot_region_is_named_as_such() {
    for bytes in [0, 1, 8, 4096, 1 << 20] {
        let name = unique("stranger");
        let unauthenticated = serve_once(&name, sealed(bytes));
        for_attached(&name, |refused| {
            matches!(refused, FabricError::NotFarslot { found: 0, .. })
        });
        unauthenticated.join().unwrap();
    }
}

#[test]
fn files_that_are_no_sealed_memory_are_refused() {
    let (pipe, _writer) = std::io::pipe().unwrap();
    let program = std::fs::File::open(std::env::current_exe().unwrap()).unwrap();
    let unsealed = rustix::fs::memfd_create("stranger", MemfdFlags::CLOEXEC).unwrap();
    for file in [pipe.into(), program.into(), unsealed] {
        let name = unique("unsealed");
        let unauthenticated = serve_once(&name, file);
        for_attached(&name, |refused| {
            matches!(refused, FabricError::DamagedHeader { .. })
        });
        unauthenticated.join().unwrap();
    }
}

fn for_attached(name: &str, expected: impl Fn(&FabricError) -> bool) {
    let refused = attach(name, Rights::ALL).map(|_| ()).unwrap_err();
    assert!(expected(&refused), "{refused:?}");
}

fn address_of(name: &str) -> SocketAddr {
    let user = rustix::process::geteuid().as_raw();
    SocketAddr::from_abstract_name(format!("farslot/{user}/{name}")).unwrap()
}

/// Connects as a client does; a test that is never answered fails, rather than hanging.
fn connect(address: &SocketAddr) -> UnixStream {
    let stream = UnixStream::connect_addr(address).unwrap();
    let at_last = Some(Duration::from_secs(60));
    stream.set_read_timeout(at_last).unwrap();
    stream
}

/// What the owner sends until it closes the connection.
fn everything_from(mut stream: &UnixStream) -> Vec<u8> {
    let mut received = Vec::new();
    match stream.read_to_end(&mut received) {
        Ok(_) => {}
        // Closed with bytes of ours unread.
        Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset),
    }
    received
}

#[test]
fn clients_that_are_silent_or_say_too_much_are_let_go() {
    let name = unique("manners");
    let owner = Node::serve(&name, &[spec(Rights::ALL)]).unwrap();
    let silent = connect(&address_of(&name));
    for words in [&b"ww"[..], b"rw", b"wxyz"] {
        let talker = connect(&address_of(&name));
        (&talker).write_all(words).unwrap();
        assert_eq!(everything_from(&talker), b"F", "one file and no more");
    }
    let wrong = connect(&address_of(&name));
    (&wrong).write_all(b"?").unwrap();
    assert_eq!(everything_from(&wrong), b"U");
    let client = attach(&name, Rights::ALL).unwrap();
    assert_eq!(everything_from(&silent), b"");
    assert!(!client.is_gone(), "only the silent one was let go");
    drop(owner);
}

#[test]
fn other_users_are_let_go_at_once() {
    let root = rustix::process::geteuid().is_root();
    let name = unique("others");
    let owner = Node::serve(&name, &[spec(Rights::ALL)]).unwrap();
    let address = address_of(&name);
    let other = std::thread::spawn(move || {
        // Only root can become somebody else; the thread alone does.
        let nobody = rustix::thread::Uid::from_raw(65_534);
        if !root || rustix::thread::set_thread_res_uid(nobody, nobody, nobody).is_err() {
            return;
        }
        assert_eq!(everything_from(&connect(&address)), b"U");
    });
    other.join().unwrap();
    assert!(attach(&name, Rights::ALL).is_ok());
    drop(owner);
}

#[test]
fn an_owner_that_ran_out_of_files_goes_on_when_there_are_some() {
    let name = unique("files");
    let mut owner = start_owner_with(&name, Some(24));
    let clients: Vec<_> = (0..48)
        .map(|_| {
            let client = connect(&address_of(&name));
            (&client).write_all(b"r").unwrap();
            client
        })
        .collect();
    // The first has its file; the last waits in the queue until others have gone.
    let mut answer = [0];
    (&clients[0]).read_exact(&mut answer).unwrap();
    let last = clients.into_iter().next_back().unwrap();
    (&last).read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"F");
    assert!(attach(&name, Rights::ALL).is_ok());
    owner.kill().unwrap();
    owner.wait().unwrap();
}
