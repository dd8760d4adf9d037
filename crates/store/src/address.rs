//! Where a store is: the one string that changes from a laptop to a rack.

use crate::slot_map::MOST_NODES;
use crate::{Result, StoreError};
use farslot_fabric::verbs::DeviceOptions;
use std::fmt;
use std::str::FromStr;

/// The schemes that an address may begin with, for messages.
const SCHEMES: &str = "embedded, shm://NAME[,NAME...], tcp://HOST:PORT[,HOST:PORT...], \
                           tcps://HOST:PORT[,HOST:PORT...], \
                           verbs://HOST:PORT[,HOST:PORT...][?device=NAME&port=N&gid=N], \
                           sim://PROFILE[?seed=N&memory=SIZE&nodes=N]";

/// A parsed address.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Address {
    /// Memory of this process.
    Embedded,
    /// Memory of one or more processes on this host, each served under a name.
    Shm {
        /// The names: of one node each, none twice.
        names: Vec<String>,
    },
    /// Memory of one or more processes on any hosts, served over TCP.
    Tcp {
        /// Whether it is served under TLS: `tcps://`.
        tls: bool,
        /// Where their agents listen: `HOST:PORT`, an IPv6 address in brackets; of one node each,
        /// none twice.
        authorities: Vec<String>,
    },
    /// Memory of one or more processes on any hosts, served by their RDMA NICs.
    Verbs {
        /// Where connections are set up, over TCP: `HOST:PORT`, an IPv6 address in brackets; of one
        /// node each, none twice.
        authorities: Vec<String>,
        /// This machine's device.
        device: DeviceOptions,
    },
    /// Simulated memory behind a simulated NIC.
    Sim {
        /// The NIC profile's name, or the path of its file.
        profile: String,
        /// What all chance in the simulation derives from.
        seed: u64,
        /// Bytes of each simulated node, if given.
        memory: Option<u64>,
        /// How many nodes there are, each on a machine of its own.
        nodes: u16,
    },
}

impl Address {
    /// What the nodes at this address are called, in its order: each name is the address of one
    /// node alone, but for simulated ones.
    #[must_use]
    pub fn nodes(&self) -> Vec<String> {
        match self {
            Self::Embedded => vec!["embedded".into()],
            Self::Shm { names } => names.iter().map(|name| format!("shm://{name}")).collect(),
            Self::Tcp { tls, authorities } => (authorities.iter())
                .map(|authority| format!("{}://{authority}", tcp_scheme(*tls)))
                .collect(),
            Self::Verbs { authorities, .. } => (authorities.iter())
                .map(|authority| format!("verbs://{authority}"))
                .collect(),
            Self::Sim { nodes, .. } => (0..*nodes).map(|node| format!("node-{node}")).collect(),
        }
    }
}

impl FromStr for Address {
    type Err = StoreError;

    fn from_str(text: &str) -> Result<Self> {
        if text == "embedded" {
            return Ok(Self::Embedded);
        }
        let (scheme, rest) = text.split_once("://").unwrap_or(("", text));
        match scheme {
            "shm" => parse_shm(text, rest),
            "tcp" | "tcps" => Ok(Address::Tcp {
                tls: scheme == "tcps",
                authorities: parse_authorities(text, rest)?,
            }),
            "verbs" => parse_verbs(text, rest),
            "sim" => parse_sim(text, rest),
            _ => Err(StoreError::UnknownScheme {
                address: text.into(),
                scheme: scheme.into(),
                known: SCHEMES,
            }),
        }
    }
}

const fn tcp_scheme(tls: bool) -> &'static str {
    if tls { "tcps" } else { "tcp" }
}

fn parse_shm(text: &str, rest: &str) -> Result<Address> {
    let names = parse_nodes(text, rest, |name| {
        if name.is_empty() {
            return Err("a name must follow shm://, or several with commas between them".into());
        }
        Ok(())
    })?;
    Ok(Address::Shm { names })
}

fn parse_authorities(text: &str, rest: &str) -> Result<Vec<String>> {
    if rest.contains('@') {
        return Err(StoreError::BadAddress {
            // What stands before the @ may be a secret, and errors are logged.
            address: text
                .split_once("://")
                .map_or_else(String::new, |(scheme, _)| format!("{scheme}://...")),
            reason: "an address has no secret in it, nor a user".into(),
        });
    }
    parse_nodes(text, rest, check_authority)
}

fn parse_verbs(text: &str, rest: &str) -> Result<Address> {
    let (nodes, query) = rest.split_once('?').unwrap_or((rest, ""));
    let authorities = parse_authorities(text, nodes)?;
    let mut device = DeviceOptions::default();
    let number = |setting: &str| bad(text, format!("{setting} is no number of a port or a GID"));
    for setting in query.split('&').filter(|setting| !setting.is_empty()) {
        match setting.split_once('=') {
            Some(("device", name)) if !name.is_empty() => device.device = Some(name.into()),
            Some(("port", value)) => {
                let port = value.parse().ok().filter(|port| *port > 0);
                device.port = Some(port.ok_or_else(|| number(setting))?);
            }
            Some(("gid", value)) => {
                device.gid_index = Some(value.parse().map_err(|_| number(setting))?);
            }
            _ => {
                return Err(bad(
                    text,
                    format!("{setting:?} is neither device=NAME nor port=N nor gid=N"),
                ));
            }
        }
    }
    Ok(Address::Verbs {
        authorities,
        device,
    })
}

