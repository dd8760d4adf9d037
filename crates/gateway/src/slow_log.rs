//! Requests that have taken long, as SLOWLOG tells of them.

use crate::record::Bytes;
use crate::reply::Reply;
use farslot::metrics::RecentLog;
use farslot_operate::Slow;
use std::net::SocketAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The most arguments of one, as in Redis.
const ARGUMENTS: usize = 32;
/// The most bytes of an argument, as in Redis.
const ARGUMENT: usize = 128;
/// Bytes that one takes at the most beside its client's name, in a reply as well: what was left out
/// is told in a few words.
pub(crate) const LONGEST: usize = ARGUMENTS * (ARGUMENT + 64) + 256;

/// The last requests that have taken long.
#[derive(Debug)]
pub(crate) struct SlowRequestLog {
    slower_than: Duration,
    last: RecentLog<Entry>,
}

#[derive(Debug)]
struct Entry {
    number: i64,
    /// Since 1970.
    at: Duration,
    took: Duration,
    arguments: Vec<Vec<u8>>,
    peer: String,
    name: Vec<u8>,
}

impl SlowRequestLog {
    /// Of requests that take so long, or longer.
    pub(crate) fn new(slower_than: Duration) -> Self {
        Self {
            slower_than,
            last: RecentLog::default(),
        }
    }

    pub(crate) fn is_slow(&self, took: Duration) -> bool {
        took >= self.slower_than
    }

    /// Remembers a request of a client of this name, without its secrets.
    pub(crate) fn add(
        &self,
        took: Duration,
        arguments: &[&[u8]],
        peer: Option<SocketAddr>,
        name: &[u8],
    ) {
        let at = SystemTime::now().duration_since(UNIX_EPOCH);
        let arguments = shortened(arguments);
        self.last.add(|number| Entry {
            number: number as i64,
            at: at.unwrap_or_default(),
            took,
            arguments,
            peer: peer.map_or_else(String::new, |peer| peer.to_string()),
            name: name.to_vec(),
        });
    }

    /// The latest ones, as SLOWLOG GET tells of them.
    pub(crate) fn latest(&self, count: usize) -> Reply<'static> {
        let text = |bytes: &[u8]| Reply::Bulk(Bytes::copied(bytes));
        let mut entries = self.last.map(|entry| {
            let arguments = entry.arguments.iter().map(|argument| text(argument));
            Reply::Array(vec![
                Reply::Integer(entry.number),
                Reply::Integer(entry.at.as_secs() as i64),
                Reply::Integer(entry.took.as_micros() as i64),
                Reply::Array(arguments.collect()),
                Reply::text(&entry.peer),
                text(&entry.name),
            ])
        });
        entries.truncate(count);
        Reply::Array(entries)
    }

    /// The latest ones, for a page that anybody may read who reaches it: without their arguments.
    pub(crate) fn for_page(&self) -> Vec<Slow> {
        self.last.map(|entry| Slow {
            at: UNIX_EPOCH + entry.at,
            took: entry.took,
            operation: String::from_utf8_lossy(&entry.arguments[0]).to_lowercase(),
            table: String::new(),
            by: entry.peer.clone(),
        })
    }

    pub(crate) fn len(&self) -> usize {
        self.last.len()
    }

    /// Forgets all.
    pub(crate) fn reset(&self) {
        self.last.clear();
    }
}

/// As much of arguments as Redis shows, and nothing of a request with a secret but its name.
fn shortened(arguments: &[&[u8]]) -> Vec<Vec<u8>> {
    let name = arguments.first().copied().unwrap_or_default();
    let has_secret = [&b"auth"[..], b"hello"]
        .iter()
        .any(|command| name.eq_ignore_ascii_case(command));
    let shown = match arguments.len() {
        few if few <= ARGUMENTS => few,
        _ => ARGUMENTS - 1,
    };
    let mut all: Vec<Vec<u8>> = Vec::with_capacity(shown + 1);
    for (place, argument) in arguments[..shown].iter().enumerate() {
        let left_out = argument.len().saturating_sub(ARGUMENT);
        all.push(match left_out {
            _ if has_secret && place > 0 => b"(redacted)".to_vec(),
            0 => argument.to_vec(),
            more => {
                let cut_mark = format!("... ({more} more bytes)");
                [&argument[..ARGUMENT], cut_mark.as_bytes()].concat()
            }
        });
    }
    if shown < arguments.len() {
        let more = arguments.len() - shown;
        all.push(format!("... ({more} more arguments)").into_bytes());
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_shortened_as_by_redis() {
        let long = [b'v'; ARGUMENT + 7];
        let kept = shortened(&[b"SET", &long[..ARGUMENT], &long]);
        assert_eq!(kept[1], &long[..ARGUMENT]);
        let cut = [&long[..ARGUMENT], b"... (7 more bytes)"].concat();
        assert_eq!(kept[2], cut);
        assert_eq!(shortened(&[&b"k"[..]; ARGUMENTS]).len(), ARGUMENTS);
        let many = shortened(&[&b"k"[..]; ARGUMENTS + 1]);
        assert_eq!(many.len(), ARGUMENTS);
        assert_eq!(many[ARGUMENTS - 1], b"... (2 more arguments)");
    }

    #[test]
    fn no_secret_is_remembered() {
        for request in [
            &[&b"Auth"[..], b"secret"][..],
            &[b"AUTH", b"user", b"secret"],
            &[b"hello", b"3", b"AUTH", b"user", b"secret"],
        ] {
            let kept = shortened(request);
            assert_eq!(kept[0], request[0]);
            assert!(kept[1..].iter().all(|argument| argument == b"(redacted)"));
        }
    }
}
