//! Processes that start together, as HPC launchers start them: who is which, a barrier, and an
//! all-gather, without MPI.
//!
//! Each process learns its rank and how many there are from the environment that `mpirun` or `srun`
//! sets ([`Launch::from_environment`]), or is told. Rank 0 listens at the rendezvous address; the
//! others connect to it, and collectives go through it: few and small, as they only exchange
//! addresses and stop the world.
//!
//! ```text
//! frame: +-----------------+---------+
//!        | bytes | kind    | payload |
//!        +-------+---------+---------+
//!        0       4         8
//!
//! rank r > 0 -> 0:  HELLO (magic, ranks, rank), then PART frames
//! 0 -> rank r:      ALL frames: the parts of all ranks, each behind its length;
//!                   DEAD: the rank that was lost
//!                   REFUSED: a rank that came, how many ranks it and rank 0 know;
//!                   BEGUN: a rank that came too late, how many ranks there are
//! ```
//! A process that dies closes its connection: all others get [`JobError::RankDied`] from the
//! collective that they are in, or from the next. One that hangs is noticed by the timeout. Where
//! two say that they are the same rank, or one knows of another number of ranks, none goes on. Once
//! all have come, rank 0 still listens: it tells whoever comes later that the job has begun. What
//! all must have alike they compare by [`Job::agree`]. Frames are bounded; there is no
//! authentication: the rendezvous address belongs on a network that is trusted, as that of an MPI
//! job does.

mod door;
mod error;
mod frames;

pub use error::{JobError, MAX_PART};

use crate::agreement;
use door::{LatecomerListener, say_last};
use error::MAX_RANKS;
use frames::{
    ALL, BEGUN, DEAD, HELLO, MAGIC, PART, PAUSE, REFUSED, greeted, lost, receive, send, split_parts,
};
use std::io::ErrorKind;
use std::net::{TcpListener, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

/// For this part of the timeout a job that has begun, or a rank 0 that goes, may be that of a job
/// that is about to end, and the next one the right one.
const GRACE: u32 = 30;

/// Pairs of variables that launchers set: rank, and number of ranks.
const VARIABLES: [(&str, &str); 3] = [
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
    ("SLURM_PROCID", "SLURM_NTASKS"),
];

/// Which process of a job this is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launch {
    /// This process's rank, from 0.
    pub rank: u32,
    /// How many processes there are.
    pub ranks: u32,
    /// `HOST:PORT` that rank 0 listens at; not needed by a process alone.
    pub rendezvous: Option<String>,
    /// The longest wait for another process, in joining and in each collective.
    pub timeout: Duration,
}

impl Launch {
    /// A process alone.
    #[must_use]
    pub fn alone() -> Self {
        Self {
            rank: 0,
            ranks: 1,
            rendezvous: None,
            timeout: Duration::from_secs(60),
        }
    }

    /// What the environment says that `mpirun` (Open MPI or MPICH) or `srun` gave this process; a
    /// process alone without one.
    ///
    /// # Errors
    /// [`JobError::BadVariable`].
    pub fn from_environment(rendezvous: Option<String>) -> Result<Self, JobError> {
        Self::from_variables(|name| std::env::var(name).ok(), rendezvous)
    }

    fn from_variables(
        variable: impl Fn(&str) -> Option<String>,
        rendezvous: Option<String>,
    ) -> Result<Self, JobError> {
        for (rank_name, ranks_name) in VARIABLES {
            let (Some(rank), Some(ranks)) = (variable(rank_name), variable(ranks_name)) else {
                continue;
            };
            let ranks = number(ranks_name, &ranks, 1, MAX_RANKS)?;
            let rank = number(rank_name, &rank, 0, ranks - 1)?;
            return Ok(Self {
                rank,
                ranks,
                rendezvous,
                ..Self::alone()
            });
        }
        Ok(Self {
            rendezvous,
            ..Self::alone()
        })
    }
}

fn number(name: &str, value: &str, least: u32, most: u32) -> Result<u32, JobError> {
    let parsed = value.trim().parse().ok();
    let in_range = parsed.filter(|number| (least..=most).contains(number));
    in_range.ok_or_else(|| JobError::BadVariable {
        name: name.into(),
        value: value.into(),
        least,
        most,
    })
}

/// A process's place in its job. Collectives are called by all ranks in the same order.
#[derive(Debug)]
pub struct Job {
    launch: Launch,
    /// Of rank 0 the connections of all others in their order, of the others that to rank 0.
    peers: Vec<TcpStream>,
    /// Of rank 0: what tells others that they come too late.
    _door: Option<LatecomerListener>,
}

impl Job {
    /// Joins the job: returns when all of its processes have.
    ///
    /// # Errors
    /// [`JobError::NoSuchRank`], [`JobError::NoRendezvous`], [`JobError::NotAllCame`],
    /// [`JobError::SameRank`], [`JobError::OtherRanks`], [`JobError::HasBegun`],
    /// [`JobError::NobodyListens`], [`JobError::Io`], and as [`Job::all_gather`].
    pub fn join(launch: Launch) -> Result<Self, JobError> {
        let listener = match &launch.rendezvous {
            Some(address) if launch.rank == 0 && launch.ranks > 1 => {
                Some(TcpListener::bind(address).map_err(io("listening at", address))?)
            }
            _ => None,
        };
        Self::join_over(launch, listener)
    }

