//! Options as text: `NAME=VALUE`, with spaces or line breaks between them.

use crate::error::Failure;
use bytesize::ByteSize;
use farslot::admission::{Fingerprint, Secret, TlsClient, Trust};
use farslot::{Access, Cache, Expiry, HandleOptions, OpenOptions, Rights, StoreError};
use std::fmt::Display;
use std::io::Read;
use std::str::FromStr;
use std::time::Duration;

/// Files longer than this are no secrets.
const LONGEST_SECRET: u64 = 4096;
/// And longer than this no certificates and keys.
const LONGEST_PEM: u64 = 1 << 20;
/// Threads of a table at most.
const MOST_WORKERS: usize = 1024;

/// The options of a text, which may be null. A value with spaces stands between quotes, single or
/// double ones. No message says a value that may be a secret.
pub(crate) fn pairs(text: Option<&str>) -> Result<Vec<(&str, &str)>, Failure> {
    let mut rest = text.unwrap_or_default().trim_start();
    let mut pairs: Vec<(&str, &str)> = Vec::new();
    while !rest.is_empty() {
        let number = pairs.len() + 1;
        let bad = |what: &str| Failure::bad(format!("option {number} of the text {what}"));
        let is_name = |name: &&str| !name.is_empty() && !name.contains(char::is_whitespace);
        let given = rest.split_once('=').filter(|(name, _)| is_name(name));
        let (name, behind) = given.ok_or_else(|| bad("is not NAME=VALUE"))?;
        let quote = behind
            .chars()
            .next()
            .filter(|first| matches!(first, '\'' | '"'));
        let (value, after) = match quote {
            Some(quote) => {
                let ended = behind[1..].split_once(quote);
                ended.ok_or_else(|| bad("has a quote that does not end"))?
            }
            None => behind.split_at(behind.find(char::is_whitespace).unwrap_or(behind.len())),
        };
        rest = after.trim_start();
        if rest.len() == after.len() && !rest.is_empty() {
            return Err(bad("goes on behind its quotes"));
        }
        if pairs.iter().any(|(other, _)| *other == name) {
            return Err(Failure::bad(format!("the option {name} is given twice")));
        }
        pairs.push((name, value));
    }
    Ok(pairs)
}

fn bad(name: &str, value: &str, limit: impl Display) -> Failure {
    Failure::bad(format!("{name} = {value:?} is not possible: {limit}"))
}

fn unknown(name: &str, known: &str) -> Failure {
    Failure::bad(format!("there is no option {name:?}; known are {known}"))
}

/// What a value is that can be parsed.
fn parsed<T: FromStr>(name: &str, value: &str, limit: &str) -> Result<T, Failure> {
    value.parse().map_err(|_| bad(name, value, limit))
}

fn size(name: &str, value: &str) -> Result<u64, Failure> {
    Ok(parsed::<ByteSize>(name, value, "a size, such as 64MiB")?.as_u64())
}

fn seconds(name: &str, value: &str) -> Result<Duration, Failure> {
    let limit = || format!("seconds, from 0 to {}", Expiry::LONGEST.as_secs());
    let span = value
        .parse()
        .ok()
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let span = span.filter(|span| *span <= Expiry::LONGEST);
    span.ok_or_else(|| bad(name, value, limit()))
}

/// The content of a file of at most so many bytes, also where its length is not known beforehand.
fn content(name: &str, path: &str, most: u64) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    let read =
        std::fs::File::open(path).and_then(|file| file.take(most + 1).read_to_end(&mut bytes));
    read.map_err(|error| bad(name, path, error))?;
    match bytes.len() as u64 <= most {
        true => Ok(bytes),
        false => Err(bad(
            name,
            path,
            format!("such a file has at most {most} bytes"),
        )),
    }
}

fn secret(bytes: impl AsRef<[u8]>) -> Result<Secret, Failure> {
    Secret::new(bytes).map_err(|error| StoreError::from(error).into())
}