/// Refuses what is no `HOST:PORT`.
fn check_authority(authority: &str) -> std::result::Result<(), String> {
    const FORM: &str = "HOST:PORT must follow the scheme, an IPv6 address in brackets, several with commas between them";
    let (host, port) = authority.rsplit_once(':').ok_or(FORM)?;
    let in_brackets = |host: &str| host.starts_with('[') && host.ends_with(']');
    let odd = |letter: char| letter.is_whitespace() || "/?#".contains(letter);
    if host.is_empty() || host.contains(':') && !in_brackets(host) || host.contains(odd) {
        return Err(FORM.into());
    }
    if port.parse::<u16>().is_err() {
        return Err(format!("{port:?} is no port from 0 to 65535"));
    }
    Ok(())
}

/// The nodes of an address, with commas between them.
fn parse_nodes(
    text: &str,
    rest: &str,
    check: impl Fn(&str) -> std::result::Result<(), String>,
) -> Result<Vec<String>> {
    let mut nodes: Vec<String> = Vec::new();
    for node in rest.split(',') {
        if node.contains("://") {
            return Err(bad(
                text,
                "all nodes of an address have one scheme, named once",
            ));
        }
        check(node).map_err(|why| bad(text, why))?;
        if nodes.iter().any(|other| other == node) {
            return Err(bad(text, format!("it names {node} twice")));
        }
        nodes.push(node.into());
    }
    if nodes.len() > MOST_NODES {
        let count = nodes.len();
        return Err(bad(
            text,
            format!("it names {count} nodes, and a store has at most {MOST_NODES}"),
        ));
    }
    Ok(nodes)
}

fn parse_sim(text: &str, rest: &str) -> Result<Address> {
    let (profile, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (mut seed, mut memory, mut nodes) = (0, None, 1);
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
            Some(("nodes", value)) => {
                nodes = (value.parse().ok())
                    .filter(|nodes| (1..=MOST_NODES as u16).contains(nodes))
                    .ok_or_else(|| {
                        bad(
                            text,
                            format!("nodes={value} is no number from 1 to {MOST_NODES}"),
                        )
                    })?;
            }
            _ => {
                return Err(bad(
                    text,
                    format!("{setting:?} is neither seed=N nor memory=SIZE nor nodes=N"),
                ));
            }
        }
    }
    Ok(Address::Sim {
        profile: profile.into(),
        seed,
        memory,
        nodes,
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
            Self::Shm { names } => write!(f, "shm://{}", names.join(",")),
            Self::Tcp { tls, authorities } => {
                write!(f, "{}://{}", tcp_scheme(*tls), authorities.join(","))
            }
            Self::Verbs {
                authorities,
                device,
            } => {
                write!(f, "verbs://{}", authorities.join(","))?;
                let settings = [
                    device.device.as_ref().map(|name| format!("device={name}")),
                    device.port.map(|port| format!("port={port}")),
                    device.gid_index.map(|gid| format!("gid={gid}")),
                ];
                let settings: Vec<_> = settings.into_iter().flatten().collect();
                match &*settings {
                    [] => Ok(()),
                    settings => write!(f, "?{}", settings.join("&")),
                }
            }
            Self::Sim {
                profile,
                seed,
                memory,
                nodes,
            } => {
                write!(f, "sim://{profile}?seed={seed}")?;
                if let Some(bytes) = memory {
                    write!(f, "&memory={bytes}")?;
                }
                if *nodes > 1 {
                    write!(f, "&nodes={nodes}")?;
                }
                Ok(())
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
            "tcps://a:7000,[::1]:7000",
            "tcp://node-1.rack:0",
            "sim://cx5-edr?seed=7",
            "sim://cx5-edr?seed=0&memory=4096",
            "shm://a,b",
            "tcp://a:7000,b:7000,[::1]:7000",
            "verbs://a:7000,b:7000",
            "verbs://a:7000?device=mlx5_0&port=1&gid=3",
            "sim://cx5-edr?seed=0&memory=4096&nodes=3",
        ] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
        }
        let sized = "sim://x?memory=2MiB".parse::<Address>().unwrap();
        assert_eq!(
            "tcp://a:1,b:2".parse::<Address>().unwrap().nodes(),
            ["tcp://a:1", "tcp://b:2"]
        );
        assert_eq!(
            "tcps://a:1".parse::<Address>().unwrap().nodes(),
            ["tcps://a:1"]
        );
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
            "tcp://a:7000,",
            "tcp://a:7000,,b:7000",
            "tcp://a:7000,b:7000,a:7000",
            "tcp://a:7000,shm://b",
            "tcp://a:7000,tcp://b:7000",
            "tcps://host",
            "tcp://a:7000,tcps://b:7000",
            "shm://a,,b",
            "shm://a,a",
            "sim://a?nodes=0",
            "sim://a?nodes=257",
            "sim://a?nodes=many",
        ] {
            assert!(
                matches!(text.parse::<Address>(), Err(StoreError::BadAddress { .. })),
                "{text}"
            );
        }
        let many: Vec<_> = (0..=MOST_NODES).map(|node| format!("h:{node}")).collect();
        let many = format!("tcp://{}", many.join(",")).parse::<Address>();
        let many = many.unwrap_err().to_string();
        assert!(many.contains("257") && many.contains("256"), "{many}");
        let secret = "tcp://hunter2@host:7000".parse::<Address>().unwrap_err();
        assert!(!secret.to_string().contains("hunter2"), "{secret}");
        assert!(matches!(
            "files".parse::<Address>(),
            Err(StoreError::UnknownScheme { .. })
        ));
    }
}
