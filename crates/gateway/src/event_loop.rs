//! A thread of the gateway: the connections of a [lane](crate::lane), served tick by tick.
//!
//! Where requests are short, a tick does those of all connections that are ready. Where requests,
//! or replies, are long, it does one, or as many as fit into a mebibyte.
//!
//! What all connections cost together is bounded by `GatewayState::buffers`: what they keep between
//! ticks, and what a tick takes besides, which is a quarter of the rest at the most. A client that
//! does not take its replies is not read, and is disconnected when it has taken nothing for a
//! minute. When connections keep three quarters of the limit, those of them are closed that keep
//! more than others and have not gone on for the longest. What was freed counts with the rest until
//! it is given back to the system: the allocator keeps it between what is in use, in pieces that
//! the next buffer may be too long for.

#[cfg(test)]
mod tests;

use crate::connection::Connection;
use crate::databases::Databases;
use crate::failure::Failure;
use crate::gathered::{ConnectionOutcome, Longest};
use crate::lane::Lanes;
use crate::session::Choices;
use crate::shared::{GatewayState, Notice};
use crate::tick::{ByKey, TickRoom, TickSteps};
use farslot::{Expiry, Store};
use farslot_fabric::net::Socket;
use farslot_fabric::tcp::UnauthenticatedClients;
use rustix::event::Timespec;
use rustix::event::epoll::{self, EventData, EventFlags};
use std::collections::VecDeque;
use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// Stands for the listening socket.
const LISTENER: u64 = u64::MAX;
/// Stands for the eventfd that says that the gateway ends.
const END: u64 = u64::MAX - 1;
/// Stands for the one that says that the lane has something to do.
const LANE: u64 = u64::MAX - 2;

/// Bytes that one read takes.
const READ: usize = 64 << 10;
/// Bytes of requests that have not arrived whole, which a connection may have unless it is closed
/// for the sake of others.
const LEAST_ROOM: usize = 64 << 10;
/// Bytes that the requests of a tick take together, of short ones and of long ones: others wait for
/// no longer than these take.
const A_TICK: [usize; 2] = [4 << 20, 1 << 20];
/// Bytes of long requests that are received in a round.
const RECEIVED_A_ROUND: usize = 256 << 10;
/// Events that are taken from the kernel at once: about as many as there are connections.
const EVENTS: usize = 2048;
/// Bytes by which the memory in use must have shrunk before it is looked at whether there is more
/// of it than may be.
const LOOKED_AT: usize = 8 << 20;
/// Freed bytes that stay for what is allocated next once a flood is over.
const KEPT: usize = 32 << 20;
/// How long a client may take to show that it knows the secret.
const ADMISSION_TIME: Duration = Duration::from_secs(10);
/// How long one may take none of its replies.
const STUCK: Duration = Duration::from_secs(60);
/// How often this is looked at.
const LOOK: Duration = Duration::from_secs(1);
/// How often the connections of the lane that is long are counted that could make room for others.
const COUNTED_AGAIN: Duration = Duration::from_millis(10);
/// How often it is looked whether a connection has rested for long enough.
const LOOK_AT_RESTING: Duration = Duration::from_millis(20);
/// Connections that are accepted before others have their turn.
const ACCEPTED_A_TICK: usize = 4;
/// Steps of TLS handshakes before others have their turn: one takes as long as many short requests.
const HANDSHAKES_A_ROUND: usize = 2;
/// Unauthenticated clients whose time is up, of which so many are closed before others have their
/// tick.
const ENDED_A_ROUND: usize = 8;
/// How long none is accepted where the process may open no more files.
const PAUSE: Duration = Duration::from_millis(10);

