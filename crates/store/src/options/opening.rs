//! How a store is opened, by names, for languages that have no builder.

use super::text::Pairs;
use crate::cache::Cache;
use crate::error::bad_option;
use crate::expiry::Expiry;
use crate::open_options::{Access, OpenOptions};
use crate::{Result, StoreError};
use farslot_fabric::Rights;
use farslot_fabric::tcp::{Fingerprint, Secret, TlsClient, Trust};
use serde::Deserialize;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Files longer than this are no secrets.
const LONGEST_SECRET: u64 = 4096;
/// And longer than this no certificates and keys.
const LONGEST_PEM: u64 = 1 << 20;

/// What is asked for. Spans are in seconds.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct OpenSpec {
    memory: Option<u64>,
    secret: Option<String>,
    secret_file: Option<PathBuf>,
    grant: Option<String>,
    read_only: bool,
    access: Access,
    cache: Option<u64>,
    stale_for: Option<f64>,
    client_memory: Option<u64>,
    connect_timeout: Option<f64>,
    timeout: Option<f64>,
    tls_ca: Option<PathBuf>,
    tls_pin: Option<String>,
    tls_cert: Option<PathBuf>,
    tls_key: Option<PathBuf>,
}

impl OpenOptions {
    /// The options that pairs of names and texts ask for: `memory`, `secret` or `secret_file`,
    /// `grant`, `read_only`, `access`, `cache` and `stale_for`, `client_memory`, `connect_timeout`,
    /// `timeout`, `tls_ca` or `tls_pin` (several with commas between them), `tls_cert` and
    /// `tls_key`. Sizes may have a unit (`64MiB`), spans are in seconds, and certificates and keys
    /// are files in PEM. The first line of a file of secrets counts.
    ///
    /// # Errors
    /// [`BadOption`](farslot_index::IndexError::BadOption) for a name that is unknown or given
    /// twice, for a value that the option cannot have, and for options that do not go together;
    /// what [`Secret::new`] and [`TlsClient::new`] say. No message has a part of a secret.
    ///
    /// ```
    /// # use farslot::{Access, OpenOptions};
    /// # fn main() -> Result<(), farslot::StoreError> {
    /// let options = OpenOptions::named([("access", "calls"), ("cache", "64MiB")])?;
    /// assert_eq!(options.access, Access::Calls);
    /// assert!(OpenOptions::named([("stale_for", "0.5")]).is_err(), "only a cache is stale");
    /// # Ok(())
    /// # }
    /// ```
    pub fn named<'o>(pairs: impl IntoIterator<Item = (&'o str, &'o str)>) -> Result<Self> {
        let spec = OpenSpec::deserialize(Pairs(pairs.into_iter()))?;
        let default = Self::default();
        let mut limits = default.limits;
        if let Some(span) = seconds("timeout", spec.timeout)? {
            limits.verb_timeout = span.as_nanos().try_into().unwrap_or(u64::MAX);
        }
        let connect_timeout = seconds("connect_timeout", spec.connect_timeout)?;
        Ok(Self {
            memory: spec.memory,
            secret: spec.secret()?,
            tls: spec.tls()?,
            cache: spec.cache()?,
            rights: match spec.read_only {
                true => Rights::READ,
                false => default.rights,
            },
            grant: spec.grant.unwrap_or(default.grant),
            access: spec.access,
            client_memory: spec.client_memory,
            connect_timeout: connect_timeout.unwrap_or(default.connect_timeout),
            limits,
            ..default
        })
    }
}

impl OpenSpec {
    fn secret(&self) -> Result<Option<Secret>> {
        let secret = match (&self.secret, &self.secret_file) {
            (None, None) => return Ok(None),
            (Some(secret), None) => Secret::new(secret),
            (None, Some(path)) => {
                let bytes = content("secret_file", path, LONGEST_SECRET)?;
                // A second line is the secret before, which nodes take as well.
                let mut lines = bytes.split(|byte| *byte == b'\n');
                let line = lines.next().unwrap_or_default();
                Secret::new(line.strip_suffix(b"\r").unwrap_or(line))
            }
            (Some(_), Some(path)) => {
                return Err(bad_option("secret_file", path.display(), "not with secret"));
            }
        };
        Ok(Some(secret?))
    }

    fn cache(&self) -> Result<Option<Cache>> {
        let stale_for = seconds("stale_for", self.stale_for)?;
        match (self.cache, stale_for) {
            (None, Some(span)) => {
                let span = span.as_secs_f64();
                Err(bad_option("stale_for", span, "it needs a cache"))
            }
            (None, None) => Ok(None),
            (Some(bytes), stale_for) => Ok(Some(Cache {
                stale_for,
                ..Cache::new(bytes)
            })),
        }
    }