/// How a store is opened, and the bytes of one in this process, if that is said.
pub(crate) fn opening(text: Option<&str>) -> Result<(OpenOptions, Option<u64>), Failure> {
    const KNOWN: &str = "memory, secret, secret_file, grant, read_only, access, cache, stale_for, \
                         client_memory, connect_timeout, timeout, tls_ca, tls_pin, tls_cert, \
                         tls_key";
    let mut open = OpenOptions::default();
    let (mut memory, mut cache, mut stale_for) = (None, None, None);
    let (mut authority, mut certificate, mut key) = (None, None, None);
    let mut pins: Vec<Fingerprint> = Vec::new();
    for (name, value) in pairs(text)? {
        match name {
            "memory" => memory = Some(size(name, value)?),
            "secret" | "secret_file" if open.secret.is_some() => {
                return Err(Failure::bad("pass secret or secret_file, not both"));
            }
            "secret" => open.secret = Some(secret(value)?),
            "secret_file" => {
                let bytes = content(name, value, LONGEST_SECRET)?;
                // A second line is the secret before, which nodes take as well.
                let line = bytes
                    .split(|byte| *byte == b'\n')
                    .next()
                    .unwrap_or_default();
                open.secret = Some(secret(line.strip_suffix(b"\r").unwrap_or(line))?);
            }
            "grant" => open.grant = value.into(),
            "read_only" => {
                if parsed(name, value, "true, false")? {
                    open.rights = Rights::READ;
                }
            }
            "access" => {
                let named = Access::ALL
                    .into_iter()
                    .find(|access| access.name() == value);
                let all = Access::ALL.map(Access::name).join(", ");
                open.access = named.ok_or_else(|| bad(name, value, all))?;
            }
            "cache" => cache = Some(Cache::new(size(name, value)?)),
            "stale_for" => stale_for = Some(seconds(name, value)?),
            "client_memory" => open.client_memory = Some(size(name, value)?),
            "connect_timeout" => open.connect_timeout = seconds(name, value)?,
            "timeout" => {
                let span = seconds(name, value)?.as_nanos();
                open.limits.verb_timeout = span.try_into().unwrap_or(u64::MAX);
            }
            "tls_ca" => authority = Some(content(name, value, LONGEST_PEM)?),
            "tls_cert" => certificate = Some(content(name, value, LONGEST_PEM)?),
            "tls_key" => key = Some(content(name, value, LONGEST_PEM)?),
            "tls_pin" => {
                for pin in value.split(',') {
                    let parsed = pin.trim().parse();
                    pins.push(parsed.map_err(|error| bad(name, pin, error))?);
                }
            }
            _ => return Err(unknown(name, KNOWN)),
        }
    }
    open.cache = match (cache, stale_for) {
        (None, Some(_)) => return Err(Failure::bad("stale_for needs a cache")),
        (cache, stale_for) => cache.map(|cache| Cache { stale_for, ..cache }),
    };
    let trust = match (authority, pins.is_empty()) {
        (Some(_), false) => return Err(Failure::bad("pass tls_ca or tls_pin, not both")),
        (Some(authority), true) => Some(Trust::Authorities(authority)),
        (None, false) => Some(Trust::Pinned(pins)),
        (None, true) => None,
    };
    let identity = match (&certificate, &key) {
        (Some(certificate), Some(key)) => Some((&certificate[..], &key[..])),
        (None, None) => None,
        _ => return Err(Failure::bad("tls_cert and tls_key belong together")),
    };
    open.tls = match (trust, identity) {
        (Some(trust), identity) => {
            Some(TlsClient::new(&trust, identity).map_err(StoreError::from)?)
        }
        (None, None) => None,
        (None, Some(_)) => return Err(Failure::bad("tls_cert needs tls_ca or tls_pin")),
    };
    Ok((open, memory))
}