/// A thread of the gateway.
pub(crate) struct EventLoop {
    shared: Arc<GatewayState>,
    lanes: Lanes,
    epoll: OwnedFd,
    /// That of the lane of short requests, with which every connection begins.
    listener: Option<TcpListener>,
    databases: Databases,
    places: Vec<Option<Box<Connection>>>,
    vacant: Vec<usize>,
    /// The places of connections that have something to do.
    ready: Vec<usize>,
    /// Bytes that may be received of long requests in this round.
    may_receive: usize,
    /// The places of connections whose handshake of TLS can go on, in the order in which they came.
    shaking: VecDeque<usize>,
    /// The places of connections that rest because they gave a wrong secret.
    resting: Vec<usize>,
    /// Those of clients that have not shown that they know the secret.
    unauthenticated: UnauthenticatedClients,
    /// The most bytes that were in use since some were given back to the system.
    most_used: usize,
    looked: Instant,
    /// When those were counted who could be closed for newcomers.
    counted_waiting: Instant,
    buffer: Vec<u8>,
    /// What ticks are made of.
    by_key: ByKey,
    /// Bytes of all replies that it has made.
    #[cfg(test)]
    replied: usize,
}

impl EventLoop {
    /// One that serves the connections of a lane, and those that it accepts, until `end` is
    /// readable.
    pub(crate) fn new(
        shared: Arc<GatewayState>,
        lanes: Lanes,
        listener: Option<TcpListener>,
        end: &OwnedFd,
        store: Store,
    ) -> rustix::io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, end, EventData::new_u64(END), EventFlags::IN)?;
        let wakeups = &lanes.local.wakeups;
        epoll::add(&epoll, wakeups, EventData::new_u64(LANE), EventFlags::IN)?;
        if let Some(listener) = &listener {
            let data = EventData::new_u64(LISTENER);
            epoll::add(&epoll, listener, data, EventFlags::IN)?;
        }
        Ok(Self {
            unauthenticated: UnauthenticatedClients::new(shared.unauthenticated),
            databases: Databases::new(store, shared.evicting),
            shared,
            lanes,
            epoll,
            listener,
            places: Vec::new(),
            vacant: Vec::new(),
            ready: Vec::new(),
            may_receive: 0,
            shaking: VecDeque::new(),
            resting: Vec::new(),
            most_used: 0,
            looked: Instant::now(),
            counted_waiting: Instant::now(),
            buffer: vec![0; READ],
            by_key: ByKey::default(),
            #[cfg(test)]
            replied: 0,
        })
    }

    /// Serves until the gateway ends.
    pub(crate) fn run(mut self) {
        let mut events = Vec::with_capacity(EVENTS);
        while !self.shared.is_ending.load(Relaxed) {
            let sleep = match (self.ready.is_empty(), self.resting.is_empty()) {
                (false, _) => Duration::ZERO,
                (true, false) => LOOK_AT_RESTING,
                (true, true) => LOOK,
            };
            let sleep = sleep.min(LOOK.saturating_sub(self.looked.elapsed()));
            if !self.round(sleep, &mut events) {
                return;
            }
        }
    }

    /// Sleeps for so long at the most, handles the kernel's events, and runs a tick over the
    /// connections that are ready. Returns whether the gateway goes on.
    fn round(&mut self, sleep: Duration, events: &mut Vec<epoll::Event>) -> bool {
        events.clear();
        let timeout = Timespec {
            tv_sec: sleep.as_secs() as i64,
            tv_nsec: sleep.subsec_nanos().into(),
        };
        // Interrupted or not, what there is will be told again.
        let space = rustix::buffer::spare_capacity(events);
        let _ = epoll::wait(&self.epoll, space, Some(&timeout));
        self.may_receive = RECEIVED_A_ROUND;
        for event in events {
            match event.data.u64() {
                END => return false,
                LISTENER => self.accept(),
                LANE => self.receive_others(),
                place => self.react(place as usize, event.flags),
            }
        }
        self.shake_hands();
        self.tick();
        if !self.resting.is_empty() {
            self.wake();
        }
        if self.lanes.is_long && self.counted_waiting.elapsed() >= COUNTED_AGAIN {
            self.counted_waiting = Instant::now();
            self.lanes.local.note_waiting(self.waiting().count());
        }
        if self.looked.elapsed() >= LOOK && self.end_late_ones() {
            self.looked = Instant::now();
            self.databases.report();
            self.give_back();
        }
        true
    }

    /// Gives memory back to the system after a flood.
    fn give_back(&mut self) {
        let held = self.lanes.own_held();
        if self.most_used > held + LOOKED_AT {
            self.most_used = held;
            self.by_key = ByKey::default();
            farslot::health::give_back_freed(KEPT);
        }
    }

    /// Goes on with connections that have rested.
    fn wake(&mut self) {
        let now = Instant::now();
        for place in std::mem::take(&mut self.resting) {
            let Some(mut connection) = self.places[place].take() else {
                continue;
            };
            if connection.rest_until.is_some_and(|until| until <= now) {
                connection.rest_until = None;
                self.settle(place, connection);
            } else {
                let rests = connection.rest_until.is_some();
                self.resting.extend(rests.then_some(place));
                self.places[place] = Some(connection);
            }
        }
    }

    fn accept(&mut self) {
        for _ in 0..ACCEPTED_A_TICK {
            let Some(listener) = &self.listener else {
                return;
            };
            match listener.accept() {
                Ok((stream, peer)) => self.welcome(stream, peer),
                Err(error) => match error.kind() {
                    std::io::ErrorKind::WouldBlock => return,
                    std::io::ErrorKind::Interrupted | std::io::ErrorKind::ConnectionAborted => {}
                    _ => {
                        log::warn!("the Redis gateway cannot accept a connection: {error}");
                        return std::thread::sleep(PAUSE);
                    }
                },
            }
        }
    }

    fn welcome(&mut self, mut stream: TcpStream, peer: SocketAddr) {
        let counts = &self.shared.counts;
        let is_full = counts.connected.fetch_add(1, Relaxed) >= self.shared.connections;
        if let Some(unauthenticated) = self.unauthenticated.to_go_for(peer.ip()) {
            counts.turned_away.fetch_add(1, Relaxed);
            self.let_go(unauthenticated as usize);
        } else if is_full && !self.lanes.other.makes_room() {
            // Those who have only just come are the last to go, or newcomers would close each
            // other.
            if let Some(place) = self.longest_waiting() {
                self.evict_from(place);
            } else if let Some(unauthenticated) = self.unauthenticated.oldest() {
                counts.turned_away.fetch_add(1, Relaxed);
                self.let_go(unauthenticated as usize);
            } else {
                counts.turned_away.fetch_add(1, Relaxed);
                counts.connected.fetch_sub(1, Relaxed);
                // A handshake costs more than the word is worth.
                if self.shared.tls.is_none() {
                    // A new connection has room for it; and what becomes of it is the client's
                    // business.
                    let _ = stream.set_nonblocking(true);
                    let _ = write!(stream, "-{}\r\n", Failure::Connections);
                }
                return;
            }
        }
        let counts = &self.shared.counts;
        let id = counts.accepted.fetch_add(1, Relaxed) + 1;
        let socket = match self.shared.secured(stream) {
            Ok(socket) => socket,
            Err(error) => {
                counts.connected.fetch_sub(1, Relaxed);
                return log::warn!("the Redis gateway cannot take a connection: {error}");
            }
        };
        let place = self.vacant_place();
        let watched = self.watch(&socket, place, (true, false));
        let choices = Choices::new(&self.shared, id, Some(peer));
        let mut connection = Box::new(Connection::new(socket, choices));
        let held = connection.held();
        self.lanes.count(&mut connection.counted, held);
        if !connection.is_admitted() {
            connection.is_unauthenticated = true;
            let until = Instant::now() + ADMISSION_TIME;
            self.unauthenticated.add(place as u64, peer.ip(), until);
        }
        match watched {
            Ok(()) => self.places[place] = Some(connection),
            Err(error) => {
                log::warn!("the Redis gateway cannot watch a connection: {error}");
                self.close(place, connection);
            }
        }
    }

    /// A place that no connection has.
    fn vacant_place(&mut self) -> usize {
        let place = self.vacant.pop().unwrap_or(self.places.len());
        if place == self.places.len() {
            self.places.push(None);
        }
        place
    }

    /// Has the kernel tell of a connection.
    fn watch(&self, socket: &Socket, place: usize, wants: (bool, bool)) -> std::io::Result<()> {
        let data = EventData::new_u64(place as u64);
        let flags = flags_of(wants);
        Ok(epoll::add(&self.epoll, socket.tcp(), data, flags)?)
    }

    /// Takes in the connections that the other lane has handed over, and closes those of its own
    /// that make room for newcomers.
    fn receive_others(&mut self) {
        for connection in self.lanes.local.arrivals() {
            let mut connection = Box::new(connection);
            let place = self.vacant_place();
            connection.watched = connection.wants();
            match self.watch(&connection.socket, place, connection.watched) {
                Ok(()) => self.settle(place, connection),
                Err(error) => {
                    log::warn!("the Redis gateway cannot watch a connection: {error}");
                    self.close(place, connection);
                }
            }
        }
        for _ in 0..self.lanes.local.to_close() {
            if let Some(place) = self.longest_waiting() {
                self.evict_from(place);
            }
        }
    }

    /// Does what the kernel has told of a connection.
    fn react(&mut self, place: usize, events: EventFlags) {
        let Some(mut connection) = self.places.get_mut(place).and_then(Option::take) else {
            return;
        };
        let mut alive = true;
        if events.contains(EventFlags::OUT) {
            alive = connection.send().is_ok();
        }
        let has_input = EventFlags::IN | EventFlags::HUP | EventFlags::ERR;
        // One with requests that were not done is told of again.
        let takes_input = connection.watched.0 && !connection.is_ready;
        if alive && connection.is_long && takes_input && self.may_receive == 0 {
            // It is told of again.
            return self.settle(place, connection);
        }
        if alive && connection.socket.is_shaking_hands() {
            if !std::mem::replace(&mut connection.is_shaking, true) {
                self.shaking.push_back(place);
            }
            return self.settle(place, connection);
        }
        if alive && events.intersects(has_input) && takes_input {
            let before = connection.input_bytes();
            alive = connection.receive(&mut self.buffer).is_ok();
            if connection.is_long {
                let received = connection.input_bytes() - before;
                self.may_receive = self.may_receive.saturating_sub(received);
            }
        } else if events.intersects(EventFlags::HUP | EventFlags::ERR) {
            // Nobody is there to take the replies that wait.
            alive = false;
        }
        if !alive {
            return self.close(place, connection);
        }
        let bytes = connection.input_bytes();
        if bytes > self.room_beside(connection.counted).max(2 * READ) {
            connection.refuse(Failure::Buffers { bytes });
        }
        self.settle(place, connection);
        self.evict();
    }

    /// Goes on with some handshakes of TLS. One that has more to do waits for the others: who sends
    /// without end holds up nobody.
    fn shake_hands(&mut self) {
        let mut left = HANDSHAKES_A_ROUND;
        while left > 0
            && let Some(place) = self.shaking.pop_front()
        {
            // Where one was closed meanwhile, the place is vacant or another's.
            let Some(mut connection) = self.places[place].take_if(|of| of.is_shaking) else {
                continue;
            };
            left -= 1;
            connection.is_shaking = false;
            match connection.receive(&mut self.buffer) {
                Ok(()) => self.settle(place, connection),
                Err(_) => self.close(place, connection),
            }
        }
    }

    /// Bytes that a connection which holds so many may hold.
    fn room_beside(&self, counted: usize) -> usize {
        let left = (self.shared.buffers + counted).saturating_sub(self.lanes.held());
        (left / 4).max(LEAST_ROOM)
    }

    /// Runs a tick over the connections that are ready.
    fn tick(&mut self) {
        let mut taken = Vec::with_capacity(self.ready.len());
        for place in std::mem::take(&mut self.ready) {
            if let Some(mut connection) = self.places[place].take() {
                connection.is_queued = false;
                taken.push((place, connection));
            }
        }
        if taken.is_empty() {
            return;
        }
        let since = Instant::now();
        let room = self.room();
        let mut tick = TickSteps::new(Expiry::now(), std::mem::take(&mut self.by_key), room);
        let mut gathered = Vec::with_capacity(taken.len());
        for (_, connection) in &mut taken {
            if tick.is_full() {
                break;
            }
            gathered.push(connection.gather(&mut tick, &mut self.databases, &self.shared));
        }
        tick.run(&mut self.databases, &self.shared.watches);
        let took = since.elapsed().saturating_sub(tick.apart());
        let mut longest = self.shared.slow_log.is_slow(took).then(Longest::default);
        let done = gathered.into_iter();
        let done = done.map(|of| of.finish(&mut tick, &self.shared, longest.as_mut()));
        let mut done: Vec<ConnectionOutcome> = done.collect();
        if let Some(longest) = longest {
            longest.remember(&self.shared, took);
        }
        self.most_used = (self.most_used).max(self.lanes.own_held() + tick.taken());
        // What ticks of this length take is there for the next one.
        let usual = A_TICK[usize::from(self.lanes.is_long)];
        self.lanes.let_go(tick.taken().saturating_sub(usual));
        self.by_key = tick.end();
        #[cfg(test)]
        done.iter().for_each(|done| self.replied += done.replied);
        let commands = done.iter().map(|done| done.commands).sum();
        self.shared.latencies.add(commands, since.elapsed());
        // The others were not in this tick.
        done.resize(taken.len(), ConnectionOutcome::WAITS);
        let (waiting, served): (Vec<_>, Vec<_>) = taken
            .into_iter()
            .zip(done)
            .partition(|(_, done)| done.waits);
        // Those that wait for room are first in the next tick.
        for ((place, mut connection), done) in waiting.into_iter().chain(served) {
            connection.consume(done);
            self.settle(place, connection);
        }
        self.evict();
        self.lanes.bound_freed(self.shared.buffers, LOOKED_AT);
    }

    /// What the next tick may take.
    fn room(&self) -> TickRoom {
        let is_short = !self.lanes.is_long;
        let left = self.shared.buffers.saturating_sub(self.lanes.held());
        let [short, long] = A_TICK;
        TickRoom {
            alone: left / 4,
            together: if is_short { short } else { long }.min(left / 4),
            replies: match is_short {
                true => LEAST_ROOM,
                false => (left / 256).max(LEAST_ROOM),
            },
            is_short,
        }
    }

    /// Closes connections while they keep more than three quarters of the limit: of those that keep
    /// no less than others do, the one that has not gone on for the longest.
    fn evict(&mut self) {
        while self.lanes.held() > self.shared.buffers / 4 * 3 && self.lanes.holds_more() {
            let all = self.places.iter().flatten().count();
            let mean = self.lanes.own_held() / all.max(1);
            let places = self.places.iter().enumerate();
            let held = places.filter_map(|(place, of)| Some((place, of.as_ref()?)));
            let oldest = held
                .filter(|(_, connection)| connection.counted >= mean)
                .min_by_key(|(_, connection)| connection.since);
            let Some((place, _)) = oldest else { return };
            self.evict_from(place);
        }
    }

    /// The connection that has asked for what is long and has not gone on for the longest, beyond a
    /// moment: perhaps its client has left since.
    fn longest_waiting(&self) -> Option<usize> {
        let longest = self.waiting().min_by_key(|(_, of)| of.since);
        longest.map(|(place, _)| place)
    }

    /// Those that have asked for what is long and have not gone on for a moment, with their places.
    fn waiting(&self) -> impl Iterator<Item = (usize, &Connection)> {
        let places = self.places.iter().enumerate();
        let held = places.filter_map(|(place, of)| Some((place, of.as_deref()?)));
        let waiting = held.filter(|(_, of)| of.is_long && (of.is_ready || of.is_blocked));
        waiting.filter(|(_, of)| of.since.elapsed() > LOOK)
    }

    /// Closes the connection at a place for the sake of others.
    fn evict_from(&mut self, place: usize) {
        let Some(mut connection) = self.places[place].take() else {
            return;
        };
        self.shared.counts.evicted.fetch_add(1, Relaxed);
        self.shared.notices.tell(Notice::Evicted, connection.peer());
        if !connection.is_blocked {
            let bytes = connection.input_bytes();
            connection.refuse(Failure::Buffers { bytes });
            // What becomes of it is the client's business.
            let _ = connection.send();
        }
        self.close(place, connection);
    }

    /// Sends what is to be sent, and puts a connection back where it waits for what comes next.
    fn settle(&mut self, place: usize, mut connection: Box<Connection>) {
        let is_sent =
            !connection.is_to_send() || connection.is_blocked || connection.send().is_ok();
        let held = connection.held();
        self.lanes.count(&mut connection.counted, held);
        if connection.is_unauthenticated && connection.is_admitted() {
            connection.is_unauthenticated = false;
            self.unauthenticated.remove(place as u64);
        }
        if !is_sent || connection.has_ended() {
            return self.close(place, connection);
        }
        if self.lanes.has_left(&connection) {
            return self.hand_over(place, connection);
        }
        let wants = connection.wants();
        if wants != connection.watched {
            let data = EventData::new_u64(place as u64);
            let flags = flags_of(wants);
            if epoll::modify(&self.epoll, connection.socket.tcp(), data, flags).is_err() {
                return self.close(place, connection);
            }
            connection.watched = wants;
        }
        if connection.rest_until.is_some() {
            self.resting.push(place);
        } else if connection.is_ready && !connection.is_blocked && !connection.is_queued {
            connection.is_queued = true;
            self.ready.push(place);
        }
        self.places[place] = Some(connection);
    }

    /// Gives the connection of a place to the other lane. What it has put counts from now on.
    fn hand_over(&mut self, place: usize, mut connection: Box<Connection>) {
        if epoll::delete(&self.epoll, connection.socket.tcp()).is_err() {
            return self.close(place, connection);
        }
        self.databases.report();
        self.vacant.push(place);
        connection.is_queued = false;
        self.lanes.hand_over(*connection);
    }

    fn close(&mut self, place: usize, mut connection: Box<Connection>) {
        self.lanes.count(&mut connection.counted, 0);
        if connection.is_unauthenticated {
            self.unauthenticated.remove(place as u64);
        }
        self.vacant.push(place);
        self.shared.counts.connected.fetch_sub(1, Relaxed);
        if let Some(failure) = connection.socket.failure() {
            self.shared.counts.tls_broken.fetch_add(1, Relaxed);
            let notice = Notice::BrokenTls(failure);
            self.shared.notices.tell(notice, connection.peer());
        }
        connection.socket.close_notify();
        // The kernel forgets it with its file.
        drop(connection);
    }

    /// Ends connections of clients that have not shown that they know the secret, or do not take
    /// their replies, for too long: some in a round. Returns whether none is left.
    fn end_late_ones(&mut self) -> bool {
        let now = Instant::now();
        for _ in 0..ENDED_A_ROUND {
            let Some(unauthenticated) = self.unauthenticated.late(now) else {
                self.end_stuck_ones();
                return true;
            };
            self.unauthenticated.remove(unauthenticated);
            self.let_go(unauthenticated as usize);
        }
        false
    }

    /// Closes the connections of clients that have taken nothing for too long.
    fn end_stuck_ones(&mut self) {
        for place in 0..self.places.len() {
            let is_late = self.places[place].as_ref().is_some_and(|connection| {
                connection.is_blocked && connection.since.elapsed() > STUCK
            });
            if is_late {
                self.let_go(place);
            }
        }
    }

    /// Closes the connection at a place.
    fn let_go(&mut self, place: usize) {
        if let Some(connection) = self.places[place].take() {
            self.close(place, connection);
        }
    }
}

impl Drop for EventLoop {
    fn drop(&mut self) {
        let left = self.places.iter().flatten().count() + self.lanes.local.arrivals().len();
        let left = left as u64;
        self.shared.counts.connected.fetch_sub(left, Relaxed);
    }
}

/// What the kernel tells of a connection that wants input, or room for output.
fn flags_of((input, output): (bool, bool)) -> EventFlags {
    let mut flags = EventFlags::empty();
    flags.set(EventFlags::IN, input);
    flags.set(EventFlags::OUT, output);
    flags
}
