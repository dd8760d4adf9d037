//! What all threads of a gateway share.

use crate::commands::all;
use crate::failure::CODES;
use crate::revocable::InForce;
use crate::slow_log::SlowRequestLog;
use crate::users::User;
use crate::watch::WatchRegistry;
use farslot::admission::{Secret, TlsServer};
use farslot::metrics::LATENCY_BOUNDS;
use farslot::{Evicting, Sweeper};
use farslot_fabric::net::Socket;
use farslot_fabric::tcp::{LineLimit, TlsFailure};
use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpStream};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

/// What all threads of a gateway share.
#[derive(Debug)]
pub(crate) struct GatewayState {
    pub(crate) address: SocketAddr,
    /// Whether clients have to give a secret.
    pub(crate) needs_secret: bool,
    /// Those of `default`, who may do everything.
    pub(crate) secrets: InForce<Secret>,
    pub(crate) users: InForce<User>,
    /// How it is served, where that is under TLS.
    pub(crate) tls: Option<RwLock<TlsServer>>,
    /// The most connections.
    pub(crate) connections: u64,
    /// The most connections of one thread whose clients have not shown that they know the secret,
    /// in all and of one address.
    pub(crate) unauthenticated: [usize; 2],
    /// Bytes that the buffers of one thread's connections may have together.
    pub(crate) buffers: usize,
    pub(crate) started: Instant,
    pub(crate) is_ending: AtomicBool,
    pub(crate) counts: Counts,
    pub(crate) latencies: LatencyHistogram,
    pub(crate) slow_log: SlowRequestLog,
    pub(crate) sweeper: Arc<Sweeper>,
    pub(crate) notices: Notices,
    pub(crate) guessers: Guessers,
    pub(crate) watches: Arc<WatchRegistry>,
    /// What databases forget when they are full that are made from now on.
    pub(crate) evicting: Option<Evicting>,
}

impl GatewayState {
    /// A client that has connected, under TLS where that is served. What it is sent goes at once.
    pub(crate) fn secured(&self, stream: TcpStream) -> std::io::Result<Socket> {
        stream.set_nodelay(true)?;
        let tls = self.tls.as_ref();
        let tls = tls.map(|tls| tls.read().unwrap_or_else(PoisonError::into_inner));
        Socket::accepted(stream, tls.as_deref())
    }
}

/// The most addresses of which wrong secrets are remembered.
const MOST_GUESSERS: usize = 1 << 10;
/// After so long without another wrong secret an address is forgotten.
const FORGOTTEN: Duration = Duration::from_secs(60);

/// The addresses that have given wrong secrets lately: how many each, and when the last. An IPv6
/// address stands for its network of 64 bits, of which one machine mostly has all.
#[derive(Debug, Default)]
pub(crate) struct Guessers(Mutex<HashMap<IpAddr, (u32, Instant)>>);

impl Guessers {
    /// Wrong secrets that came from an address lately.
    pub(crate) fn wrong_secrets_of(&self, address: IpAddr) -> u32 {
        self.wrong_secrets(address, Instant::now())
    }

    fn wrong_secrets(&self, address: IpAddr, now: Instant) -> u32 {
        let guessers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        lately(guessers.get(&network_of(address)), now)
    }

    /// Notes another one; returns how many came lately. Where too many addresses are remembered,
    /// the one goes whose last was the longest ago.
    pub(crate) fn note(&self, address: IpAddr) -> u32 {
        self.note_at(address, Instant::now())
    }

    fn note_at(&self, address: IpAddr, now: Instant) -> u32 {
        let mut guessers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let address = network_of(address);
        let wrong = lately(guessers.get(&address), now).saturating_add(1);
        if guessers.len() >= MOST_GUESSERS && !guessers.contains_key(&address) {
            let oldest = guessers.iter().min_by_key(|(_, (_, last))| *last);
            if let Some(oldest) = oldest.map(|(address, _)| *address) {
                guessers.remove(&oldest);
            }
        }
        guessers.insert(address, (wrong, now));
        wrong
    }
}

/// Wrong secrets of an address, unless they are forgotten.
fn lately(known: Option<&(u32, Instant)>, now: Instant) -> u32 {
    let remembered = |last: Instant| now.saturating_duration_since(last) < FORGOTTEN;
    known.map_or(
        0,
        |(wrong, last)| if remembered(*last) { *wrong } else { 0 },
    )
}

const fn network_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() >> 64 << 64)),
        address @ IpAddr::V4(_) => address,
    }
}

/// What clients do that its owner wants to know.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Notice {
    /// A secret was wrong, of so many from its address lately.
    WrongSecret(u32),
    /// A connection began as HTTP.
    Http,
    /// A connection held the buffers that others need.
    Evicted,
    /// A connection broke TLS.
    BrokenTls(TlsFailure),
}

/// Tells of what clients do, in the log. Anybody can cause these events: of each kind there are at
/// most ten lines a second.
#[derive(Debug, Default)]
pub(crate) struct Notices(Mutex<[LineLimit; 4]>);