    /// [`Job::join`], where rank 0 listens already, and the others connect to where
    /// [`Launch::rendezvous`] says.
    ///
    /// # Errors
    /// As [`Job::join`].
    pub fn join_over(launch: Launch, listener: Option<TcpListener>) -> Result<Self, JobError> {
        let (rank, ranks) = (launch.rank, launch.ranks);
        if rank >= ranks || ranks > MAX_RANKS {
            return Err(JobError::NoSuchRank { rank, ranks });
        }
        let (timeout, started) = (launch.timeout, Instant::now());
        let deadline = started + timeout;
        let mut job = Self {
            launch,
            peers: Vec::new(),
            _door: None,
        };
        if ranks == 1 {
            return Ok(job);
        }
        if let Some(listener) = listener {
            job.peers = gather_ranks(&listener, ranks, deadline, timeout)?;
            job._door = Some(LatecomerListener::new(listener, ranks));
            job.barrier()?;
            return Ok(job);
        }
        let address = job.launch.rendezvous.clone().filter(|_| rank > 0);
        let address = address.ok_or(JobError::NoRendezvous { ranks })?;
        loop {
            job.peers = vec![connect(&address, rank, ranks, deadline, timeout)?];
            match job.barrier() {
                Err(JobError::HasBegun { .. } | JobError::RankDied { rank: 0 })
                    if started.elapsed() < timeout / GRACE =>
                {
                    std::thread::sleep(PAUSE);
                }
                end => return end.map(|()| job),
            }
        }
    }

    /// This process's rank.
    #[must_use]
    pub fn rank(&self) -> u32 {
        self.launch.rank
    }

    /// How many processes there are.
    #[must_use]
    pub fn ranks(&self) -> u32 {
        self.launch.ranks
    }

    /// Waits until all ranks have called it.
    ///
    /// # Errors
    /// As [`Job::all_gather`].
    pub fn barrier(&mut self) -> Result<(), JobError> {
        self.all_gather(&[]).map(drop)
    }

    /// Compares what all ranks must have alike: each gives what it has, by the same names in the
    /// same order. All ranks get the same answer.
    ///
    /// # Errors
    /// [`JobError::Disagreement`], of the first rank and the first name; as [`Job::all_gather`].
    pub fn agree(&mut self, terms: &[(&str, &str)]) -> Result<(), JobError> {
        let all = self.all_gather(&agreement::encoded(terms))?;
        let ours = agreement::decoded(&all[0]);
        for (rank, part) in (0..).zip(&all) {
            let found = agreement::difference(&ours, &agreement::decoded(part));
            if let Some((term, ours, peer)) = found {
                return Err(JobError::Disagreement {
                    term,
                    rank,
                    peer,
                    ours,
                });
            }
        }
        Ok(())
    }

    /// Gives every rank what each has given, in the order of the ranks.
    ///
    /// # Errors
    /// [`JobError::TooLong`]; [`JobError::RankDied`] and [`JobError::TimedOut`], after which the
    /// job is of no more use; [`JobError::Malformed`].
    pub fn all_gather(&mut self, part: &[u8]) -> Result<Vec<Vec<u8>>, JobError> {
        if part.len() > MAX_PART {
            return Err(JobError::TooLong { bytes: part.len() });
        }
        if self.rank() > 0 {
            return self.gather_by_root(part);
        }
        let gathered = self.gather_here(part);
        if let Err(JobError::RankDied { rank } | JobError::TimedOut { rank, .. }) = &gathered {
            // Those that are alive hear of it at once.
            let dead = rank.to_le_bytes();
            for peer in &mut self.peers {
                let _ = send(peer, DEAD, &dead);
            }
        }
        gathered
    }

    fn gather_by_root(&mut self, part: &[u8]) -> Result<Vec<Vec<u8>>, JobError> {
        let (timeout, ranks) = (self.launch.timeout, self.ranks());
        let root = &mut self.peers[0];
        // Rank 0 may itself wait as long for another rank before it says so.
        let within = timeout.saturating_mul(2);
        send(root, PART, part).map_err(|error| lost(0, &error, within))?;
        let most = (MAX_PART + 4) * ranks as usize;
        let (kind, payload) = receive(root, 0, most, Instant::now() + within, within)?;
        match kind {
            ALL => split_parts(&payload, ranks),
            DEAD if payload.len() == 4 => {
                let rank = payload.try_into().map_or(0, u32::from_le_bytes);
                Err(JobError::RankDied { rank })
            }
            REFUSED => Err(refusal(&payload)),
            BEGUN => Err(has_begun(&payload)),
            _ => Err(JobError::Malformed {
                rank: 0,
                reason: "a frame of the wrong kind",
            }),
        }
    }