/// How a table is opened.
pub(crate) fn table_opening(text: Option<&str>) -> Result<HandleOptions, Failure> {
    let mut options = HandleOptions::default();
    for (name, value) in pairs(text)? {
        match name {
            "workers" => {
                let limit = format!("a number from 1 to {MOST_WORKERS}");
                let workers = parsed(name, value, &limit)?;
                options.workers = Some(workers)
                    .filter(|workers| (1..=MOST_WORKERS).contains(workers))
                    .ok_or_else(|| bad(name, value, limit))?;
            }
            _ => return Err(unknown(name, "workers")),
        }
    }
    Ok(options)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_options() {
        let text = " a=1\n b='two words'  c=\"it's\" d= ";
        let expected = [("a", "1"), ("b", "two words"), ("c", "it's"), ("d", "")];
        assert_eq!(pairs(Some(text)).unwrap(), expected);
        assert!(pairs(None).unwrap().is_empty() && pairs(Some("\n")).unwrap().is_empty());
        for (text, says) in [
            ("hunter2", "option 1 of the text is not NAME=VALUE"),
            ("a=1 hunter2 b=2", "option 2 of the text is not NAME=VALUE"),
            ("=1", "is not NAME=VALUE"),
            ("a='hunter2", "a quote that does not end"),
            ("a='hunter'2", "goes on behind its quotes"),
            ("a=1 a=2", "the option a is given twice"),
        ] {
            let said = format!("{:?}", pairs(Some(text)).unwrap_err());
            assert!(
                said.contains(says) && !said.contains("hunter"),
                "{text}: {said}"
            );
        }
    }

    #[test]
    fn stores_open_as_they_are_told() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("a file");
        std::fs::write(&file, "a secret of many bytes\nthe one before it\n").unwrap();
        let text = format!(
            "memory=1MiB secret_file='{}' grant=reports read_only=true access=calls cache=1MiB \
             stale_for=0.5 client_memory=1GiB connect_timeout=2 timeout=1.5",
            file.display()
        );
        let (open, memory) = opening(Some(&text)).unwrap();
        let expected = OpenOptions {
            secret: Some(Secret::new("a secret of many bytes").unwrap()),
            grant: "reports".into(),
            rights: Rights::READ,
            access: Access::Calls,
            cache: Some(Cache::new(1 << 20).stale_for(Duration::from_millis(500))),
            client_memory: Some(1 << 30),
            connect_timeout: Duration::from_secs(2),
            limits: farslot::Limits {
                verb_timeout: 1_500_000_000,
                ..farslot::Limits::default()
            },
            ..OpenOptions::default()
        };
        assert_eq!((open, memory), (expected, Some(1 << 20)));
        let pin = "00".repeat(32);
        let (open, _) = opening(Some(&format!("tls_pin={pin},{pin}"))).unwrap();
        assert!(open.tls.is_some());
        for (text, says) in [
            ("colour=red", "known are memory"),
            ("secret=hunter2", "at least 16"),
            (
                "secret='sixteen bytes ok' secret_file=/dev/zero",
                "not both",
            ),
            ("secret_file=/dev/zero", "at most 4096 bytes"),
            ("tls_ca=/nowhere", "No such file"),
            ("tls_ca=/dev/zero", "at most 1048576 bytes"),
            ("tls_pin=abc", "64 hexadecimal digits"),
            ("read_only=yes", "true, false"),
            ("access=fast", "reads, calls, auto"),
            ("cache=large", "a size"),
            ("timeout=-1", "seconds, from 0"),
            ("timeout=nan", "seconds, from 0"),
            ("stale_for=1", "needs a cache"),
        ] {
            let said = format!("{:?}", opening(Some(text)).unwrap_err());
            assert!(
                said.contains(says) && !said.contains("hunter"),
                "{text}: {said}"
            );
        }
    }

    #[test]
    fn tables_have_at_least_one_worker() {
        assert_eq!(table_opening(Some("workers=4")).unwrap().workers, 4);
        for text in ["workers=0", "workers=1025", "workers=-1", "capacity=1"] {
            assert!(table_opening(Some(text)).is_err(), "{text}");
        }
    }
}
