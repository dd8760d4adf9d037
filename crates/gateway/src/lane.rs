//! The two lanes of a thread of the gateway, each with a thread of its own: one for connections
//! whose requests are short, and one for those that ask for what is long. A connection belongs to
//! one of them, and is handed to the other when what it asks for becomes long, or short again. So
//! who asks for little waits for nothing that is long.

use crate::connection::Connection;
use rustix::event::{EventfdFlags, eventfd};
use std::os::fd::OwnedFd;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};

/// What the threads of two lanes know of one of them.
#[derive(Debug)]
pub(crate) struct ConnectionLane {
    /// Connections on their way to it.
    arriving: Mutex<Vec<Connection>>,
    /// Readable when there is something to do.
    pub(crate) wakeups: OwnedFd,
    /// Bytes that its connections hold.
    held: AtomicUsize,
    /// Bytes that were let go since it was last looked at how many of them the allocator has still,
    /// and how many it had then; of both, the second.
    freed: AtomicUsize,
    left: AtomicUsize,
    /// Connections that have asked for what is long and have not gone on for a moment.
    waiting: AtomicUsize,
    /// How many of those are to be closed for newcomers.
    to_close: AtomicUsize,
}

/// A lane, and the other one of the two.
#[derive(Debug)]
pub(crate) struct Lanes {
    pub(crate) local: Arc<ConnectionLane>,
    pub(crate) other: Arc<ConnectionLane>,
    /// Whether requests of the own one are long.
    pub(crate) is_long: bool,
}

impl ConnectionLane {
    fn new() -> rustix::io::Result<Arc<Self>> {
        Ok(Arc::new(Self {
            arriving: Mutex::default(),
            wakeups: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            held: AtomicUsize::new(0),
            freed: AtomicUsize::new(0),
            left: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
            to_close: AtomicUsize::new(0),
        }))
    }

    /// Tells its thread that there is something to do.
    fn tell(&self) {
        // One that was told already is told.
        let _ = rustix::io::write(&self.wakeups, &1_u64.to_ne_bytes());
    }

    /// Closes one of its connections for a newcomer, if one has waited for long.
    pub(crate) fn makes_room(&self) -> bool {
        let less = |waiting: usize| waiting.checked_sub(1);
        if self.waiting.fetch_update(Relaxed, Relaxed, less).is_err() {
            return false;
        }
        self.to_close.fetch_add(1, Relaxed);
        self.tell();
        true
    }

    /// How many of its connections are to be closed.
    pub(crate) fn to_close(&self) -> usize {
        self.to_close.swap(0, Relaxed)
    }

    /// Notes how many of its connections have waited for long.
    pub(crate) fn note_waiting(&self, waiting: usize) {
        let going = self.to_close.load(Relaxed);
        self.waiting.store(waiting.saturating_sub(going), Relaxed);
    }

    /// The connections that were handed to it.
    pub(crate) fn arrivals(&self) -> Vec<Connection> {
        let _ = rustix::io::read(&self.wakeups, &mut [0; 8]);
        let mut arriving = self.arriving.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *arriving)
    }
}

impl Lanes {
    /// Both of a thread: that of short requests, and that of long ones.
    pub(crate) fn new() -> rustix::io::Result<[Self; 2]> {
        let [short, long] = [ConnectionLane::new()?, ConnectionLane::new()?];
        let of = |local: &Arc<ConnectionLane>, other: &Arc<ConnectionLane>, is_long| Self {
            local: Arc::clone(local),
            other: Arc::clone(other),
            is_long,
        };
        Ok([of(&short, &long, false), of(&long, &short, true)])
    }

    /// Whether a connection belongs to the other lane. What unauthenticated clients may ask for is
    /// never long.
    pub(crate) fn has_left(&self, connection: &Connection) -> bool {
        connection.is_long != self.is_long && !connection.is_unauthenticated
    }

    /// Gives a connection to the other lane.
    pub(crate) fn hand_over(&self, connection: Connection) {
        let held = connection.counted;
        self.local.held.fetch_sub(held, Relaxed);
        self.other.held.fetch_add(held, Relaxed);
        let arriving = &self.other.arriving;
        let mut arriving = arriving.lock().unwrap_or_else(PoisonError::into_inner);
        arriving.push(connection);
        drop(arriving);
        self.other.tell();
    }

    /// Notes that a connection holds so many bytes, and no longer those that were counted.
    pub(crate) fn count(&self, counted: &mut usize, held: usize) {
        self.local.held.fetch_add(held, Relaxed);
        self.local.held.fetch_sub(*counted, Relaxed);
        if held != *counted {
            // A buffer that has doubled, time and again, has let go less than it has now.
            self.let_go(held.max(*counted));
        }
        *counted = held;
    }

    /// Notes that so many bytes were freed.
    pub(crate) fn let_go(&self, bytes: usize) {
        self.local.freed.fetch_add(bytes, Relaxed);
    }

    /// Has what was freed go back to the system where it would be more than `most` with what both
    /// hold. What was freed is often what is held next: so it is looked at how much is left of it,
    /// once in `step` bytes.
    pub(crate) fn bound_freed(&self, most: usize, step: usize) {
        let lanes = [&self.local, &self.other];
        let sum = |of: fn(&ConnectionLane) -> &AtomicUsize| -> usize {
            lanes.iter().map(|lane| of(lane).load(Relaxed)).sum()
        };
        let (freed, left, held) = (sum(|lane| &lane.freed), sum(|lane| &lane.left), self.held());
        if freed <= step || held + left + freed <= most {
            return;
        }
        let left = farslot::health::give_back_freed(most.saturating_sub(held));
        for (lane, left) in lanes.iter().zip([left, 0]) {
            lane.freed.store(0, Relaxed);
            lane.left.store(left, Relaxed);
        }
    }

    /// Bytes that the connections of both hold.
    pub(crate) fn held(&self) -> usize {
        self.own_held() + self.other.held.load(Relaxed)
    }

    /// Those of the own one.
    pub(crate) fn own_held(&self) -> usize {
        self.local.held.load(Relaxed)
    }

    /// Whether it is for this one to close connections where both hold too much.
    pub(crate) fn holds_more(&self) -> bool {
        self.own_held() >= self.held() / 2
    }
}
