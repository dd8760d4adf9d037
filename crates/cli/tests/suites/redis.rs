//! `farslot serve --redis`: the same memory for Redis clients and for tables.

use crate::common::{
    ANY_PORT, Node, assert_fails, farslot, fresh_address, start_serving, wait_for, wait_until,
};
use crate::tls::Bed;
use crate::tls_stream::{self, TlsStream};
use farslot::admission::Fingerprint;
use serde_json::Value;
use socket2::{Domain, Socket, Type};
use std::fs::File;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

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

/// How many lines of a log say something, and how many more of them it counts in place of a line.
fn told_and_counted(log: &str, said: &str) -> (u64, u64) {
    let (mut told, mut counted) = (0, 0);
    let mut left_out = 0;
    for line in log.lines() {
        if let Some((before, _)) = line.split_once(" more like the next one") {
            let number = before.rsplit(' ').next().unwrap();
            left_out = number.parse().unwrap_or_else(|_| panic!("{line}"));
        } else {
            if line.contains(said) {
                (told, counted) = (told + 1, counted + left_out);
            }
            left_out = 0;
        }
    }
    (told, counted)
}

/// Anybody can open connections and guess: what a log has of it is bounded, and counts the rest.
#[test]
fn openings_by_http_and_wrong_secrets_have_few_lines_that_count_the_rest() {
    let directory = tempfile::tempdir().unwrap();
    let (file, log) = (
        directory.path().join("secret"),
        directory.path().join("log"),
    );
    std::fs::write(&file, "sixteen bytes or more\n").unwrap();
    let address = fresh_address();
    let mut command = farslot(["serve", &address, "--redis", "127.0.0.1:0"]);
    command.arg("--redis-secret-file").arg(&file);
    command.stderr(File::create(&log).unwrap());
    let (process, ready) = serve(command);
    let _node = Node { process, address };
    let place = ready["redis"].as_str().unwrap().strip_prefix("redis://");
    let place: SocketAddr = place.unwrap().parse().unwrap();
    let opened = |last: &u32, sent: &str| {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        let from = Ipv4Addr::from_bits(Ipv4Addr::LOCALHOST.to_bits() + 256 + last);
        socket.bind(&SocketAddr::from((from, 0)).into()).unwrap();
        socket.connect(&place.into()).unwrap();
        let mut stream = TcpStream::from(socket);
        stream.write_all(sent.as_bytes()).unwrap();
        stream
    };
    // From each of these addresses, side by side; what is sent is refused.
    let ask_from = |addresses: &[u32], sent: &str| {
        let streams: Vec<_> = addresses.iter().map(|last| opened(last, sent)).collect();
        for mut stream in streams {
            let mut told = [0; 10];
            let bytes = stream.read(&mut told).unwrap_or(0);
            assert!(bytes == 0 || told.starts_with(b"-WRONGPASS"), "{told:?}");
        }
    };
    let counts = |said| told_and_counted(&std::fs::read_to_string(&log).unwrap(), said);
    let all: Vec<u32> = (0..1_000).collect();
    let others = [1_001; 20];
    let (http, guess) = ("POST / HTTP/1.1\r\n", "AUTH wrong\r\n");
    for (sent, said) in [(http, "speaks HTTP"), (guess, "a wrong secret")] {
        let since = Instant::now();
        all.chunks(100).for_each(|some| ask_from(some, sent));
        let seconds = since.elapsed().as_secs() + 2;
        let (told, _) = counts(said);
        let most = 10 * seconds;
        assert!((1..=most).contains(&told), "{told} lines of {said:?}");
        // The next line that may be written says of how many there is none.
        std::thread::sleep(Duration::from_secs(1));
        ask_from(&[1_000], sent);
        let (told, counted) = counts(said);
        assert_eq!(told + counted, 1_001, "{said:?}");
    }
    // One address that guesses on has fewer: at its first guess, its second, its fourth.
    ask_from(&others, guess);
    std::thread::sleep(Duration::from_secs(1));
    ask_from(&[1_002], guess);
    let (told, counted) = counts("a wrong secret");
    assert_eq!(told + counted, 1_001 + 5 + 1);
}

