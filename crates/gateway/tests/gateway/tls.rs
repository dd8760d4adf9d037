//! The gateway under TLS: for who speaks it, and beside who does not.

use crate::authority::Authority;
use crate::client::{Client, Reply, gateway_with, request};
use farslot::Store;
use farslot::admission::{Secret, TlsServer};
use farslot_gateway::{Gateway, GatewayOptions};
use farslot_operate::{Source, text};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

fn certified(authority: &Authority) -> TlsServer {
    let own = authority.issue(&["127.0.0.1"]);
    TlsServer::new(own.pem(), own.key(), None).unwrap()
}

/// A gateway under TLS, and the authority of its certificate.
fn under_tls(change: impl FnOnce(&mut GatewayOptions)) -> (Store, Gateway, Authority) {
    let authority = Authority::new();
    let (store, gateway) = gateway_with(|options| {
        options.tls = Some(certified(&authority));
        change(options);
    });
    (store, gateway, authority)
}

/// A connection that does not shake hands.
fn bare(gateway: &Gateway) -> TcpStream {
    let stream = TcpStream::connect(gateway.address()).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    stream
}

/// What comes until the connection ends, whether in order or not.
fn rest(stream: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    let ended = stream.read_to_end(&mut bytes);
    let would_wait = ended.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock);
    assert!(!would_wait, "it is not closed");
    bytes
}

/// An alert of TLS, or nothing.
fn assert_no_reply(told: &[u8]) {
    assert!(told.is_empty() || told[0] == 21, "{told:?}");
}

#[test]
fn commands_are_served_under_tls() {
    let secret = "sixteen bytes at least";
    let (_store, gateway, authority) =
        under_tls(|options| options.secrets = vec![Secret::new(secret).unwrap()]);
    let connect = || Client::under_tls(gateway.address(), authority.pem()).unwrap();
    let mut client = connect();
    client.expect(&[("GET a", "-NOAUTH Authentication required.")]);
    assert_eq!(client.run(&["AUTH", secret]).shown(), "OK");
    client.expect(&[("SET a 1", "OK"), ("INCR a", ":2")]);
    // What is long is another lane's, which goes on with the same session.
    let value = vec![b'v'; 1 << 20];
    assert_eq!(client.run(&[b"SET", &b"long"[..], &value]).shown(), "OK");
    client.send(&request(&["GET", "long"]).repeat(8)).unwrap();
    for _ in 0..8 {
        assert_eq!(client.reply().unwrap(), Reply::Bulk(value.clone()));
    }
    client.expect(&[("GET a", "\"2\"")]);
    // Whoever sends no more gets all replies, and then TLS's own end.
    client.send(&request(&["INCR", "a"]).repeat(100)).unwrap();
    client.finish();
    for number in 3..103 {
        assert_eq!(client.reply().unwrap(), Reply::Integer(number));
    }
    let end = client.reply().unwrap_err();
    assert_eq!(end.to_string(), "unexpected end of file");
    // A thread's clients at the same time.
    let mut all: Vec<Client> = (0..20).map(|_| connect()).collect();
    for client in &mut all {
        assert_eq!(client.run(&["AUTH", secret]).shown(), "OK");
    }
    for client in &mut all {
        client.send(&request(&["INCR", "a"]).repeat(10)).unwrap();
    }
    let last = all.iter_mut().flat_map(|client| {
        let replies = (0..10).map(|_| client.reply().unwrap());
        replies.collect::<Vec<_>>()
    });
    let highest = last.map(|reply| match reply {
        Reply::Integer(number) => number,
        other => panic!("{other:?}"),
    });
    assert_eq!(highest.max(), Some(302));
}

