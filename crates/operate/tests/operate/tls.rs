//! The page under TLS: for who speaks it, and beside who does not.

use crate::authority::Authority;
use crate::common::{Answer, answer, connect};
use crate::tls_stream;
use farslot::admission::TlsServer;
use farslot::metrics::ClientMetrics;
use farslot_operate::{Page, PageOptions};
use std::io::{self, Read, Write};

fn certified(authority: &Authority) -> TlsServer {
    let own = authority.issue(&["127.0.0.1"]);
    TlsServer::new(own.pem(), own.key(), None).unwrap()
}

/// Asks for a path; the certificate is of this authority.
fn get(page: &Page, authority: &Authority, path: &str) -> io::Result<Answer> {
    let mut stream = tls_stream::connect(page.address(), authority.pem())?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {}\r\n\r\n", page.address());
    stream.write_all(request.as_bytes())?;
    // That TLS has not ended would be an error.
    Ok(answer(&mut stream))
}

#[test]
fn a_page_is_served_under_tls_and_to_nobody_without() {
    let authority = Authority::new();
    let options = PageOptions {
        tls: Some(certified(&authority)),
        ..PageOptions::at("127.0.0.1:0")
    };
    let page = Page::start(ClientMetrics::default(), &options).unwrap();
    let ask = |path: &str| get(&page, &authority, path).unwrap();
    assert_eq!(ask("/healthz").body, "ok\n");
    assert!(ask("/").body.contains("<title>Farslot</title>"));
    // More than there are places: plain text, garbage, and handshakes that do not go on.
    let mut others = Vec::new();
    for number in 0..150 {
        let mut stream = connect(page.address());
        let sent: &[u8] = match number % 3 {
            0 => b"GET /healthz HTTP/1.1\r\n\r\n",
            1 => &[0xff; 100],
            _ => &[22, 3, 1, 2, 0, 1, 0],
        };
        // The oldest have been closed by now.
        let _ = stream.write_all(sent);
        others.push(stream);
        if number % 50 == 0 {
            assert_eq!(ask("/metrics").status, 200);
        }
    }
    assert_eq!(ask("/readyz").status, 200);
    // All are closed, those that wait after a while, and none was answered but by an alert.
    for stream in &mut others {
        let mut told = Vec::new();
        let ended = stream.read_to_end(&mut told);
        let would_wait = ended.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock);
        assert!(!would_wait, "it is not closed");
        assert!(told.is_empty() || told[0] == 21, "{told:?}");
    }
    let other = Authority::new();
    assert!(get(&page, &other, "/healthz").is_err());
    page.change_tls(&certified(&other));
    assert_eq!(get(&page, &other, "/healthz").unwrap().status, 200);
    assert!(get(&page, &authority, "/healthz").is_err());
}
