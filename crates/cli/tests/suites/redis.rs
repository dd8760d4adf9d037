//! `farslot serve --redis`: the same memory for Redis clients and for tables.

use crate::common::{assert_fails, farslot, fresh_address, start_serving};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command};

/// Sends lines, and returns what is answered until the connection ends.
fn ask(address: &str, lines: &str) -> String {
    let address = address.strip_prefix("redis://").unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(lines.as_bytes()).unwrap();
    let mut replies = String::new();
    stream.read_to_string(&mut replies).unwrap();
    replies
}

/// A process that serves Redis clients, with what it says when it is ready.
fn serve(mut command: Command) -> (Child, Value) {
    command.args(["--memory", "64MiB", "--while-stdin", "--json"]);
    let (process, ready) = start_serving(command);
    (process, serde_json::from_str(&ready).unwrap())
}

#[test]
fn redis_clients_and_tables_share_memory() {
    let address = fresh_address();
    let (mut process, ready) = serve(farslot(["serve", &address, "--redis", "127.0.0.1:0"]));
    let redis = ready["redis"].as_str().unwrap();
    let replies = ask(redis, "SET sky blue\r\nINCR count\r\nGET sky\r\nQUIT\r\n");
    assert_eq!(replies, "+OK\r\n:1\r\n$4\r\nblue\r\n+OK\r\n");
    let found = farslot(["-a", &address, "get", "redis-0", "sky"])
        .output()
        .unwrap();
    assert_eq!(found.stdout, b"blue\n", "{found:?}");
    let put = farslot([
        "-a", &address, "put", "redis-0", "sea", "green", "--ttl", "1h",
    ]);
    assert!({ put }.status().unwrap().success());
    let replies = ask(redis, "GET sea\r\nEXPIRE sea 0\r\nQUIT\r\n");
    assert_eq!(replies, "$5\r\ngreen\r\n:1\r\n+OK\r\n");
    let gone = farslot(["-a", &address, "get", "redis-0", "sea"]).output();
    assert_fails(&gone.unwrap(), 1, &["no key"]);
    process.kill().unwrap();
    process.wait().unwrap();
}

#[test]
fn an_open_address_needs_a_secret_of_its_own() {
    let address = fresh_address();
    let refused = farslot([
        "serve",
        &address,
        "--memory",
        "64MiB",
        "--redis",
        "0.0.0.0:0",
    ]);
    let refused = { refused }.output().unwrap();
    assert_fails(&refused, 1, &["0.0.0.0:0", "--redis-secret-file"]);
    let alone = farslot(["serve", &address, "--redis-secret-file", "none"])
        .output()
        .unwrap();
    assert_fails(&alone, 2, &["--redis"]);
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("secret");
    std::fs::write(&file, "sixteen bytes or more\n").unwrap();
    let mut command = farslot([
        "serve",
        &address,
        "--redis",
        "0.0.0.0:0",
        "--redis-secret-file",
    ]);
    command.arg(&file);
    let (mut process, ready) = serve(command);
    let redis = ready["redis"]
        .as_str()
        .unwrap()
        .replace("0.0.0.0", "127.0.0.1");
    assert_eq!(
        ask(&redis, "GET a\r\nQUIT\r\n"),
        "-NOAUTH Authentication required.\r\n+OK\r\n"
    );
    let replies = ask(&redis, "AUTH wrong\r\nQUIT\r\n");
    assert!(replies.starts_with("-WRONGPASS"), "{replies}");
    process.kill().unwrap();
    process.wait().unwrap();
}
