//! Secrets of a node and its audit log, as its owner uses them.

use crate::common::{ANY_PORT, Node, assert_fails, error_of, farslot, start_serving};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs::{File, Permissions};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

/// What changes by itself has done so long before this.
const DEADLINE: Duration = Duration::from_secs(30);

fn secret(path: &Path, text: &str, mode: u32) {
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// Waits until a file is as it should be; returns what it has then.
fn wait_for(path: &Path, condition: &str, is: impl Fn(&str) -> bool) -> String {
    let since = Instant::now();
    loop {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        if is(&text) {
            return text;
        }
        assert!(since.elapsed() < DEADLINE, "{condition} is not in {text}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Wherever a node listens, as many may wait to be accepted while its threads are busy as the
/// system admits, up to 1,024; the standard library asks for 128.
#[test]
fn many_clients_may_wait_at_every_socket_of_a_node() {
    let most = std::fs::read_to_string("/proc/sys/net/core/somaxconn").unwrap();
    let clients = most.trim().parse::<usize>().unwrap().min(600);
    let mut command = farslot(["serve", ANY_PORT, "--memory", "64MiB", "--while-stdin"]);
    command.args(["--redis", "127.0.0.1:0", "--metrics", "127.0.0.1:0"]);
    command.arg("--json");
    let (process, ready) = start_serving(command);
    let ready: Value = serde_json::from_str(&ready).unwrap();
    let node = Node {
        process,
        address: ready["addresses"][0].as_str().unwrap().into(),
    };
    let signal = |signal| kill_process(Pid::from_child(&node.process), signal).unwrap();
    signal(Signal::STOP);
    let said = |key: &str| ready[key].as_str().unwrap();
    for at in [&*node.address, said("redis"), said("metrics")] {
        let place = at.split_once("://").unwrap().1;
        let place: SocketAddr = place.trim_end_matches("/metrics").parse().unwrap();
        let connect = |_| TcpStream::connect_timeout(&place, DEADLINE);
        let waiting: std::io::Result<Vec<_>> = (0..clients).map(connect).collect();
        assert!(waiting.is_ok(), "{at}: {waiting:?}");
    }
    signal(Signal::CONT);
    node.ok(["tables"]);
}

#[test]
fn a_secret_is_read_again_and_the_audit_log_tells_who_came() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| -> PathBuf { directory.path().join(name) };
    secret(&at("secret"), "the first of the secrets", 0o600);
    secret(&at("old"), "the first of the secrets", 0o600);
    secret(&at("new"), "the second of the secrets", 0o600);
    secret(&at("reader"), "the secret of readers", 0o600);
    let mut command = farslot(["serve", ANY_PORT, "--memory", "64MiB", "--while-stdin"]);
    command.arg("--secret-file").arg(at("secret"));
    command.arg("--read-only-secret-file").arg(at("reader"));
    command.arg("--audit").arg(at("audit"));
    command.stderr(File::create(at("log")).unwrap());
    let node = Node::start_command(command);
    let run = |secret: &str, grant: &str, args: &[&str]| -> Output {
        let mut command = node.command(args);
        command.args(["--grant", grant, "--secret-file"]);
        command.arg(at(secret)).output().unwrap()
    };
    let ok = |output: &Output| assert!(output.status.success(), "{}", error_of(output));
    ok(&run("old", "default", &["create", "users", "-c", "10"]));
    ok(&run("old", "default", &["put", "users", "key", "value"]));
    assert_fails(
        &run("new", "default", &["stat"]),
        1,
        &["the secret is wrong"],
    );
    assert_fails(
        &run("old", "none", &["stat"]),
        1,
        &["the secret is wrong", "--grant"],
    );

    let reload = || {
        let pid = node.process.id().to_string();
        let sent = Command::new("kill").args(["-HUP", &pid]).status().unwrap();
        assert!(sent.success());
    };
    // One that could be guessed changes nothing.
    secret(&at("secret"), "short", 0o600);
    reload();
    wait_for(&at("log"), "an error", |log| {
        log.contains("all secrets stay as they were")
    });
    ok(&run("old", "default", &["get", "users", "key"]));
    secret(&at("secret"), "the second of the secrets", 0o600);
    reload();
    wait_for(&at("log"), "the news", |log| {
        log.contains("the secret of --secret-file is another")
    });
    assert_fails(
        &run("old", "default", &["stat"]),
        1,
        &["the secret is wrong"],
    );
    ok(&run("new", "default", &["get", "users", "key"]));
    // The other grant is as it was.
    ok(&run("reader", "read-only", &["get", "users", "key"]));

    let audit = wait_for(&at("audit"), "the table", |audit| {
        audit.contains("table_made")
    });
    let mode = std::fs::metadata(at("audit")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let lines: Vec<Value> = audit
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let find = |event: &str, grant: &str| {
        let found = lines
            .iter()
            .find(|line| line["event"] == event && line["grant"] == grant);
        found.unwrap_or_else(|| panic!("{event} of {grant} is not in {audit}"))
    };
    find("granted", "default");
    find("revoked", "default");
    find("admitted", "read-only");
    let refused = find("refused", "none");
    assert!(
        refused["address"]
            .as_str()
            .unwrap()
            .starts_with("127.0.0.1:")
    );
    assert!(
        refused["detail"]
            .as_str()
            .unwrap()
            .contains("secret is wrong")
    );
    assert!(refused["time"].as_str().unwrap().ends_with('Z'));
    assert!(
        !audit.contains("of the secrets"),
        "no secret is written down"
    );
}

#[test]
fn a_secret_that_others_can_change_is_refused_and_one_that_they_can_read_is_told_of() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("secret");
    let serve = |mode| {
        secret(&path, "a secret that is long enough", mode);
        let mut command = farslot(["serve", ANY_PORT, "--memory", "64MiB", "--while-stdin"]);
        command.arg("--secret-file").arg(&path);
        command
    };
    let refused = serve(0o602).output().unwrap();
    assert_fails(&refused, 1, &["can write it", "chmod 600"]);
    for (mode, told) in [(0o604, true), (0o600, false)] {
        let log = directory.path().join(format!("log-{mode:o}"));
        let mut command = serve(mode);
        command.stderr(File::create(&log).unwrap());
        drop(Node::start_command(command));
        let log = std::fs::read_to_string(log).unwrap();
        assert_eq!(log.contains("can read the secret"), told, "{log}");
    }
}
