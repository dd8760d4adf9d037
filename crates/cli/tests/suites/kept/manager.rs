//! Memory that the service manager holds.

use super::Keep;
use crate::common::{error_of, farslot};
use std::io::{BufRead, BufReader};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// What systemd is told next, and the file that comes with it.
fn told(manager: &UnixDatagram) -> (String, Option<OwnedFd>) {
    use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
    let mut said = [0; 4096];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let into = &mut [std::io::IoSliceMut::new(&mut said)];
    let received = recvmsg(manager, into, &mut control, RecvFlags::CMSG_CLOEXEC).unwrap();
    let file = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut files) => files.next(),
        _ => None,
    });
    (
        String::from_utf8(said[..received.bytes].to_vec()).unwrap(),
        file,
    )
}

/// A node as systemd starts it, with this file as its descriptor 3.
fn start(address: &str, socket: &Path, kept: Option<&OwnedFd>, more: &[&str]) -> Command {
    let script = match kept {
        Some(_) => {
            r#"LISTEN_PID=$$ LISTEN_FDS=1 LISTEN_FDNAMES=farslot-orders exec "$@" 3<&0 < /dev/null"#
        }
        None => r#"exec "$@""#,
    };
    let mut command = Command::new("sh");
    let program = farslot(["serve", address, "--keep", "orders"]);
    command.args(["-c", script, "sh"]);
    command.arg(program.get_program()).args(program.get_args());
    command.args(more);
    command.env("NOTIFY_SOCKET", socket).env("FDSTORE", "1");
    command
        .env_remove("XDG_RUNTIME_DIR")
        .env_remove("FARSLOT_MEMORY");
    command.stdin(match kept {
        Some(file) => Stdio::from(file.try_clone().unwrap()),
        None => Stdio::null(),
    });
    command
}

fn serving(mut command: Command) -> Child {
    let mut node = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut ready = String::new();
    let mut lines = BufReader::new(node.stdout.take().unwrap());
    lines.read_line(&mut ready).unwrap();
    assert!(ready.starts_with("serving"), "{ready}");
    node
}

#[test]
fn the_service_manager_holds_the_memory_where_it_has_room_for_it() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("manager");
    let manager = UnixDatagram::bind(&socket).unwrap();
    manager
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    let keep = Keep::new();
    let address = &keep.addresses[1];
    let ok = |args: &[&str]| {
        let output = farslot(["-a", address]).args(args).output().unwrap();
        assert!(output.status.success(), "{}", error_of(&output));
        output.stdout
    };
    let mut node = serving(start(address, &socket, None, &["--memory", "64MiB"]));
    let (said, file) = told(&manager);
    assert_eq!(said, "FDSTORE=1\nFDNAME=farslot-orders\n");
    let file = file.unwrap();
    assert!(told(&manager).0.starts_with("READY=1\n"));
    ok(&["create", "t"]);
    ok(&["put", "t", "key", "value"]);
    node.kill().unwrap();
    node.wait().unwrap();

    // Of another size: it is refused, and stays where it is.
    let other = start(address, &socket, Some(&file), &["--memory", "32MiB"])
        .output()
        .unwrap();
    let error = error_of(&other);
    assert!(
        !other.status.success() && error.contains("clean --what=fdstore"),
        "{error}"
    );

    let mut node = serving(start(address, &socket, Some(&file), &[]));
    assert!(
        told(&manager)
            .0
            .starts_with("READY=1\nSTATUS=serving 64.0 MiB")
    );
    assert_eq!(ok(&["get", "t", "key"]), b"value\n");
    node.kill().unwrap();
    node.wait().unwrap();
}

#[test]
fn the_unit_lets_the_service_manager_hold_the_memory() {
    let unit = include_str!("../../../../../packaging/systemd/farslot.service");
    for line in [
        "FileDescriptorStoreMax=1",
        "FileDescriptorStorePreserve=yes",
    ] {
        assert!(unit.lines().any(|there| there == line), "{line}");
    }
}
