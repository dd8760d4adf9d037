//! Directories of snapshots in which others have left files.

use super::load;
use crate::common::{Node, assert_fails, farslot};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

fn small(directory: &Path) -> Node {
    let node = Node::start();
    node.ok(["create", "t", "--capacity", "100"]);
    load(&node, "t", 0..50);
    std::fs::create_dir_all(directory).unwrap();
    node
}

#[test]
fn no_file_that_others_have_left_is_written() {
    let directory = tempfile::tempdir().unwrap();
    let (kept, victim) = (
        directory.path().join("kept"),
        directory.path().join("victim"),
    );
    let node = small(&kept);
    let (path, part) = (kept.to_str().unwrap(), kept.join("t.snapshot.part"));
    let refused = |why: &str| {
        let refused = node.run(["snapshot", path, "t"]);
        assert_fails(&refused, 1, &["t.snapshot.part", why]);
        assert!(!kept.join("t.snapshot").exists());
    };
    std::fs::write(&victim, "kept").unwrap();
    symlink(&victim, &part).unwrap();
    refused("is a symbolic link");
    std::fs::remove_file(&part).unwrap();
    std::fs::hard_link(&victim, &part).unwrap();
    refused("has 2 names");
    std::fs::remove_file(&part).unwrap();
    std::fs::write(&part, "").unwrap();
    std::fs::set_permissions(&part, PermissionsExt::from_mode(0o666)).unwrap();
    refused("can be written by others");
    // Only root can give files away.
    std::fs::set_permissions(&part, PermissionsExt::from_mode(0o600)).unwrap();
    if std::os::unix::fs::chown(&part, Some(12_345), None).is_ok() {
        refused("belongs to user 12345");
    }
    std::fs::remove_file(&part).unwrap();
    assert_eq!(std::fs::read(&victim).unwrap(), b"kept");
    // What a restore notes goes by the same rules: it is not noted then.
    node.ok(["snapshot", path]);
    node.ok(["drop", "t"]);
    symlink(&victim, kept.join("t.snapshot.restoring")).unwrap();
    node.ok(["restore", path]);
    assert_eq!(std::fs::read(&victim).unwrap(), b"kept");
    assert_eq!(node.count("t"), 50);
}

/// What a command says that must end by itself.
fn ending(mut command: Command) -> Output {
    let command = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let since = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if since.elapsed() > Duration::from_secs(60) {
            child.kill().unwrap();
            panic!("it waits for ever");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    child.wait_with_output().unwrap()
}

#[test]
fn a_pipe_in_place_of_a_snapshot_stops_nobody() {
    let directory = tempfile::tempdir().unwrap();
    let node = small(directory.path());
    let path = directory.path().to_str().unwrap();
    let pipe = directory.path().join("t.snapshot");
    assert!(
        Command::new("mkfifo")
            .arg(&pipe)
            .status()
            .unwrap()
            .success()
    );
    for args in [
        &["restore", path, "t"][..],
        &["restore", path],
        &["restore", path, "--check"],
        &["restore", path, "t", "--check"],
        &[
            "serve",
            "tcp://127.0.0.1:0",
            "--memory",
            "16MiB",
            "--snapshot-dir",
            path,
            "--restore",
        ],
    ] {
        let ended = ending(node.command(args));
        assert_fails(&ended, 1, &["t.snapshot", "not a regular file"]);
    }
    // It is replaced by a snapshot.
    node.ok(["snapshot", path]);
    let checked = farslot(["restore", path, "--check"]);
    assert!(ending(checked).status.success());
    let pipe = directory.path().join("t.snapshot.part");
    assert!(
        Command::new("mkfifo")
            .arg(&pipe)
            .status()
            .unwrap()
            .success()
    );
    let ended = ending(node.command(["snapshot", path]));
    assert_fails(&ended, 1, &["t.snapshot.part", "not a regular file"]);
}
