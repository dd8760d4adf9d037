//! Where a store is: the one string that changes from a laptop to a rack.

use crate::{Result, StoreError};
use std::fmt;
use std::str::FromStr;

/// The schemes that an address may begin with, for messages.
pub const SCHEMES: &str =
    "embedded, shm://NAME, tcp://HOST:PORT, sim://PROFILE[?seed=N&memory=SIZE]";

/// A parsed address.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Address {
    /// Memory of this process.
    Embedded,
    /// Memory of a process on this host, served under a name.
    Shm {
        /// The name.
        name: String,
    },
    /// Memory of a process on this host or another, served over TCP.
    Tcp {
        /// Where its agent listens: `HOST:PORT`, an IPv6 address in brackets.
        authority: String,
    },
    /// Simulated memory behind a simulated NIC.
    Sim {
        /// The NIC profile's name, or the path of its file.
        profile: String,
        /// What all chance in the simulation derives from.
        seed: u64,
        /// Bytes of the simulated node, if given.
        memory: Option<u64>,
    },
}

impl FromStr for Address {
    type Err = StoreError;

    fn from_str(text: &str) -> Result<Self> {
        if text == "embedded" {
            return Ok(Self::Embedded);
        }
        let (scheme, rest) = text.split_once("://").unwrap_or(("", text));
        match scheme {
            "shm" if rest.is_empty() => Err(bad(text, "a name must follow shm://")),
            "shm" => Ok(Self::Shm { name: rest.into() }),
            "tcp" => parse_tcp(text, rest),
            "sim" => parse_sim(text, rest),
            _ => Err(StoreError::UnknownScheme {
                address: text.into(),
                scheme: scheme.into(),
                known: SCHEMES,
            }),
        }
    }
}

fn parse_tcp(text: &str, rest: &str) -> Result<Address> {
    const FORM: &str = "HOST:PORT must follow tcp://, an IPv6 address in brackets";
    if rest.contains('@') {
        return Err(StoreError::BadAddress {
            // What stands before the @ may be a secret, and errors are logged.
            address: "tcp://...".into(),
            reason: "an address has no secret in it, nor a user".into(),
        });
    }
    if rest.contains(',') {
        return Err(bad(text, "one address names one node"));
    }
    let (host, port) = rest.rsplit_once(':').ok_or_else(|| bad(text, FORM))?;
    let in_brackets = |host: &str| host.starts_with('[') && host.ends_with(']');
    let odd = |letter: char| letter.is_whitespace() || "/?#".contains(letter);
    if host.is_empty() || host.contains(':') && !in_brackets(host) || host.contains(odd) {
        return Err(bad(text, FORM));
    }
    if port.parse::<u16>().is_err() {
        return Err(bad(text, format!("{port:?} is no port from 0 to 65535")));
    }
    Ok(Address::Tcp {
        authority: rest.into(),
    })
}

fn parse_sim(text: &str, rest: &str) -> Result<Address> {
    let (profile, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (mut seed, mut memory) = (0, None);
    for setting in query.split('&').filter(|setting| !setting.is_empty()) {
        match setting.split_once('=') {
            Some(("seed", value)) => {
                seed = value.parse().map_err(|_| {
                    bad(text, format!("seed={value} is no number from 0 to 2^64-1"))
                })?;
            }
            Some(("memory", value)) => {
                memory = Some(parse_bytes(value).map_err(|why| bad(text, why))?)
            }
            _ => {
                return Err(bad(
                    text,
                    format!("{setting:?} is neither seed=N nor memory=SIZE"),
                ));
            }
        }
    }
    Ok(Address::Sim {
        profile: profile.into(),
        seed,
        memory,
    })
}

fn parse_bytes(text: &str) -> std::result::Result<u64, String> {
    text.parse::<bytesize::ByteSize>()
        .map(|size| size.as_u64())
        .map_err(|_| format!("memory={text} is no size such as 512MiB"))
}

fn bad(address: &str, reason: impl Into<String>) -> StoreError {
    StoreError::BadAddress {
        address: address.into(),
        reason: reason.into(),
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Embedded => f.write_str("embedded"),
            Self::Shm { name } => write!(f, "shm://{name}"),
            Self::Tcp { authority } => write!(f, "tcp://{authority}"),
            Self::Sim {
                profile,
                seed,
                memory,
            } => {
                write!(f, "sim://{profile}?seed={seed}")?;
                memory.map_or(Ok(()), |bytes| write!(f, "&memory={bytes}"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_parse_and_print() {
        for text in [
            "embedded",
            "shm://files",
            "tcp://127.0.0.1:7000",
            "tcp://[::1]:7000",
            "tcp://node-1.rack:0",
            "sim://cx5-edr?seed=7",
            "sim://cx5-edr?seed=0&memory=4096",
        ] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
        }
        let sized = "sim://x?memory=2MiB".parse::<Address>().unwrap();
        assert!(matches!(
            sized,
            Address::Sim {
                memory: Some(2_097_152),
                seed: 0,
                ..
            }
        ));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let unknown = "rdma://host".parse::<Address>().unwrap_err().to_string();
        assert!(
            unknown.contains("\"rdma\"") && unknown.contains("shm://NAME"),
            "{unknown}"
        );
        for text in [
            "shm://",
            "sim://a?seed=x",
            "sim://a?memory=big",
            "sim://a?b",
            "tcp://",
            "tcp://host",
            "tcp://:7000",
            "tcp://host:",
            "tcp://host:70000",
            "tcp://::1:7000",
            "tcp://host:7000/path",
            "tcp://a:7000,b:7000",
        ] {
            assert!(
                matches!(text.parse::<Address>(), Err(StoreError::BadAddress { .. })),
                "{text}"
            );
        }
        let secret = "tcp://hunter2@host:7000".parse::<Address>().unwrap_err();
        assert!(!secret.to_string().contains("hunter2"), "{secret}");
        assert!(matches!(
            "files".parse::<Address>(),
            Err(StoreError::UnknownScheme { .. })
        ));
    }
}
