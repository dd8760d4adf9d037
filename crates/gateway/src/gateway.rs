//! A gateway, from its start to its end.

use crate::event_loop::EventLoop;
use crate::lane::Lanes;
use crate::metrics::GatewayMetrics;
use crate::revocable::InForce;
use crate::shared::{Counts, GatewayState, Guessers, LatencyHistogram, Notices};
use crate::slow_log::SlowRequestLog;
use crate::users::User;
use farslot::admission::{BACKLOG, Secret, TableGrant, TlsServer};
use farslot::{Evicting, Store, StoreError};
use rustix::event::{EventfdFlags, eventfd};
use std::fmt;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, PoisonError, RwLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How nice the threads are that serve what is long, beside those of short requests and of whatever
/// else serves in the process: then these have some nine tenths of a processor that they share.
const LONG_NICE: i32 = 10;

/// How clients are served.
#[derive(Clone, Debug)]
pub struct GatewayOptions {
    /// Where: HOST:PORT, with port 0 for any that is free.
    pub listen: String,
    /// Clients must give one of these to AUTH or HELLO: without TLS it comes over the network as it
    /// is. Use them for nothing else. Two let clients go from one to the other.
    pub secrets: Vec<Secret>,
    /// Users besides `default`, who gives a secret above and may do everything: each is a grant,
    /// whose secrets are given to AUTH or HELLO with its name. It may use the databases that are
    /// among its tables: read them or do everything, all keys or those with its prefix. Commands
    /// that concern a whole database need all keys, FLUSHALL all databases. A grant without a
    /// database, or with a rate, is refused to its clients, who are told why. Where there is no
    /// secret above, who gives no name may do everything.
    pub users: Vec<TableGrant>,
    /// How it is served under TLS, if it is. A client whose handshake is not done is as one that
    /// has not given the secret.
    pub tls: Option<TlsServer>,
    /// Whether an address that other machines can reach may be served without a secret.
    pub insecure: bool,
    /// Threads, each with another beside it for what is long; a connection belongs to the two that
    /// accept it.
    pub threads: usize,
    /// The most connections. One that is too many is told so, and closed. Where there is a secret,
    /// half of them at most are of clients that have not given it, and a quarter of those of one
    /// address: the oldest of these is closed for another, so that they keep nobody out. Nor do
    /// those who ask for what is long and have not gone on for a second: where all are in use, one
    /// is closed.
    pub connections: usize,
    /// Bytes that one thread may take for its clients: the buffers of its connections, which have
    /// requests that have not arrived whole and replies that were not taken, and what a tick needs
    /// besides. A request and its reply may have a quarter of what is left. When three quarters are
    /// in use, connections are closed that hold much and have not gone on for the longest.
    pub buffers: usize,
    /// SLOWLOG tells of requests that take so long or longer: of those that run by themselves, as
    /// KEYS does, and otherwise of the request of a tick that moves the most bytes, where its tick
    /// takes so long. The last 128 are remembered, without secrets.
    pub slower_than: Duration,
    /// What databases that are made from now on do when their memory is full: refuse what is put,
    /// or forget keys: any, or those with a time to live.
    pub evicting: Option<Evicting>,
}

impl GatewayOptions {
    /// The defaults, at an address.
    #[must_use]
    pub fn at(listen: &str) -> Self {
        Self {
            listen: listen.into(),
            secrets: Vec::new(),
            users: Vec::new(),
            tls: None,
            insecure: false,
            threads: 1,
            connections: 1_000,
            buffers: 256 << 20,
            slower_than: Duration::from_millis(10),
            evicting: None,
        }
    }

    /// Refuses what [`Gateway::start`] would refuse, as far as that shows without listening.
    /// Returns the addresses to listen at.
    ///
    /// # Errors
    /// [`GatewayError::BadOption`]; [`GatewayError::Listen`] if the address has no IP address;
    /// [`GatewayError::Insecure`].
    pub fn check(&self) -> Result<Vec<SocketAddr>, GatewayError> {
        let least = [("threads", self.threads), ("connections", self.connections)];
        if let Some((option, value)) = least.into_iter().find(|(_, value)| *value == 0) {
            return Err(GatewayError::BadOption { option, value });
        }
        let resolved = self.listen.to_socket_addrs();
        let resolved: Vec<_> = resolved.map_err(|error| self.unusable(error))?.collect();
        let is_open = |address: &&SocketAddr| !address.ip().is_loopback();
        if self.secrets.is_empty()
            && !self.insecure
            && let Some(address) = resolved.iter().find(is_open)
        {
            return Err(GatewayError::Insecure { address: *address });
        }
        Ok(resolved)
    }

    fn unusable(&self, error: std::io::Error) -> GatewayError {
        GatewayError::Listen {
            address: self.listen.clone(),
            error,
        }
    }
}

/// Why a gateway cannot be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GatewayError {
    /// The address cannot be listened at.
    #[error("cannot listen for Redis clients at {address}: {error}")]
    Listen {
        /// The address as given.
        address: String,
        /// What the system says.
        error: std::io::Error,
    },
    /// Other machines reach the address, and there is no secret.
    #[error("{address} can be reached by other machines: Redis clients need a secret there")]
    Insecure {
        /// The address.
        address: SocketAddr,
    },
    /// A number of threads or connections that there cannot be.
    #[error("{option} cannot be {value}: at least 1")]
    BadOption {
        /// The option.
        option: &'static str,
        /// Its value.
        value: usize,
    },
    /// The thread that removes expired keys cannot be started.
    #[error("cannot remove expired keys: {0}")]
    Sweeper(StoreError),
    /// A thread cannot be started.
    #[error("cannot start a thread of the Redis gateway: {error}")]
    Thread {
        /// What the system says.
        error: std::io::Error,
    },
}

