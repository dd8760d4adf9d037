//! Memory that cannot be gone on with, and names that cannot be used.

use super::{Keep, end};
use crate::common::{assert_fails, farslot, fresh_address};
use std::os::unix::fs::PermissionsExt;

#[test]
fn memory_of_another_size_or_of_a_node_that_runs_is_refused() {
    let keep = Keep::new();
    let mut node = keep.start();
    node.ok(["create", "t"]);
    let other = keep.command(&["--memory", "128MiB"]).output().unwrap();
    assert_fails(
        &other,
        1,
        &[
            "the kept memory",
            "is in use: the node that has it still runs",
        ],
    );
    let ended = keep.keep(&["--end"]);
    assert_fails(&ended, 1, &["still runs", "end the node first"]);
    node.kill();
    let other = keep.command(&["--memory", "64MiB"]).output().unwrap();
    let why = [
        "has 128.0 MiB, and --memory asks for 64.0 MiB",
        "leave --memory out",
        "--end",
    ];
    assert_fails(&other, 1, &why);
    // It is as it was.
    let mut node = keep.start();
    node.ok(["get", "t", "key"][..0].iter().chain(&["tables"]));
    node.kill();
    end(&keep);
    let nobody = keep.keep(&["--end"]);
    assert_fails(&nobody, 1, &["no keeper of", "runs in"]);
}

#[test]
fn new_memory_that_could_not_be_served_is_not_kept() {
    let keep = Keep::new();
    let taken = std::net::TcpListener::bind(keep.addresses[1].strip_prefix("tcp://").unwrap());
    let refused = keep.command(&[]).output().unwrap();
    drop(taken);
    assert_fails(&refused, 1, &["is in use"]);
    crate::common::wait_until(|| !keep.is_held(), || "a keeper of nothing".into());
}

#[test]
fn places_that_others_can_reach_and_addresses_without_memory_to_keep_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let serve = |address: &str, name: &str| {
        let mut command = farslot(["serve", address, "--memory", "64MiB", "--keep", name]);
        command.arg("--keep-dir").arg(directory.path());
        command
    };
    let open = std::fs::Permissions::from_mode(0o750);
    std::fs::set_permissions(directory.path(), open).unwrap();
    let refused = serve(&fresh_address(), "node").output().unwrap();
    assert_fails(
        &refused,
        1,
        &["others than its user can reach it (mode 750, not 700)"],
    );
    let refused = serve(&fresh_address(), "a/b").output().unwrap();
    assert_fails(&refused, 2, &["\"a/b\" is no name for kept memory"]);
    let refused = serve("verbs://127.0.0.1:0", "node").output().unwrap();
    assert_fails(&refused, 2, &["--keep is not for verbs://127.0.0.1:0"]);
    let mut nowhere = farslot(["serve", &fresh_address(), "--keep", "node"]);
    nowhere.env_remove("XDG_RUNTIME_DIR");
    let refused = nowhere.output().unwrap();
    assert_fails(
        &refused,
        2,
        &["XDG_RUNTIME_DIR is not set", "--keep-dir DIR"],
    );
}
