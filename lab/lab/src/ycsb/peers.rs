//! The servers that Farslot is held against: started here, without persistence, and ended with this
//! process; or one that runs already, if it is empty.

use crate::{LabError, Result};
use serde::Serialize;
use std::fmt;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::str::FromStr;
use std::thread;
use std::time::{Duration, Instant};

/// A server on a busy machine may need this long until it serves.
const PATIENCE: Duration = Duration::from_secs(20);
/// Another process may take the port that was free a moment ago.
const ATTEMPTS: usize = 3;

/// A kind of server.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum PeerKind {
    /// Redis.
    Redis,
    /// memcached.
    Memcached,
}

impl PeerKind {
    /// Its name, here and in addresses.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Redis => "redis",
            Self::Memcached => "memcached",
        }
    }

    /// Its program.
    const fn program(self) -> &'static str {
        match self {
            Self::Redis => "redis-server",
            Self::Memcached => "memcached",
        }
    }

    /// Whether its program is installed here.
    #[must_use]
    pub fn is_installed(self) -> bool {
        find_program(self.program()).is_some()
    }
}

/// A server to be held against: `redis` or `memcached`, to be started here, or `redis=HOST:PORT`,
/// which runs.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct PeerAddress {
    /// What it is.
    pub kind: PeerKind,
    /// Where it runs already.
    pub at: Option<SocketAddr>,
}

impl FromStr for PeerAddress {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let (name, at) = match text.split_once('=') {
            None => (text, None),
            Some((name, at)) => {
                let parsed = at.parse();
                let at =
                    parsed.map_err(|_| format!("{at:?} is no address such as 127.0.0.1:6379"))?;
                (name, Some(at))
            }
        };
        let kinds = [PeerKind::Redis, PeerKind::Memcached];
        match kinds.into_iter().find(|kind| kind.name() == name) {
            Some(kind) => Ok(Self { kind, at }),
            None => Err(format!(
                "{name:?} is no system to compare with: there are redis and memcached"
            )),
        }
    }
}

impl fmt::Display for PeerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind.name())?;
        self.at.map_or(Ok(()), |at| write!(f, "={at}"))
    }
}

/// What a peer is given.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PeerResources {
    /// Bytes that it must be able to hold without evicting any; or that it may take, if it evicts.
    pub memory: u64,
    /// Redis's name of what it evicts, if it is to evict.
    pub evicts: Option<&'static str>,
    /// Threads that serve.
    pub threads: usize,
}

/// How a kind of peer is started, and what it says of itself.
pub(crate) trait Introspect: Sized {
    /// What it is.
    const KIND: PeerKind;

    /// The arguments of its program.
    fn arguments(port: u16, resources: PeerResources) -> Vec<String>;

    /// A connection.
    fn connect(address: SocketAddr) -> Result<Self>;

    /// Its version, the number of its process, and how many records it holds.
    fn identify(&mut self) -> Result<Identity>;

    /// Removes all records.
    fn empty(&mut self) -> Result<()>;
}

/// What a server says of itself.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    pub version: String,
    pub process: u32,
    pub records: u64,
}

/// A server, which ends with this where it was started here.
pub(crate) struct PeerServer<C: Introspect> {
    address: SocketAddr,
    identity: Identity,
    // Dropped last: whoever runs already is emptied first.
    child: Option<Process>,
    client: std::marker::PhantomData<fn() -> C>,
}

impl<C: Introspect> PeerServer<C> {
    /// Starts one, or turns to the one that runs at `at`, which must be empty.
    pub(crate) fn open(at: Option<SocketAddr>, resources: PeerResources) -> Result<Self> {
        match at {
            None => Self::start(resources),
            Some(address) => Self::turn_to(address),
        }
    }

    fn turn_to(address: SocketAddr) -> Result<Self> {
        let identity = C::connect(address)?.identify()?;
        if identity.records > 0 {
            return Err(LabError::PeerInUse {
                peer: C::KIND.name(),
                address,
                records: identity.records,
            });
        }
        Ok(Self::new(address, identity, None))
    }