/// Sends this under TLS, and returns what is answered until the other side ends TLS.
fn ask_secured(mut stream: TlsStream, sent: &str) -> String {
    stream.write_all(sent.as_bytes()).unwrap();
    let mut replies = String::new();
    stream.read_to_string(&mut replies).unwrap();
    replies
}

#[test]
fn redis_clients_and_metrics_are_served_under_tls() {
    let bed = Bed::new();
    let first = bed.issue_own();
    let authority = std::fs::read(bed.at("ca")).unwrap();
    let address = fresh_address();
    let mut command = farslot(["serve", &address, "--redis", "rediss://127.0.0.1:0"]);
    command.args(["--metrics", "https://127.0.0.1:0"]);
    bed.prove(&mut command, "own");
    command.stderr(File::create(bed.at("log")).unwrap());
    let (process, ready) = serve(command);
    let node = Node { process, address };
    assert_eq!(ready["certificate_sha256"], first);
    let said = |key: &str| ready[key].as_str().unwrap();
    let redis = said("redis").strip_prefix("rediss://").unwrap();
    let metrics = said("metrics").strip_prefix("https://").unwrap();
    let metrics = metrics.strip_suffix("/metrics").unwrap();
    let connect = |to: &str| tls_stream::connect(to.parse().unwrap(), &authority).unwrap();
    let replies = ask_secured(connect(redis), "SET sky blue\r\nGET sky\r\nQUIT\r\n");
    assert_eq!(replies, "+OK\r\n$4\r\nblue\r\n+OK\r\n");
    let request = format!("GET /readyz HTTP/1.1\r\nHost: {metrics}\r\n\r\n");
    let answer = ask_secured(connect(metrics), &request);
    assert!(answer.ends_with("\r\n\r\nready\n"), "{answer}");
    // Without TLS nobody is answered there.
    for (to, sent) in [(redis, "GET sky\r\n"), (metrics, &*request)] {
        let mut stream = TcpStream::connect(to).unwrap();
        stream.write_all(sent.as_bytes()).unwrap();
        let mut told = Vec::new();
        let _ = stream.read_to_end(&mut told);
        assert!(told.is_empty() || told[0] == 21, "{told:?}");
    }
    // Another certificate is shown once the node is told of it; one with a mistake never is.
    let second = bed.issue_own();
    node.hang_up();
    wait_for(&bed.at("log"), 1, "is another now");
    bed.write("own.pem", b"nothing");
    node.hang_up();
    wait_for(&bed.at("log"), 1, "stays as it was");
    for to in [redis, metrics] {
        let stream = connect(to);
        let shown = &stream.conn.peer_certificates().unwrap()[0];
        assert_eq!(Fingerprint::of(shown).to_string(), second);
    }
}

#[test]
fn what_is_under_tls_needs_no_less_than_without() {
    let bed = Bed::new();
    let serve = |args: &[&str]| {
        let mut command = farslot(["serve", "shm://of-no-use", "--memory", "64MiB"]);
        command.args(args).args(["--while-stdin"]);
        command
    };
    for (args, code, part) in [
        (["--redis", "rediss://0.0.0.0:0"], 1, "--redis-secret-file"),
        (["--metrics", "https://0.0.0.0:0"], 1, "--trust"),
        (["--redis", "tcps://127.0.0.1:0"], 2, "rediss://HOST:PORT"),
        (
            ["--metrics", "rediss://127.0.0.1:0"],
            2,
            "https://HOST:PORT",
        ),
        (["--metrics", "https://127.0.0.1"], 1, "127.0.0.1"),
    ] {
        let mut command = serve(&args);
        bed.prove(&mut command, "own");
        assert_fails(&command.output().unwrap(), code, &[part]);
    }
    for args in [
        ["--redis", "rediss://127.0.0.1:0"],
        ["--metrics", "https://127.0.0.1:0"],
    ] {
        let needed = ["--tls-cert FILE", "openssl req"];
        assert_fails(&serve(&args).output().unwrap(), 2, &needed);
    }
}

const GRANTS: &str = "[reporting]\ntables = [\"users\", \"redis-0\"]\nrights = \"read\"\n\
                      secret_file = \"reporting-secret\"\n";

