//! Clients that send too slowly, too much, or nonsense, and many of them.

use crate::common::{answer, connect, get, send};
use farslot::metrics::ClientMetrics;
use farslot_operate::{Page, PageError, PageOptions};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

fn page() -> Page {
    Page::start(ClientMetrics::default(), &PageOptions::at("127.0.0.1:0")).unwrap()
}

#[test]
fn what_is_no_request_for_a_page_is_told_so_and_the_next_is_answered() {
    let page = page();
    let address = page.address();
    let header = format!("X: {}\r\n", "y".repeat(1_000));
    let long = format!("GET / HTTP/1.1\r\n{}\r\n", header.repeat(20));
    let many = format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(100));
    let body = format!(
        "POST / HTTP/1.1\r\nContent-Length: 100000\r\n\r\n{}",
        "z".repeat(100_000)
    );
    for (request, status) in [
        (&b"GET /nothing HTTP/1.1\r\n\r\n"[..], 404),
        (b"GET /metrics/../x HTTP/1.1\r\n\r\n", 404),
        (b"DELETE / HTTP/1.1\r\n\r\n", 405),
        (body.as_bytes(), 405),
        (b"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n", 421),
        (
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 hello\r\n\r\n",
            400,
        ),
        (b"GET\0/ HTTP/1.1\r\n\r\n", 400),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
        (long.as_bytes(), 431),
        (many.as_bytes(), 431),
        (&[b'a'; 100_000], 431),
        (b"GET /healthz HTTP/1.0\r\n\r\n", 200),
        (b"GET /healthz?x HTTP/1.1\r\nHost: localhost:1\r\n\r\n", 200),
    ] {
        let answered = send(address, request);
        let shown = String::from_utf8_lossy(&request[..request.len().min(80)]);
        assert_eq!(answered.status, status, "{shown}: {answered:?}");
        assert!(answered.head.contains("Connection: close"));
    }
    let head = send(address, b"HEAD / HTTP/1.1\r\n\r\n");
    assert_eq!((head.status, &*head.body), (200, ""));
    let whole = get(address, "/");
    assert!(
        head.head
            .contains(&format!("Content-Length: {}", whole.body.len()))
    );
    assert!(whole.head.contains("default-src 'none'"));
}

/// A request is answered however it is cut.
#[test]
fn a_request_may_come_byte_by_byte() {
    let page = page();
    let mut stream = connect(page.address());
    stream.set_nodelay(true).unwrap();
    for byte in b"GET /healthz HTTP/1.1\r\nHost: [::1]\r\n\r\n" {
        stream.write_all(&[*byte]).unwrap();
    }
    assert_eq!(answer(&mut stream).body, "ok\n");
}

/// More of them than there are places, each of which sends nothing, a part of a request, or takes
/// no answer.
#[test]
fn slow_clients_do_not_keep_others_out_and_are_gone_after_a_while() {
    let page = page();
    let address = page.address();
    let mut slow: Vec<TcpStream> = Vec::new();
    for number in 0..300 {
        let mut stream = connect(address);
        let sent: &[u8] = match number % 3 {
            0 => b"",
            1 => b"GET /metrics HTTP/1.1\r\nHost: 127",
            _ => b"GET / HTTP/1.1\r\n\r\n",
        };
        // The oldest have been closed by now.
        let _ = stream.write_all(sent);
        slow.push(stream);
        if number % 50 == 0 {
            assert_eq!(get(address, "/healthz").status, 200);
        }
    }
    assert_eq!(get(address, "/metrics").status, 200);
    // All are closed, though none has sent any more.
    let since = Instant::now();
    for stream in &mut slow {
        let mut taken = Vec::new();
        let _ = stream.read_to_end(&mut taken);
    }
    assert!(since.elapsed() < Duration::from_secs(60));
    assert_eq!(get(address, "/healthz").status, 200);
}

#[test]
fn clients_that_leave_amid_anything_harm_nobody() {
    let page = page();
    let address = page.address();
    for number in 0..200 {
        let mut stream = connect(address);
        let sent = b"GET / HTTP/1.1\r\n\r\n";
        let _ = stream.write_all(&sent[..number % (sent.len() + 1)]);
        if number % 2 == 0 {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
    assert_eq!(get(address, "/healthz").status, 200);
    drop(page);
    // A process that another test has just forked holds all files until it runs its program.
    let until = Instant::now() + Duration::from_secs(30);
    while TcpStream::connect(address).is_ok() {
        assert!(Instant::now() < until, "nothing listens any more");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn only_trusted_networks_are_served_beyond_loopback() {
    let start = |options: &PageOptions| Page::start(ClientMetrics::default(), options);
    let everywhere = PageOptions::at("0.0.0.0:0");
    assert!(matches!(
        start(&everywhere),
        Err(PageError::Insecure { .. })
    ));
    let trusting = PageOptions {
        trusted: vec!["10.0.0.0/8".parse().unwrap()],
        ..everywhere.clone()
    };
    let page = start(&trusting).unwrap();
    let address = ([127, 0, 0, 1], page.address().port()).into();
    assert_eq!(get(address, "/healthz").status, 200);
    let insecure = PageOptions {
        insecure: true,
        ..everywhere
    };
    assert!(start(&insecure).is_ok());
    let taken = PageOptions::at(&address.to_string());
    assert!(matches!(start(&taken), Err(PageError::Listen { .. })));
}
