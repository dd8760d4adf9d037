//! Asks the page of a node or a program (`farslot serve --metrics`) for one of its paths.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

/// How long it may take.
const PATIENCE: Duration = Duration::from_secs(1);
/// The most bytes of an answer.
const LONGEST: u64 = 4 << 20;

/// What stands at a path, over HTTP without TLS.
///
/// # Errors
/// That nobody answers in time, or that there is no such path.
pub fn ask(address: &str, path: &str) -> io::Result<String> {
    let to = address.to_socket_addrs()?.next();
    let to = to.ok_or_else(|| io::Error::other("the name has no address"))?;
    let mut stream = TcpStream::connect_timeout(&to, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(format!("GET {path} HTTP/1.0\r\nHost: {to}\r\n\r\n").as_bytes())?;
    let mut text = String::new();
    stream.take(LONGEST).read_to_string(&mut text)?;
    match text.split_once("\r\n\r\n") {
        Some((head, body)) if head.split(' ').nth(1) == Some("200") => Ok(body.to_owned()),
        _ => Err(io::Error::other("it serves no metrics")),
    }
}
