//! Memory that is served over TCP: secrets, and what goes wrong.

use crate::common::{ANY_PORT, Node, assert_fails, error_of, farslot, fresh_address};
use std::io::Write;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

const SECRET: &str = "a secret of many bytes";

fn secret_file(directory: &Path, name: &str, secret: &str) -> String {
    let path = directory.join(name);
    std::fs::write(&path, secret).unwrap();
    path.display().to_string()
}

fn serve(args: &[&str]) -> Output {
    let all = ["serve"].iter().chain(args);
    let all = all.chain(&["--memory", "4MiB", "--while-stdin"]);
    farslot(all).stdin(Stdio::null()).output().unwrap()
}

#[test]
fn clients_and_nodes_with_the_same_secret_come_together() {
    let directory = tempfile::tempdir().unwrap();
    let right = secret_file(directory.path(), "right", &format!("{SECRET}\n"));
    let wrong = secret_file(directory.path(), "wrong", "a secret of other bytes");
    let mut command = farslot(["serve", ANY_PORT, "--while-stdin", "--threads", "2"]);
    command.args(["--memory", "64MiB", "--secret-file", &right]);
    let mut node = Node::start_command({
        command.stderr(Stdio::piped());
        command
    });
    let run = |args: &[&str]| node.run(args);
    let ok = |args: &[&str]| {
        let output = run(args);
        assert!(output.status.success(), "{}", error_of(&output));
    };
    ok(&["create", "t", "-c", "100", "--secret-file", &right]);
    ok(&["--secret-file", &right, "put", "t", "key", "value"]);
    let by_environment = node
        .command(["get", "t", "key"])
        .env("FARSLOT_SECRET", SECRET)
        .output()
        .unwrap();
    assert_eq!(by_environment.stdout, b"value\n");

    let refused = run(&["get", "t", "key", "--secret-file", &wrong]);
    let parts = [
        "error: no admission to",
        "the secret is wrong",
        "--secret-file FILE",
    ];
    assert_fails(&refused, 1, &parts);
    let none = run(&["get", "t", "key"]);
    assert_fails(&none, 1, &["needs a secret", "FARSLOT_SECRET"]);
    let absent = run(&["stat", "--secret-file", "/nonexistent"]);
    assert_fails(&absent, 1, &["/nonexistent", "No such file"]);
    let empty = node.command(["stat"]).env("FARSLOT_SECRET", "").output();
    assert_fails(&empty.unwrap(), 1, &["0 bytes is too short"]);

    // The node has told of those that it refused, and of no secret.
    let mut errors = node.process.stderr.take().unwrap();
    node.kill();
    let mut told = String::new();
    std::io::Read::read_to_string(&mut errors, &mut told).unwrap();
    assert!(told.contains("the secret is wrong"), "{told}");
    assert!(!told.contains(SECRET) && !told.contains("no secret is needed"));
}

#[test]
fn clients_that_may_only_read_have_a_secret_of_their_own() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name, secret| secret_file(directory.path(), name, secret);
    let all = file("all", SECRET);
    let readers = file("readers", "a secret for readers");
    let node = Node::start_command(farslot([
        "serve",
        ANY_PORT,
        "--while-stdin",
        "--memory",
        "64MiB",
        "--secret-file",
        &all,
        "--read-only-secret-file",
        &readers,
    ]));
    node.ok(["create", "t", "-c", "100", "--secret-file", &all]);
    node.ok(["put", "t", "key", "value", "--secret-file", &all]);
    let as_reader = ["--grant", "read-only", "--secret-file", &readers];
    let read = |args: &[&str]| node.run(args.iter().chain(&as_reader));
    for args in [&["get", "t", "key"][..], &["stat", "t"], &["dump", "t"]] {
        let output = read(args);
        assert!(output.status.success(), "{}", error_of(&output));
    }
    assert_eq!(read(&["get", "t", "key"]).stdout, b"value\n");
    for args in [
        &["put", "t", "key", "other"][..],
        &["create", "u", "-c", "9"],
    ] {
        assert_fails(
            &read(args),
            1,
            &["needs the right", "grants read", "--grant"],
        );
    }
    assert_eq!(read(&["get", "t", "key"]).stdout, b"value\n");
    // The secret opens that grant and no other.
    let refused = node.run(["get", "t", "key", "--secret-file", &readers]);
    assert_fails(&refused, 1, &["the secret is wrong"]);
    let unknown = node.run(["stat", "--grant", "writers", "--secret-file", &all]);
    assert_fails(&unknown, 1, &["no such grant", "--grant NAME"]);

    let same = serve(&[
        ANY_PORT,
        "--secret-file",
        &all,
        "--read-only-secret-file",
        &all,
    ]);
    assert_fails(&same, 2, &["another secret"]);
    let alone = serve(&[ANY_PORT, "--read-only-secret-file", &readers]);
    assert_fails(&alone, 2, &["needs --secret-file"]);
}

