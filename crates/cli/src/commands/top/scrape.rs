//! What a node's metrics say of its rates.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

/// How long a node may take.
const PATIENCE: Duration = Duration::from_secs(1);
/// The most bytes of its metrics.
const LONGEST: u64 = 4 << 20;

/// Totals since the node started, over all of its addresses.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct Scrape {
    pub(super) connections: f64,
    pub(super) verbs: f64,
    pub(super) bytes: f64,
}

/// Asks a node for its metrics.
pub(super) fn scrape(address: &str) -> io::Result<Scrape> {
    let to = address.to_socket_addrs()?.next();
    let to = to.ok_or_else(|| io::Error::other("the name has no address"))?;
    let mut stream = TcpStream::connect_timeout(&to, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(format!("GET /metrics HTTP/1.0\r\nHost: {to}\r\n\r\n").as_bytes())?;
    let mut text = String::new();
    stream.take(LONGEST).read_to_string(&mut text)?;
    match text.split_once("\r\n\r\n") {
        Some((head, body)) if head.split(' ').nth(1) == Some("200") => Ok(totals(body)),
        _ => Err(io::Error::other("it serves no metrics")),
    }
}

fn totals(text: &str) -> Scrape {
    let sum = |name: &str| {
        let values = text.lines().filter_map(|line| {
            let rest = line.strip_prefix(name)?;
            let is_of_it = rest.starts_with(['{', ' ']);
            let value = rest.rsplit_once(' ')?.1.parse::<f64>().ok();
            value.filter(|_| is_of_it)
        });
        values.sum()
    };
    Scrape {
        connections: sum("farslot_connections"),
        verbs: sum("farslot_verbs_total"),
        bytes: sum("farslot_bytes_total"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_are_those_of_the_names_alone() {
        let text = "# HELP farslot_connections x\n\
            farslot_connections{address=\"a b\"} 2\n\
            farslot_connections{address=\"c\"} 3\n\
            farslot_connections_total{address=\"a\"} 100\n\
            farslot_verbs_total 7\n\
            farslot_bytes_total{x=\"}\"} nonsense\n";
        let expected = Scrape {
            connections: 5.0,
            verbs: 7.0,
            bytes: 0.0,
        };
        assert_eq!(totals(text), expected);
    }
}