/// Clients are served for as long as this is held. When it is dropped, requests that have arrived
/// may be done or not, and all connections end.
pub struct Gateway {
    shared: Arc<GatewayState>,
    end: OwnedFd,
    threads: Vec<JoinHandle<()>>,
}

impl fmt::Debug for Gateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gateway")
            .field("address", &self.shared.address)
            .finish_non_exhaustive()
    }
}

impl Gateway {
    /// Serves the tables of a store. Those that are missing are made when they are first written
    /// to.
    ///
    /// # Errors
    /// An address that cannot be listened at, one that other machines reach without a secret, or a
    /// thread that cannot be started.
    pub fn start(store: &Store, options: &GatewayOptions) -> Result<Self, GatewayError> {
        let listener = listen(options)?;
        let thread = |error| GatewayError::Thread { error };
        let address = listener.local_addr().map_err(thread)?;
        let shared = Arc::new(shared(store, options, address)?);
        let end = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let mut gateway = Self {
            shared: Arc::clone(&shared),
            end: end.map_err(|error| thread(error.into()))?,
            threads: Vec::new(),
        };
        for number in 0..options.threads {
            for lanes in Lanes::new().map_err(|error| thread(error.into()))? {
                let name = match lanes.is_long {
                    false => format!("farslot-redis-{number}"),
                    true => format!("farslot-long-{number}"),
                };
                let listener = match lanes.is_long {
                    false => Some(listener.try_clone().map_err(thread)?),
                    true => None,
                };
                let shared = Arc::clone(&shared);
                let end = gateway.end.try_clone().map_err(thread)?;
                let store = store.clone();
                let serve = move || {
                    if lanes.is_long {
                        // Refused or not, it serves.
                        let _ = rustix::process::nice(LONG_NICE);
                    }
                    match EventLoop::new(shared, lanes, listener, &end, store) {
                        Ok(event_loop) => event_loop.run(),
                        Err(error) => log::error!("thread {number} of the Redis gateway: {error}"),
                    }
                };
                gateway.spawn(name, serve)?;
            }
        }
        Ok(gateway)
    }

    /// Where it serves, with the port.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.shared.address
    }

    /// Has other users from now on ([`GatewayOptions::users`]). Clients of one that is the same
    /// notice nothing; those of one that is another, or is there no more, are closed with NOAUTH at
    /// their next command.
    pub fn change_users(&self, users: &[TableGrant]) {
        self.shared
            .users
            .change(users.iter().cloned().map(User::new));
    }

    /// Has other secrets from now on ([`GatewayOptions::secrets`]). Clients who have given one that
    /// is gone are closed with NOAUTH at their next command. A gateway that was started without a
    /// secret goes on without.
    pub fn change_secrets(&self, secrets: &[Secret]) {
        self.shared.secrets.change(secrets.iter().cloned());
    }

    /// Shows another certificate from now on, where it is served under TLS. Those who are connected
    /// notice nothing.
    pub fn change_tls(&self, new: &TlsServer) {
        if let Some(tls) = &self.shared.tls {
            *tls.write().unwrap_or_else(PoisonError::into_inner) = new.clone();
        }
    }

    /// What it has counted, for a page of metrics.
    #[must_use]
    pub fn metrics(&self) -> GatewayMetrics {
        GatewayMetrics(Arc::clone(&self.shared))
    }

    /// How many clients are connected.
    #[must_use]
    pub fn connections(&self) -> u64 {
        self.shared.counts.connected.load(Relaxed)
    }

    fn spawn(
        &mut self,
        name: String,
        run: impl FnOnce() + Send + 'static,
    ) -> Result<(), GatewayError> {
        let thread = std::thread::Builder::new().name(name).spawn(run);
        let thread = thread.map_err(|error| GatewayError::Thread { error })?;
        self.threads.push(thread);
        Ok(())
    }
}

/// What the threads share of a gateway that serves there.
pub(crate) fn shared(
    store: &Store,
    options: &GatewayOptions,
    address: SocketAddr,
) -> Result<GatewayState, GatewayError> {
    Ok(GatewayState {
        address,
        needs_secret: !options.secrets.is_empty(),
        secrets: InForce::new(options.secrets.iter().cloned()),
        users: InForce::new(options.users.iter().cloned().map(User::new)),
        tls: options.tls.clone().map(RwLock::new),
        connections: options.connections as u64,
        // Half of the places, and a quarter for one address.
        unauthenticated: [2, 4].map(|part| (options.connections / part / options.threads).max(1)),
        buffers: options.buffers,
        started: Instant::now(),
        is_ending: AtomicBool::new(false),
        counts: Counts::default(),
        latencies: LatencyHistogram::default(),
        slow_log: SlowRequestLog::new(options.slower_than),
        notices: Notices::default(),
        guessers: Guessers::default(),
        evicting: options.evicting,
        watches: Arc::default(),
        sweeper: store.sweeper().map_err(GatewayError::Sweeper)?,
    })
}

fn listen(options: &GatewayOptions) -> Result<TcpListener, GatewayError> {
    let failed = |error| options.unusable(error);
    let addresses = options.check()?;
    let listener = TcpListener::bind(&addresses[..]).map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    rustix::net::listen(&listener, BACKLOG).map_err(|error| failed(error.into()))?;
    Ok(listener)
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.shared.is_ending.store(true, Relaxed);
        // It stays readable: every thread is told. At the latest they look after a second.
        let _ = rustix::io::write(&self.end, &1_u64.to_ne_bytes());
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                log::error!("a thread of the Redis gateway has panicked");
            }
        }
    }
}