#[test]
fn without_a_secret_only_this_machine_is_served_and_told_so_once() {
    let local = serve(&[ANY_PORT]);
    assert!(local.status.success(), "{}", error_of(&local));
    let told = "no secret is needed: whoever is on this machine can use the memory\n";
    assert_eq!(error_of(&local), told);
    let refused = serve(&["tcp://0.0.0.0:0"]);
    let parts = [
        "other machines",
        "neither a secret",
        "--secret-file",
        "--trust",
    ];
    assert_fails(&refused, 1, &parts);
    let insecure = serve(&["tcp://0.0.0.0:0", "--insecure"]);
    assert!(insecure.status.success(), "{}", error_of(&insecure));
    assert!(error_of(&insecure).contains("whoever reaches"));
    // A node that asks for nothing is not trusted by who has a secret.
    let node = Node::start_at(ANY_PORT, "4MiB");
    let output = node
        .command(["stat"])
        .env("FARSLOT_SECRET", SECRET)
        .output();
    assert_fails(&output.unwrap(), 1, &["does not know the client's secret"]);
}

#[test]
fn addresses_that_cannot_be_had_are_named_in_time() {
    let since = Instant::now();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap();
    let taken = serve(&[&format!("tcp://{port}")]);
    assert_fails(&taken, 1, &["is in use", "another port"]);
    let not_ours = serve(&["tcp://192.0.2.1:7000", "--insecure"]);
    assert_fails(
        &not_ours,
        1,
        &["served at 192.0.2.1:7000", "of this machine"],
    );
    let stat = |address: &str| farslot(["-a", address, "stat"]).output().unwrap();
    let deaf = stat(&format!("tcp://{port}"));
    assert_fails(&deaf, 1, &["no connection to", "within"]);
    drop(silent);
    let refused = stat(&format!("tcp://{port}"));
    assert_fails(
        &refused,
        1,
        &["nothing listens there", "farslot serve tcp://"],
    );
    let unknown = stat("tcp://no-such-host.invalid:7000");
    assert_fails(&unknown, 1, &["no-such-host.invalid:7000"]);
    assert!(since.elapsed() < Duration::from_secs(30));

    // Something else listens there.
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("tcp://{}", other.local_addr().unwrap());
    let answer = std::thread::spawn(move || {
        let (mut stream, _) = other.accept().unwrap();
        stream
            .write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            .unwrap();
    });
    assert_fails(&stat(&address), 1, &["does not speak the protocol"]);
    answer.join().unwrap();
}

#[test]
fn one_memory_is_served_by_name_and_by_port() {
    let name = fresh_address();
    let mut command = farslot(["serve", ANY_PORT, "--also", &name]);
    command.args(["--memory", "64MiB", "--while-stdin"]);
    let node = Node::start_command(command);
    assert!(
        node.address.starts_with("tcp://127.0.0.1:"),
        "{}",
        node.address
    );
    node.ok(["create", "t", "-c", "100"]);
    node.ok(["put", "t", "key", "value"]);
    let over_shm = farslot(["-a", &name, "get", "t", "key"]).output().unwrap();
    assert_eq!(over_shm.stdout, b"value\n");
}
