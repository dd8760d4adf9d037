//! Shared memory between real processes. A test that needs a second one starts this file again.

use farslot_fabric::shm::{Node, RegionSpec, ShmEndpoint, attach};
use farslot_fabric::*;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::rc::Rc;
use std::time::{Duration, Instant};

const NAME: &str = "FARSLOT_TEST_SERVE";

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
    let _node = Node::serve(&name, &[spec(Rights::ALL)]).unwrap();
    println!("serving");
    std::thread::sleep(Duration::from_secs(60));
}

fn start_owner(name: &str) -> Child {
    let mut owner = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "owner_process", "--nocapture"])
        .env(NAME, name)
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
        Err(FabricError::NameTaken { name: name.clone() })
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
    assert_eq!(gone, FabricError::NodeStopped { node: NodeId(0) });
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

#[test]
fn memory_that_is_no_farslot_region_is_named_as_such() {
    use std::io::Read;
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixListener};
    let name = unique("stranger");
    let user = rustix::process::geteuid().as_raw();
    let address = SocketAddr::from_abstract_name(format!("farslot/{user}/{name}")).unwrap();
    let listener = UnixListener::bind_addr(&address).unwrap();
    let stranger = std::thread::spawn(move || {
        let file = rustix::fs::memfd_create(
            "stranger",
            rustix::fs::MemfdFlags::CLOEXEC | rustix::fs::MemfdFlags::ALLOW_SEALING,
        )
        .unwrap();
        rustix::fs::ftruncate(&file, 1 << 20).unwrap();
        rustix::fs::fcntl_add_seals(&file, rustix::fs::SealFlags::SHRINK).unwrap();
        let (mut client, _) = listener.accept().unwrap();
        client.read_exact(&mut [0]).unwrap();
        let files = [std::os::fd::AsFd::as_fd(&file)];
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
    });
    assert!(matches!(
        attach(&name, Rights::ALL).map(|_| ()),
        Err(FabricError::NotFarslot { found: 0, .. })
    ));
    stranger.join().unwrap();
}