/// Those who do not speak TLS, or do not go on with the handshake, are closed; and they keep nobody
/// out, however many they are.
#[test]
fn who_breaks_tls_costs_nobody_else_anything() {
    let (_store, gateway, authority) = under_tls(|options| options.connections = 8);
    let mut admitted = Vec::new();
    for number in 0..7 {
        // None of them has sent a whole ClientHello.
        let waiting: Vec<TcpStream> = (0..20)
            .map(|_| {
                let mut stream = bare(&gateway);
                let _ = stream.write_all(&[22, 3, 1, 2, 0, 1, 0]);
                stream
            })
            .collect();
        let mut client = Client::under_tls(gateway.address(), authority.pem()).unwrap();
        let set = ["SET", "a", &number.to_string()];
        assert_eq!(client.run(&set).shown(), "OK");
        admitted.push(client);
        drop(waiting);
    }
    let garbage = [0xff; 1 << 10];
    for sent in [&b"PING\r\n"[..], b"GET / HTTP/1.1\r\n\r\n", &garbage] {
        let mut stream = bare(&gateway);
        stream.write_all(sent).unwrap();
        assert_no_reply(&rest(&mut stream));
    }
    for client in &mut admitted {
        client.expect(&[("GET a", "\"6\"")]);
    }
    // One whose handshake was done, and who sends what is sealed by nobody.
    let mut client = admitted.pop().unwrap();
    client.send_bare(&[23, 3, 3, 0, 5, 1, 2, 3, 4, 5]).unwrap();
    assert!(client.reply().is_err());
    // What has broken is counted after its end is told.
    let since = Instant::now();
    let told = || text(&gateway.metrics().families());
    while !told().contains("farslot_redis_tls_broken_total 4\n") {
        assert!(since.elapsed() < Duration::from_secs(60), "{}", told());
        std::thread::sleep(Duration::from_millis(1));
    }
    // A handshake that does not come is waited for no longer than a secret is.
    let mut late = bare(&gateway);
    late.write_all(&[22, 3, 1]).unwrap();
    assert_no_reply(&rest(&mut late));
    for client in &mut admitted {
        client.expect(&[("PING", "PONG")]);
    }
}

/// A client that takes nothing is read no more, under TLS too, and gets all when it goes on.
#[test]
fn replies_that_nobody_takes_wait_under_tls() {
    let (_store, gateway, authority) = under_tls(|_| {});
    let connect = || Client::under_tls(gateway.address(), authority.pem()).unwrap();
    let mut deaf = connect();
    let value = vec![b'v'; 1 << 20];
    assert_eq!(deaf.run(&[b"SET", &b"k"[..], &value]).shown(), "OK");
    deaf.send(&request(&["GET", "k"]).repeat(32)).unwrap();
    let mut other = connect();
    for number in 0..100 {
        let set = ["SET", "a", &number.to_string()];
        assert_eq!(other.run(&set).shown(), "OK");
    }
    for _ in 0..32 {
        assert_eq!(deaf.reply().unwrap(), Reply::Bulk(value.clone()));
    }
}

#[test]
fn another_certificate_is_shown_to_those_who_come_then() {
    let (_store, gateway, first) = under_tls(|_| {});
    let mut before = Client::under_tls(gateway.address(), first.pem()).unwrap();
    before.expect(&[("SET a 1", "OK")]);
    let second = Authority::new();
    gateway.change_tls(&certified(&second));
    assert!(Client::under_tls(gateway.address(), first.pem()).is_err());
    let mut now = Client::under_tls(gateway.address(), second.pem()).unwrap();
    now.expect(&[("GET a", "\"1\"")]);
    before.expect(&[("INCR a", ":2")]);
}

/// Without TLS nothing changes: who speaks it there sends what is no request.
#[test]
fn tls_is_not_spoken_where_it_is_not_served() {
    let (_store, gateway) = gateway_with(|_| {});
    assert!(Client::under_tls(gateway.address(), Authority::new().pem()).is_err());
    gateway.change_tls(&certified(&Authority::new()));
    let mut stream = bare(&gateway);
    stream.write_all(b"PING\r\n").unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(rest(&mut stream), b"+PONG\r\n");
}

/// Those who send their ClientHello byte by byte, and without end, hold up nobody's handshake.
#[test]
fn handshakes_have_their_turns() {
    let (_store, gateway, authority) = under_tls(|_| {});
    let hello = [&[22, 3, 1, 64, 0, 1, 0, 255, 255][..], &[0; 16_380]].concat();
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !is_done.load(Relaxed) {
                    let mut stream = bare(&gateway);
                    stream.set_nodelay(true).unwrap();
                    // Until it is closed, or has no more to send.
                    for byte in hello.chunks(1) {
                        if is_done.load(Relaxed) || stream.write_all(byte).is_err() {
                            break;
                        }
                    }
                }
            });
        }
        let served = (0..100).all(|_| {
            let client = Client::under_tls(gateway.address(), authority.pem());
            client.is_ok_and(|mut client| client.run_if_open(&["PING"]))
        });
        is_done.store(true, Relaxed);
        assert!(served);
    });
}