    fn start(resources: PeerResources) -> Result<Self> {
        let program = find_program(C::KIND.program()).ok_or(LabError::NotInstalled {
            peer: C::KIND.name(),
            program: C::KIND.program(),
        })?;
        let mut attempt = 1;
        loop {
            match Self::try_start(&program, resources) {
                Err(_) if attempt < ATTEMPTS => attempt += 1,
                outcome => return outcome,
            }
        }
    }

    fn try_start(program: &Path, resources: PeerResources) -> Result<Self> {
        let address = free_port()?;
        let mut child = Process::start(
            program,
            &C::arguments(address.port(), resources),
            address,
            C::KIND,
        )?;
        let since = Instant::now();
        loop {
            let known = C::connect(address).and_then(|mut client| client.identify());
            match known {
                // Not one that took the port before it.
                Ok(identity) if identity.process == child.0.id() => {
                    return Ok(Self::new(address, identity, Some(child)));
                }
                outcome => {
                    let ended = child.0.try_wait().is_ok_and(|end| end.is_some());
                    if ended || outcome.is_ok() || since.elapsed() > PATIENCE {
                        let why = outcome.err().map(|error| format!(": {error}"));
                        let reason = format!("it did not start{}", why.unwrap_or_default());
                        return Err(failure(C::KIND, address, reason));
                    }
                    thread::sleep(Duration::from_millis(10));
                }
            }
        }
    }

    fn new(address: SocketAddr, identity: Identity, child: Option<Process>) -> Self {
        Self {
            address,
            identity,
            child,
            client: std::marker::PhantomData,
        }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn version(&self) -> &str {
        &self.identity.version
    }

    /// The number of its process, if that is of this machine.
    pub(crate) fn process(&self) -> Option<u32> {
        self.address
            .ip()
            .is_loopback()
            .then_some(self.identity.process)
    }
}

impl<C: Introspect> Drop for PeerServer<C> {
    fn drop(&mut self) {
        if self.child.is_none() {
            // It was empty, and is left so; if it is gone, so are the records.
            let _ = C::connect(self.address).and_then(|mut client| client.empty());
        }
    }
}

/// A child that is killed with this.
struct Process(Child);

impl Process {
    /// Starts a program so that the kernel kills it when this process is killed, where `setpriv`
    /// (util-linux) is there to ask for that.
    fn start(
        program: &Path,
        arguments: &[String],
        address: SocketAddr,
        kind: PeerKind,
    ) -> Result<Self> {
        let mut command = match find_program("setpriv") {
            None => Command::new(program),
            Some(setpriv) => {
                let mut command = Command::new(setpriv);
                command.args(["--pdeathsig", "KILL", "--"]).arg(program);
                command
            }
        };
        command
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let child = command.spawn();
        let child = child.map_err(|error| failure(kind, address, error.to_string()))?;
        Ok(Self(child))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn failure(kind: PeerKind, address: SocketAddr, reason: String) -> LabError {
    LabError::Peer {
        peer: kind.name(),
        address,
        reason,
    }
}

/// A loopback address that nobody listens at now.
pub(crate) fn free_port() -> Result<SocketAddr> {
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let listener = TcpListener::bind(any).and_then(|listener| listener.local_addr());
    listener.map_err(|error| {
        farslot::fabric::FabricError::Os {
            call: "bind",
            error: error.to_string(),
        }
        .into()
    })
}

/// Where a program is: in the PATH, or where Debian puts servers.
pub(crate) fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let directories = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/usr/bin".into()]);
    directories
        .map(|directory| directory.join(name))
        .find(|program| program.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_are_named_with_or_without_an_address() {
        for text in [
            "redis",
            "memcached",
            "redis=127.0.0.1:6379",
            "memcached=[::1]:11211",
        ] {
            assert_eq!(text.parse::<PeerAddress>().unwrap().to_string(), text);
        }
        for text in ["", "postgres", "redis=", "redis=localhost", "=127.0.0.1:1"] {
            assert!(text.parse::<PeerAddress>().is_err(), "{text}");
        }
    }
}