    fn tls(&self) -> Result<Option<TlsClient>> {
        let pem = |option, path: &Path| content(option, path, LONGEST_PEM);
        let trust = match (&self.tls_ca, &self.tls_pin) {
            (Some(path), None) => Some(Trust::Authorities(pem("tls_ca", path)?)),
            (None, Some(pins)) => Some(Trust::Pinned(fingerprints(pins)?)),
            (None, None) => None,
            (Some(path), Some(_)) => {
                return Err(bad_option("tls_ca", path.display(), "not with tls_pin"));
            }
        };
        let identity = match (&self.tls_cert, &self.tls_key) {
            (Some(certificate), Some(key)) => {
                Some((pem("tls_cert", certificate)?, pem("tls_key", key)?))
            }
            (None, None) => None,
            (Some(path), None) => {
                return Err(bad_option("tls_cert", path.display(), "it needs tls_key"));
            }
            (None, Some(path)) => {
                return Err(bad_option("tls_key", path.display(), "it needs tls_cert"));
            }
        };
        let identity = identity.as_ref().map(|(chain, key)| (&**chain, &**key));
        match (trust, &self.tls_cert) {
            (Some(trust), _) => Ok(Some(TlsClient::new(&trust, identity)?)),
            (None, Some(path)) => {
                let limit = "it needs tls_ca or tls_pin: nothing says which nodes are trusted";
                Err(bad_option("tls_cert", path.display(), limit))
            }
            (None, None) => Ok(None),
        }
    }
}

fn fingerprints(pins: &str) -> Result<Vec<Fingerprint>> {
    let pins = pins.split(',').map(str::trim);
    let pins = pins.map(|pin| {
        let parsed = pin.parse::<Fingerprint>();
        parsed.map_err(|error| bad_option("tls_pin", pin, error.to_string()))
    });
    pins.collect()
}

fn seconds(option: &'static str, seconds: Option<f64>) -> Result<Option<Duration>> {
    let Some(seconds) = seconds else {
        return Ok(None);
    };
    let span = Duration::try_from_secs_f64(seconds).ok();
    let limit = || format!("seconds, from 0 to {}", Expiry::LONGEST.as_secs());
    match span.filter(|span| *span <= Expiry::LONGEST) {
        Some(span) => Ok(Some(span)),
        None => Err(bad_option(option, seconds, limit())),
    }
}

/// The content of a file of at most so many bytes, also where its length is not known beforehand.
fn content(option: &'static str, path: &Path, most: u64) -> Result<Vec<u8>> {
    let refused = |limit: String| -> StoreError { bad_option(option, path.display(), limit) };
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path);
    let read = file.and_then(|file| file.take(most + 1).read_to_end(&mut bytes));
    read.map_err(|error| refused(error.to_string()))?;
    match bytes.len() as u64 <= most {
        true => Ok(bytes),
        false => Err(refused(format!("such a file has at most {most} bytes"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stores_open_as_they_are_told() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("a file");
        std::fs::write(&file, "a secret of many bytes\nthe one before it\n").unwrap();
        let named = OpenOptions::named([
            ("memory", "1MiB"),
            ("secret_file", file.to_str().unwrap()),
            ("grant", "reports"),
            ("read_only", "true"),
            ("access", "calls"),
            ("cache", "1MiB"),
            ("stale_for", "0.5"),
            ("client_memory", "1GiB"),
            ("connect_timeout", "2"),
            ("timeout", "1.5"),
        ]);
        let expected = OpenOptions {
            memory: Some(1 << 20),
            secret: Some(Secret::new("a secret of many bytes").unwrap()),
            grant: "reports".into(),
            rights: Rights::READ,
            access: Access::Calls,
            cache: Some(Cache::new(1 << 20).stale_for(Duration::from_millis(500))),
            client_memory: Some(1 << 30),
            connect_timeout: Duration::from_secs(2),
            limits: farslot_fabric::Limits {
                verb_timeout: 1_500_000_000,
                ..farslot_fabric::Limits::default()
            },
            ..OpenOptions::default()
        };
        assert_eq!(named.unwrap(), expected);
        let pin = "00".repeat(32);
        let pinned = OpenOptions::named([("tls_pin", &*format!("{pin}, {pin}"))]);
        assert!(pinned.unwrap().tls.is_some());
        assert_eq!(OpenOptions::named([]).unwrap(), OpenOptions::default());
    }

    #[test]
    fn what_cannot_be_is_said_with_what_can() {
        let pin = "00".repeat(32);
        let cases: [(&[(&str, &str)], &str); 18] = [
            (&[("colour", "red")], "one of memory, secret, secret_file"),
            (&[("grant", "a"), ("grant", "b")], "once"),
            (&[("secret", "hunter2")], "at least 16"),
            (
                &[("secret", "sixteen bytes ok"), ("secret_file", "/dev/zero")],
                "not with secret",
            ),
            (&[("secret_file", "/dev/zero")], "at most 4096 bytes"),
            (&[("tls_ca", "/nowhere")], "No such file"),
            (&[("tls_ca", "/dev/zero")], "at most 1048576 bytes"),
            (&[("tls_ca", "/dev/null"), ("tls_pin", &pin)], "not with"),
            (&[("tls_pin", "abc")], "64 hexadecimal digits"),
            (&[("tls_cert", "/dev/null")], "it needs tls_key"),
            (&[("tls_key", "/dev/null")], "it needs tls_cert"),
            (
                &[("tls_cert", "/dev/null"), ("tls_key", "/dev/null")],
                "which nodes are trusted",
            ),
            (&[("read_only", "yes")], "true, false"),
            (&[("access", "fast")], "reads, calls, auto"),
            (&[("cache", "large")], "a number"),
            (&[("timeout", "-1")], "seconds, from 0"),
            (&[("timeout", "nan")], "seconds, from 0"),
            (&[("stale_for", "1")], "needs a cache"),
        ];
        for (pairs, says) in cases {
            let refusal = OpenOptions::named(pairs.iter().copied()).unwrap_err();
            let text = refusal.to_string();
            assert!(text.contains(says) && !text.contains("hunter"), "{text}");
        }
    }
}