    fn gather_here(&mut self, part: &[u8]) -> Result<Vec<Vec<u8>>, JobError> {
        let timeout = self.launch.timeout;
        let deadline = Instant::now() + timeout;
        let mut parts = vec![part.to_vec()];
        for (peer, rank) in self.peers.iter_mut().zip(1..) {
            let (kind, part) = receive(peer, rank, MAX_PART, deadline, timeout)?;
            if kind != PART {
                return Err(JobError::Malformed {
                    rank,
                    reason: "a frame of the wrong kind",
                });
            }
            parts.push(part);
        }
        let mut all = Vec::new();
        for part in &parts {
            all.extend_from_slice(&(part.len() as u32).to_le_bytes());
            all.extend_from_slice(part);
        }
        for (peer, rank) in self.peers.iter_mut().zip(1..) {
            send(peer, ALL, &all).map_err(|error| lost(rank, &error, timeout))?;
        }
        Ok(parts)
    }
}

/// Rank 0: takes the connections of all others.
fn gather_ranks(
    listener: &TcpListener,
    ranks: u32,
    deadline: Instant,
    timeout: Duration,
) -> Result<Vec<TcpStream>, JobError> {
    let nonblocking = listener.set_nonblocking(true);
    nonblocking.map_err(io("listening at", "the rendezvous"))?;
    let mut came: Vec<Option<TcpStream>> = (1..ranks).map(|_| None).collect();
    while came.iter().any(Option::is_none) {
        if Instant::now() >= deadline {
            return Err(JobError::NotAllCame {
                came: 1 + came.iter().flatten().count() as u32,
                ranks,
                after: timeout,
            });
        }
        let Ok((mut stream, _)) = listener.accept() else {
            std::thread::sleep(PAUSE);
            continue;
        };
        // Whoever does not say at once that it is a rank of a job is none.
        let soon = deadline.min(Instant::now() + Duration::from_secs(2));
        let Some((rank, of)) = greeted(&mut stream, soon, timeout) else {
            continue;
        };
        match came.get_mut((rank as usize).wrapping_sub(1)) {
            Some(place @ None) if of == ranks => *place = Some(stream),
            // Not all can come any more: all hear why.
            _ => {
                let refused = [rank, of, ranks].map(u32::to_le_bytes).concat();
                for peer in came.iter_mut().flatten().chain([&mut stream]) {
                    say_last(peer, REFUSED, &refused);
                }
                return Err(refusal(&refused));
            }
        }
    }
    Ok(came.into_iter().flatten().collect())
}

/// Why rank 0 refuses one that came.
fn refusal(payload: &[u8]) -> JobError {
    match *payload.as_chunks::<4>().0 {
        [rank, peer, ranks] => {
            let [rank, peer, ranks] = [rank, peer, ranks].map(u32::from_le_bytes);
            match peer == ranks {
                true => JobError::SameRank { rank, ranks },
                false => JobError::OtherRanks { rank, peer, ranks },
            }
        }
        _ => JobError::Malformed {
            rank: 0,
            reason: "a refusal of another length",
        },
    }
}

/// Why one that came late cannot join.
fn has_begun(payload: &[u8]) -> JobError {
    match *payload.as_chunks::<4>().0 {
        [rank, ranks] => JobError::HasBegun {
            rank: u32::from_le_bytes(rank),
            ranks: u32::from_le_bytes(ranks),
        },
        _ => JobError::Malformed {
            rank: 0,
            reason: "a refusal of another length",
        },
    }
}

/// Another rank: connects to rank 0, which may not listen yet.
fn connect(
    address: &str,
    rank: u32,
    ranks: u32,
    deadline: Instant,
    after: Duration,
) -> Result<TcpStream, JobError> {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let found = address.to_socket_addrs();
        let found = found.map_err(io("resolving", address))?.next();
        let tried = match found {
            Some(found) if !left.is_zero() => TcpStream::connect_timeout(&found, left),
            _ => Err(ErrorKind::TimedOut.into()),
        };
        match tried {
            Ok(mut stream) => {
                let mut hello = MAGIC.to_le_bytes().to_vec();
                hello.extend_from_slice(&ranks.to_le_bytes());
                hello.extend_from_slice(&rank.to_le_bytes());
                stream
                    .set_nodelay(true)
                    .map_err(io("connecting to", address))?;
                send(&mut stream, HELLO, &hello).map_err(io("connecting to", address))?;
                return Ok(stream);
            }
            Err(error) if left <= PAUSE => {
                return Err(JobError::NobodyListens {
                    address: address.into(),
                    after,
                    error: error.to_string(),
                });
            }
            Err(_) => std::thread::sleep(PAUSE),
        }
    }
}

fn io<'a>(action: &'static str, address: &'a str) -> impl Fn(std::io::Error) -> JobError + 'a {
    move |error| JobError::Io {
        action,
        address: address.into(),
        error: error.to_string(),
    }
}

#[cfg(test)]
#[path = "job_tests.rs"]
mod tests;
