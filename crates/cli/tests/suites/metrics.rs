//! `farslot serve --metrics`: scraped over its socket, and refused where nobody is trusted. JSON in
//! the log.

use crate::common::{Node, assert_fails, error_of, farslot, fresh_address, start_serving};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Stdio;

fn get(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn a_node_tells_of_itself_where_that_is_asked_for() {
    let address = fresh_address();
    let mut command = farslot(["serve", &address, "--also", "tcp://127.0.0.1:0"]);
    command
        .args(["--metrics", "127.0.0.1:0", "--memory", "64MiB"])
        .args(["--redis", "127.0.0.1:0", "--while-stdin", "--json"]);
    let directory = tempfile::tempdir().unwrap();
    command.args(["--snapshot-every", "1s", "--snapshot-dir"]);
    command.arg(directory.path());
    let (process, ready) = start_serving(command);
    let ready: serde_json::Value = serde_json::from_str(&ready).unwrap();
    let metrics = ready["metrics"].as_str().unwrap();
    let metrics = metrics.strip_prefix("http://").unwrap();
    let metrics = metrics.strip_suffix("/metrics").unwrap();
    let over_tcp = ready["addresses"][1].as_str().unwrap();
    let node = Node {
        process,
        address: over_tcp.into(),
    };
    node.ok(["create", "t", "-c", "100"]);
    node.ok(["put", "t", "key", "value"]);
    assert!(get(metrics, "/readyz").ends_with("\r\n\r\nready\n"));
    let begun = "farslot_snapshot_begun_seconds{table=\"t\"} ";
    let since = std::time::Instant::now();
    let text = loop {
        let text = get(metrics, "/metrics");
        if text.contains(begun) || since.elapsed().as_secs() > 60 {
            break text;
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
    };
    for part in [
        begun.into(),
        "farslot_snapshot_failures_total 0\n".into(),
        "farslot_redis_wrong_secrets_total 0\n".into(),
        format!("farslot_verbs_total{{address=\"{over_tcp}\",verb=\"call\"}} "),
        "farslot_table_records{table=\"t\",scheme=\"linear\"} 1\n".into(),
        "farslot_ready 1\n".into(),
        "farslot_redis_connections 0\n".into(),
    ] {
        assert!(text.contains(&part), "{part:?} is not in {text}");
    }
    assert!(get(metrics, "/").contains("<title>Farslot</title>"));
    let taken = farslot(["serve", &fresh_address(), "--metrics", metrics]);
    assert_fails(&{ taken }.output().unwrap(), 1, &["metrics", "in use"]);
}

#[test]
fn an_open_address_serves_metrics_to_those_who_are_trusted() {
    let address = fresh_address();
    let refused = farslot([
        "serve",
        &address,
        "--memory",
        "64MiB",
        "--metrics",
        "0.0.0.0:0",
    ])
    .output()
    .unwrap();
    assert_fails(&refused, 1, &["0.0.0.0:0", "--trust"]);
    let mut trusting = farslot(["serve", &address, "--memory", "64MiB"]);
    trusting.args(["--metrics", "0.0.0.0:0", "--trust", "10.0.0.0/8"]);
    drop(Node::start_command({
        trusting.arg("--while-stdin");
        trusting
    }));
}

#[test]
fn a_log_of_json_is_json_alone() {
    let mut command = farslot(["serve", "tcp://127.0.0.1:0", "--memory", "64MiB"]);
    command
        .env("FARSLOT_LOG_FORMAT", "json")
        .stderr(Stdio::piped());
    let mut node = Node::start_command({
        command.arg("--while-stdin");
        command
    });
    let mut stderr = node.process.stderr.take().unwrap();
    let mut stream = TcpStream::connect(node.address.strip_prefix("tcp://").unwrap()).unwrap();
    // No frame: the agent warns of it, and closes.
    stream.write_all(&[0xff; 64]).unwrap();
    let _ = stream.read_to_end(&mut Vec::new());
    node.kill();
    let mut log = String::new();
    stderr.read_to_string(&mut log).unwrap();
    let records: Vec<serde_json::Value> = log
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect();
    let levels: Vec<_> = records.iter().map(|record| &record["level"]).collect();
    assert!(
        levels.contains(&&"NOTE".into()) && levels.contains(&&"WARN".into()),
        "{log}"
    );
    for record in &records {
        assert!(
            record["time"].is_string() && record["message"].is_string(),
            "{record}"
        );
    }
}

#[test]
#[cfg(feature = "top")]
fn top_needs_a_terminal() {
    let node = Node::start();
    let output = node.run(["top"]);
    assert_fails(&output, 2, &["terminal", "stat --json"]);
    assert!(!error_of(&output).contains('\u{1b}'));
}