/// Files of secrets and of grants, whose user is `reporting`.
fn secrets() -> Bed {
    let bed = Bed::new();
    bed.write("redis-secret", b"opens-all-databases");
    bed.write("node-secret", b"opens-all-of-the-node");
    bed.write("reporting-secret", b"opens-one-database");
    bed.write("grants", GRANTS.as_bytes());
    bed
}

/// A node with all of these, at an address.
fn serve_users(bed: &Bed, address: &str) -> (Node, Value) {
    let mut command = farslot(["serve", address, "--redis", "127.0.0.1:0"]);
    command.arg("--redis-secret-file");
    command.arg(bed.at("redis-secret"));
    command.arg("--grants").arg(bed.at("grants"));
    if address == ANY_PORT {
        command.arg("--secret-file").arg(bed.at("node-secret"));
    }
    command.stderr(File::create(bed.at("log")).unwrap());
    let (process, ready) = serve(command);
    let address = ready["address"].as_str().unwrap().into();
    (Node { process, address }, ready)
}

const AS_REPORTING: &str = "AUTH reporting opens-one-database\r\n";

/// Over shared memory alone, and where the same grants are those of a network.
#[test]
fn grants_are_users_of_redis_clients_and_change_as_their_file_does() {
    for address in [fresh_address(), ANY_PORT.into()] {
        let bed = secrets();
        let (node, ready) = serve_users(&bed, &address);
        let redis = ready["redis"].as_str().unwrap();
        let as_reporting = |lines: &str| ask(redis, &format!("{AS_REPORTING}{lines}QUIT\r\n"));
        let set = ask(
            redis,
            "AUTH opens-all-databases\r\nSET sky blue\r\nQUIT\r\n",
        );
        assert_eq!(set, "+OK\r\n+OK\r\n+OK\r\n");
        let denied =
            |action: &str| format!("-NOPERM User reporting has no permissions to {action}\r\n");
        let told = as_reporting("ACL WHOAMI\r\nGET sky\r\nSET sky red\r\nSELECT 1\r\n");
        let expected = [
            "+OK\r\n$9\r\nreporting\r\n$4\r\nblue\r\n",
            &denied("run the 'set' command"),
            &denied("access database 1"),
            "+OK\r\n",
        ];
        assert_eq!(told, expected.concat());
        for wrong in [
            "AUTH reporting opens-all-databases",
            "AUTH nobody opens-one-database",
        ] {
            let told = ask(redis, &format!("{wrong}\r\nQUIT\r\n"));
            assert!(told.starts_with("-WRONGPASS"), "{told}");
        }
        wait_for(&bed.at("log"), 1, "a wrong secret, number 2");

        // The file says something else now, and then something wrong, which changes nothing.
        bed.write("grants", GRANTS.replace("\"read\"", "\"all\"").as_bytes());
        node.hang_up();
        let writes = || as_reporting("SET sky red\r\n") == "+OK\r\n+OK\r\n+OK\r\n";
        wait_until(writes, || as_reporting("SET sky red\r\n"));
        bed.write("grants", GRANTS.replace("\"read\"", "\"some\"").as_bytes());
        node.hang_up();
        wait_for(&bed.at("log"), 1, "stay as they were");
        assert!(writes());
        // Whoever is its client when it is revoked is so no more.
        let mut stream = TcpStream::connect(redis.strip_prefix("redis://").unwrap()).unwrap();
        stream.write_all(AS_REPORTING.as_bytes()).unwrap();
        stream.read_exact(&mut [0; 5]).unwrap();
        bed.write("grants", b"");
        node.hang_up();
        wait_until(
            || as_reporting("").starts_with("-WRONGPASS"),
            || as_reporting(""),
        );
        stream.write_all(b"GET sky\r\n").unwrap();
        let mut told = String::new();
        stream.read_to_string(&mut told).unwrap();
        assert_eq!(told, "-NOAUTH Authentication required.\r\n");
    }
}

