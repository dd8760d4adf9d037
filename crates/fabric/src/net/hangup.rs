//! The thread that detects the end of idle connections.
//!
//! An endpoint looks at its connections only while verbs are in flight. If an idle connection ends,
//! because its node stops or the kernel's keepalive gets no answer, only the next verb would
//! notice, and that verb would be lost. So one thread of the process waits for the ends of all
//! connections of all endpoints.

use crate::Result;
use crate::error::os;
use rustix::event::epoll::{self, Event, EventData, EventFlags};
use rustix::event::{EventfdFlags, eventfd};
use std::collections::HashMap;
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// Is told that a connection has ended.
pub(crate) trait HangupListener: Send + Sync {
    /// The connection of that watch has ended.
    fn has_ended(self: Arc<Self>, watch: u64);
}

/// The thread, for as long as anybody watches anything.
pub(crate) struct HangupWatcher(Arc<HangupPoller>);

struct HangupPoller {
    epoll: OwnedFd,
    /// Has the thread look whether it is to end.
    wake: OwnedFd,
    ended: AtomicBool,
    watched: Mutex<WatchTable>,
}

#[derive(Default)]
struct WatchTable {
    /// Whose connection it is, and where to note its end, by the number of the watch.
    dialers: HashMap<u64, (Weak<dyn HangupListener>, Arc<AtomicBool>)>,
    last: u64,
}

/// A connection that is watched while this is held.
pub(crate) struct HangupWatch {
    watcher: Arc<HangupWatcher>,
    number: u64,
    ended: Arc<AtomicBool>,
}

/// Stands for the eventfd; watches are numbered from 1.
const WAKE: u64 = 0;

static WATCHER: Mutex<Weak<HangupWatcher>> = Mutex::new(Weak::new());

impl HangupWatcher {
    /// The process's watcher, started if there is none.
    fn of_process() -> Result<Arc<Self>> {
        let mut current = WATCHER.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(watcher) = current.upgrade() {
            return Ok(watcher);
        }
        let watcher = Arc::new(Self::start()?);
        *current = Arc::downgrade(&watcher);
        Ok(watcher)
    }

    fn start() -> Result<Self> {
        let poller = Arc::new(HangupPoller {
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC).map_err(os("epoll_create"))?,
            wake: eventfd(0, EventfdFlags::CLOEXEC).map_err(os("eventfd"))?,
            ended: AtomicBool::new(false),
            watched: Mutex::default(),
        });
        let wake = EventData::new_u64(WAKE);
        epoll::add(&poller.epoll, &poller.wake, wake, EventFlags::IN).map_err(os("epoll_ctl"))?;
        let waiting = Arc::clone(&poller);
        std::thread::Builder::new()
            .name("farslot-keeper".into())
            .spawn(move || waiting.wait())
            .map_err(os("spawning a thread"))?;
        Ok(Self(poller))
    }
}

impl Drop for HangupWatcher {
    fn drop(&mut self) {
        self.0.ended.store(true, Ordering::Release);
        // It can only fail where the counter is full, and then the thread is woken anyway. It ends
        // in its own time: this may be that thread.
        let _ = rustix::io::write(&self.0.wake, &1u64.to_ne_bytes());
    }
}

impl HangupWatch {
    /// Tells a dialer once when this connection of it has ended.
    ///
    /// # Errors
    /// [`FabricError::Os`](crate::FabricError::Os): no file, no memory or no thread can be had.
    pub(crate) fn new(stream: &TcpStream, dialer: Weak<dyn HangupListener>) -> Result<Self> {
        let watcher = HangupWatcher::of_process()?;
        let ended = Arc::new(AtomicBool::new(false));
        let mut watched = watcher.0.watched();
        watched.last += 1;
        let number = watched.last;
        let listener = (dialer, Arc::clone(&ended));
        watched.dialers.insert(number, listener);
        drop(watched);
        let watch = Self {
            watcher,
            number,
            ended,
        };
        // Errors and the end of both directions are always told.
        let end = EventFlags::RDHUP | EventFlags::ONESHOT;
        let poller = &watch.watcher.0;
        epoll::add(&poller.epoll, stream, EventData::new_u64(number), end)
            .map_err(os("epoll_ctl"))?;
        Ok(watch)
    }

    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Whether the connection has ended, as far as the kernel knows. The dialer is told after this
    /// is so.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }
}

impl Drop for HangupWatch {
    fn drop(&mut self) {
        // The kernel forgets the socket when it is closed.
        self.watcher.0.watched().dialers.remove(&self.number);
    }
}

impl HangupPoller {
    fn watched(&self) -> MutexGuard<'_, WatchTable> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells of ends until the watcher is dropped.
    fn wait(&self) {
        let mut events: Vec<Event> = Vec::with_capacity(64);
        while !self.ended.load(Ordering::Acquire) {
            events.clear();
            // Interrupted or not, what there is will be told again.
            let _ = epoll::wait(
                &self.epoll,
                rustix::buffer::spare_capacity(&mut events),
                None,
            );
            for event in &events {
                let number = event.data.u64();
                let Some((dialer, ended)) = self.watched().dialers.get(&number).cloned() else {
                    continue;
                };
                ended.store(true, Ordering::Release);
                if let Some(dialer) = dialer.upgrade() {
                    dialer.has_ended(number);
                }
            }
        }
    }
}