impl Notices {
    /// Tells of what one at this address has done.
    pub(crate) fn tell(&self, notice: Notice, peer: Option<SocketAddr>) {
        let mut limits = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let kind = match notice {
            Notice::WrongSecret(_) => 0,
            Notice::Http => 1,
            Notice::Evicted => 2,
            Notice::BrokenTls(_) => 3,
        };
        let Some(left_out) = limits[kind].line() else {
            return;
        };
        drop(limits);
        if left_out > 0 {
            log::warn!("{left_out} more like the next one");
        }
        let peer = peer.map_or_else(|| "a client".into(), |peer| peer.to_string());
        match notice {
            Notice::WrongSecret(number) => log::warn!(
                "{peer} gave the Redis gateway a wrong secret, number {number} from that address lately"
            ),
            Notice::Http => log::warn!("{peer} speaks HTTP to the Redis gateway: closed"),
            Notice::Evicted => log::warn!(
                "closing the connection of {peer}: it holds buffers of the Redis gateway that others need"
            ),
            Notice::BrokenTls(failure) => {
                log::warn!("closing the connection of {peer} to the Redis gateway: {failure}");
            }
        }
    }
}

/// What a gateway has counted.
#[derive(Debug)]
pub(crate) struct Counts {
    /// Connections now.
    pub(crate) connected: AtomicU64,
    /// Connections so far.
    pub(crate) accepted: AtomicU64,
    /// Connections that were one too many.
    pub(crate) turned_away: AtomicU64,
    /// Secrets that were wrong.
    pub(crate) refused: AtomicU64,
    /// Connections that were closed because others needed their buffers.
    pub(crate) evicted: AtomicU64,
    /// Connections that began as HTTP.
    pub(crate) http: AtomicU64,
    /// Connections that broke TLS.
    pub(crate) tls_broken: AtomicU64,
    pub(crate) commands: AtomicU64,
    /// Those that are known, by their numbers.
    pub(crate) by_command: Vec<AtomicU64>,
    /// Errors that clients were told, by the numbers of their codes.
    pub(crate) errors: [AtomicU64; CODES.len()],
}

impl Default for Counts {
    fn default() -> Self {
        let zero = AtomicU64::default;
        Self {
            connected: zero(),
            accepted: zero(),
            turned_away: zero(),
            refused: zero(),
            evicted: zero(),
            http: zero(),
            tls_broken: zero(),
            commands: zero(),
            by_command: all().map(|_| zero()).collect(),
            errors: Default::default(),
        }
    }
}

/// How often commands have taken how long.
#[derive(Debug, Default)]
pub(crate) struct LatencyHistogram {
    pub(crate) counts: [AtomicU64; LATENCY_BOUNDS.len() + 1],
    /// Nanoseconds in all.
    pub(crate) sum: AtomicU64,
}

impl LatencyHistogram {
    /// Counts commands that were done together.
    pub(crate) fn add(&self, commands: u64, took: Duration) {
        let took = took.as_nanos() as u64;
        let class = LATENCY_BOUNDS.partition_point(|bound| *bound < took);
        self.counts[class].fetch_add(commands, Relaxed);
        self.sum.fetch_add(took.saturating_mul(commands), Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    #[test]
    fn guesses_are_counted_by_address_and_forgotten() {
        let guessers = Guessers::default();
        let at = |last| IpAddr::from(Ipv4Addr::from_bits(10u32 << 24 | last));
        let now = Instant::now();
        assert_eq!([1, 2, 3].map(|_| guessers.note_at(at(0), now)), [1, 2, 3]);
        assert_eq!(guessers.wrong_secrets(at(1), now), 0);
        // The same address in other words, and one of the same network.
        let mapped = IpAddr::from(Ipv4Addr::from_bits(10 << 24).to_ipv6_mapped());
        assert_eq!(guessers.wrong_secrets(mapped, now), 3);
        let of_network = |last: u128| IpAddr::from(Ipv6Addr::from_bits(0x2001 << 112 | last));
        assert_eq!(guessers.note_at(of_network(7), now), 1);
        assert_eq!(guessers.note_at(of_network(8), now), 2);
        assert_eq!(guessers.wrong_secrets(at(0), now + FORGOTTEN), 0);
        assert_eq!(guessers.note_at(at(0), now + FORGOTTEN), 1);
    }

    #[test]
    fn no_more_addresses_are_remembered_than_a_limit() {
        let guessers = Guessers::default();
        let now = Instant::now();
        let most = MOST_GUESSERS as u32;
        for last in 0..2 * most {
            let at = now + Duration::from_nanos(last.into());
            guessers.note_at(IpAddr::from(Ipv4Addr::from_bits(last)), at);
            assert!(guessers.0.lock().unwrap().len() <= MOST_GUESSERS);
        }
        let known = |last| guessers.wrong_secrets(Ipv4Addr::from_bits(last).into(), now);
        // Those whose last guess was the longest ago have gone.
        assert_eq!(
            [known(most - 1), known(most), known(2 * most - 1)],
            [0, 1, 1]
        );
    }
}