#[test]
fn the_secret_of_redis_clients_is_read_again_on_sighup() {
    let bed = secrets();
    let (node, ready) = serve_users(&bed, &fresh_address());
    let redis = ready["redis"].as_str().unwrap();
    let admits =
        |secret: &str| ask(redis, &format!("AUTH {secret}\r\nQUIT\r\n")) == "+OK\r\n+OK\r\n";
    // The next beside the one before; then alone.
    bed.write(
        "redis-secret",
        b"opens-all-from-now-on\nopens-all-databases\n",
    );
    node.hang_up();
    wait_for(&bed.at("log"), 1, "the secret of Redis clients is another");
    assert!(admits("opens-all-from-now-on") && admits("opens-all-databases"));
    bed.write("redis-secret", b"opens-all-from-now-on\n");
    node.hang_up();
    wait_for(&bed.at("log"), 2, "the secret of Redis clients is another");
    assert!(admits("opens-all-from-now-on") && !admits("opens-all-databases"));
    // What is wrong with the file changes nothing, nor does what a grant has for its own.
    for (times, wrong) in [&b"short"[..], b"opens-one-database"].iter().enumerate() {
        bed.write("redis-secret", wrong);
        node.hang_up();
        let said = "all users of Redis clients stay as they were";
        wait_for(&bed.at("log"), times + 1, said);
    }
    assert!(admits("opens-all-from-now-on") && !admits("opens-one-database"));
}

#[test]
fn grants_of_redis_clients_limit_nobody_who_has_a_mightier_secret() {
    let bed = secrets();
    let refused = |more: &[&str]| {
        let mut command = farslot(["serve", "shm://of-no-use", "--memory", "64MiB"]);
        command.args(["--while-stdin", "--redis", "127.0.0.1:0", "--grants"]);
        command.arg(bed.at("grants"));
        for name in more {
            match name.strip_prefix('@') {
                Some(name) => command.arg(bed.at(name)),
                None => command.arg(name),
            };
        }
        command.output().unwrap()
    };
    assert_fails(&refused(&[]), 2, &["--grants", "--redis-secret-file"]);
    let same = ["--redis-secret-file", "@reporting-secret"];
    assert_fails(
        &refused(&same),
        1,
        &["\"reporting\"", "--redis-secret-file"],
    );
    bed.write("grants", GRANTS.replace("\"read\"", "\"some\"").as_bytes());
    let mistaken = ["--redis-secret-file", "@redis-secret"];
    assert_fails(&refused(&mistaken), 1, &["grants", "some"]);
}

#[test]
fn slow_requests_are_told_of_from_a_time_on() {
    for (slower_than, told) in [("0us", "*1\r\n*6\r\n"), ("1d", "*0\r\n")] {
        let mut command = farslot(["serve", &fresh_address(), "--redis", "127.0.0.1:0"]);
        command.args([
            "--redis-slower-than",
            slower_than,
            "--metrics",
            "127.0.0.1:0",
        ]);
        let (process, ready) = serve(command);
        let address = ready["address"].as_str().unwrap().into();
        let node = Node { process, address };
        let redis = ready["redis"].as_str().unwrap();
        let set = ask(redis, "SET sky blue\r\nQUIT\r\n");
        assert_eq!(set, "+OK\r\n+OK\r\n");
        let replies = ask(redis, "SLOWLOG GET 1\r\nQUIT\r\n");
        assert!(replies.starts_with(told), "{replies}");
        let page = ready["metrics"].as_str().unwrap();
        let page = page.strip_prefix("http://").unwrap();
        let page = page.strip_suffix("/metrics").unwrap();
        let slowlog = node.json(["slowlog", page]);
        let slow = slowlog["slow"].as_array().unwrap();
        assert_eq!(slow.is_empty(), told == "*0\r\n", "{slowlog}");
        if let Some(last) = slow.first() {
            assert_eq!(
                (&last["operation"], &last["at"]),
                (&"slowlog".into(), &page.into())
            );
            let shown = String::from_utf8(node.ok(["slowlog", page])).unwrap();
            assert!(
                shown.contains("slowlog") && !shown.contains("blue"),
                "{shown}"
            );
        }
        assert_fails(&node.run(["slowlog", "127.0.0.1:1"]), 1, &["127.0.0.1:1"]);
    }
}
