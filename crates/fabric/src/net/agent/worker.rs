//! One thread of an agent: its connections, and the order in which it serves them.
//!
//! While verbs arrive the thread polls: it tries the few connections that were busy last, and asks
//! the kernel about the others every few rounds. Once nothing has arrived for the time it may spin,
//! or where polling has not paid off lately (see [`SpinPolicy`]), it sleeps in the kernel.

use super::accept::{Acceptor, LISTENER};
use super::connection::{Connection, TurnBuffers, TurnOutcome, Wants};
use super::counters::count;
use super::dialogue::{AdmissionOutcome, DisconnectReason};
use super::places::{ConnectionSlot, SlotOccupant, held_of, interest, token, want};
use super::service::Quota;
use super::shared::{AgentCore, AnswerBell, Newcomer};
use super::turns::{DOOR, TurnScheduler};
use super::unauthenticated::UnauthenticatedClients;
use crate::Result;
use crate::error::Refusal;
use crate::event_loop::ServeLoop;
use crate::net::admission::Issued;
use crate::net::audit::{AuditEvent, AuditKind, Reports};
use crate::net::socket::{nanos, now};
use crate::net::spin::SpinPolicy;
use rustix::event::Timespec;
use rustix::event::epoll::{self, Event, EventData, EventFlags};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::task::Waker;
use std::time::{Duration, Instant};

/// Connections that are tried without asking the kernel first.
const HOT: usize = 4;
/// How many fruitless rounds, or fruitful ones, go by before the kernel is asked.
const ROUNDS: u32 = 8;
/// How often a message that waits for its receiver is tried.
const RETRY: Duration = Duration::from_micros(500);
/// How often handshakes that take too long are looked for.
const SWEEP: Duration = Duration::from_millis(100);
/// Events that are taken from the kernel at once.
const EVENTS: usize = 256;

/// Handshakes that took too long, of which so many are ended in a turn.
const ENDED_A_TURN: usize = 4;

/// Stands for the eventfd that wakes the thread.
const WAKE: u64 = u64::MAX;
/// Stands for the handshakes that take too long, where it is their end that waits for a turn.
const LATE: u64 = u64::MAX - 2;

pub(crate) struct Worker {
    shared: Arc<AgentCore>,
    number: usize,
    epoll: OwnedFd,
    acceptor: Option<Acceptor>,
    places: Vec<ConnectionSlot>,
    vacant: Vec<u32>,
    /// Connections in their handshake, or refused, or whose grant was revoked.
    unauthenticated: UnauthenticatedClients,
    next_sweep: Instant,
    /// Those that were busy last, the latest first.
    hot: Vec<u64>,
    /// Those that have more to do than a turn, and those that wait behind them.
    turns: TurnScheduler,
    /// Those that rest, and until when.
    resting: BinaryHeap<Reverse<(Instant, u64)>>,
    stalled: Vec<u64>,
    next_retry: Instant,
    scratch: TurnBuffers,
    reports: Reports,
    spin: SpinPolicy,
    rounds: u32,
}

impl Worker {
    pub(crate) fn new(
        shared: Arc<AgentCore>,
        number: usize,
        acceptor: Option<Acceptor>,
    ) -> rustix::io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let wake = EventData::new_u64(WAKE);
        epoll::add(&epoll, &shared.inboxes[number].wake, wake, EventFlags::IN)?;
        if let Some(acceptor) = &acceptor {
            acceptor.watch(&epoll)?;
        }
        let now = Instant::now();
        let unauthenticated = UnauthenticatedClients::new(shared.unauthenticated);
        let reports = Reports::new(shared.audit.clone());
        let spin = SpinPolicy::new(nanos(shared.spin));
        Ok(Self {
            shared,
            number,
            epoll,
            acceptor,
            places: Vec::new(),
            vacant: Vec::new(),
            unauthenticated,
            next_sweep: now,
            hot: Vec::with_capacity(HOT + 1),
            turns: TurnScheduler::default(),
            resting: BinaryHeap::new(),
            stalled: Vec::new(),
            next_retry: now,
            scratch: TurnBuffers::new(),
            reports,
            spin,
            rounds: 0,
        })
    }

    /// Serves what has come; returns whether anything had. Else it may sleep for `most`.
    fn serve_round(&mut self, most: Option<Duration>) -> bool {
        let mut active = self.give_turns();
        if self.turns.is_empty() {
            active |= self.try_hot();
        }
        self.rounds = self.rounds.wrapping_add(1);
        if active {
            self.spin.has_come(now());
        }
        let spinning = active || self.spin.goes_on(now());
        self.look_at_clock(Instant::now());
        let waits = !self.turns.is_empty();
        if !spinning || waits || self.hot.is_empty() || self.rounds.is_multiple_of(ROUNDS) {
            let sleep = if spinning || waits {
                Some(Duration::ZERO)
            } else {
                let longest = self.longest_sleep(Instant::now());
                longest.into_iter().chain(most).min()
            };
            if self.ask_kernel(sleep) {
                self.spin.has_come(now());
                active = true;
            }
        }
        active
    }

    /// Until the next thing that only the clock tells; nothing if there is none.
    fn longest_sleep(&self, now: Instant) -> Option<Duration> {
        let sweep = (!self.unauthenticated.is_empty()).then_some(self.next_sweep);
        let rested = self.resting.peek().map(|Reverse((until, _))| *until);
        let retry = (!self.stalled.is_empty()).then_some(self.next_retry);
        let accept = self.acceptor.as_ref().and_then(Acceptor::paused_until);
        let next = [sweep, retry, accept, rested].into_iter().flatten().min();
        next.map(|next| next.saturating_duration_since(now))
    }

    fn look_at_clock(&mut self, now: Instant) {
        if !self.unauthenticated.is_empty() && now >= self.next_sweep {
            self.next_sweep = now + SWEEP;
            self.turns.wait_at_door(LATE);
        }
        while let Some(&Reverse((until, token))) = self.resting.peek()
            && now >= until
        {
            self.resting.pop();
            self.wait_for_turn(token);
        }
        if !self.stalled.is_empty() && now >= self.next_retry {
            self.next_retry = now + RETRY;
            for token in std::mem::take(&mut self.stalled) {
                self.serve(token);
            }
        }
        if let Some(acceptor) = &mut self.acceptor {
            acceptor.go_on(&self.epoll, now);
        }
    }

    /// Ends some of the handshakes that take too long; the others wait for the next turn.
    fn end_late(&mut self, now: Instant) {
        let timeout = self.shared.handshake_timeout;
        let refusal = Refusal::TooSlow {
            after_ms: u32::try_from(timeout.as_millis()).unwrap_or(u32::MAX),
        };
        for _ in 0..ENDED_A_TURN {
            let Some(token) = self.unauthenticated.late(now) else {
                return;
            };
            let Some(held) = self.held(token) else {
                self.unauthenticated.remove(token);
                continue;
            };
            if held.connection.refuse_late(refusal) {
                self.refused(token, Some(refusal), format_args!("{refusal}"));
            } else if held.connection.is_serving() {
                count(&self.shared.served.totals.revoked, 1);
                let why = "its grant was revoked";
                self.tell(AuditKind::Closed, token, Some(format_args!("{why}")));
            }
            self.close(token as u32);
        }
        self.turns.wait_at_door(LATE);
    }

    /// Tells what a connection came to.
    fn tell(&mut self, kind: AuditKind, token: u64, detail: Option<fmt::Arguments<'_>>) {
        let held = held_of(&mut self.places, token);
        let connection = held.map(|held| &held.connection);
        self.reports.tell(&AuditEvent {
            kind,
            peer: connection.map(|connection| connection.peer),
            grant: connection.and_then(Connection::asked),
            detail,
        });
    }

    fn refused(&mut self, token: u64, by: Option<Refusal>, why: fmt::Arguments<'_>) {
        self.shared.served.totals.client_refused(by);
        self.tell(AuditKind::Refused, token, Some(why));
    }

    /// Gives turns to those that wait for one.
    fn give_turns(&mut self) -> bool {
        if self.turns.is_empty() {
            return false;
        }
        self.turns.begin_round();
        while let Some((line, token)) = self.turns.next() {
            let since = Instant::now();
            match (line, token) {
                (DOOR, LATE) => self.end_late(since),
                (DOOR, _) => self.accept(),
                _ => {
                    self.serve(token);
                }
            }
            self.turns.spend(line, since.elapsed());
        }
        true
    }

    /// Has a connection wait for its turn; the kernel has nothing to tell of it meanwhile.
    fn wait_for_turn(&mut self, token: u64) {
        let Some(held) = held_of(&mut self.places, token) else {
            return;
        };
        let line = held.line();
        want(&self.epoll, token, held, Wants::Turn);
        self.turns.wait(line, token);
    }

    fn try_hot(&mut self) -> bool {
        let mut active = false;
        for index in 0..self.hot.len() {
            // Serving one may take it, or others, out of the list.
            let Some(&token) = self.hot.get(index) else {
                break;
            };
            // One that waits for something else has its turn when that happens, and only then.
            let tries = self
                .held(token)
                .is_some_and(|held| held.wants == Wants::Input);
            active |= tries && self.serve(token);
        }
        active
    }

    /// Takes what the kernel has; returns whether it had anything.
    fn ask_kernel(&mut self, sleep: Option<Duration>) -> bool {
        let mut room = [const { MaybeUninit::<Event>::uninit() }; EVENTS];
        let timeout = sleep.map(|sleep| Timespec {
            tv_sec: sleep.as_secs() as i64,
            tv_nsec: sleep.subsec_nanos().into(),
        });
        // Interrupted or not, what there is will be told again.
        let ready = epoll::wait(&self.epoll, &mut room, timeout.as_ref());
        let (events, _) = ready.unwrap_or_default();
        let many = events.len() > HOT;
        if many {
            self.hot.clear();
        }
        let mixed = many && self.are_mixed(events);
        for event in &*events {
            match event.data.u64() {
                WAKE => self.answer_wake(),
                LISTENER => self.turns.wait_at_door(LISTENER),
                token => self.react(token, event.flags, many, mixed),
            }
        }
        !events.is_empty()
    }

    /// Whether events are of connections of several lines.
    fn are_mixed(&mut self, events: &[Event]) -> bool {
        let mut lines = events.iter().filter_map(|event| {
            let held = held_of(&mut self.places, event.data.u64())?;
            Some(held.line())
        });
        let first = lines.next();
        lines.any(|line| Some(line) != first)
    }

    /// Serves one of which the kernel has told, or has it wait for its turn: where connections of
    /// other lines have more to do, or many have come at once.
    fn react(&mut self, token: u64, flags: EventFlags, many: bool, mixed: bool) {
        let Some(held) = held_of(&mut self.places, token) else {
            return;
        };
        let over = flags.intersects(EventFlags::HUP | EventFlags::ERR);
        match held.wants {
            // It is not read from meanwhile, so that nothing else would tell.
            Wants::Receiver | Wants::Rest(_) if over => return self.close(token as u32),
            Wants::Answer if over || flags.intersects(EventFlags::RDHUP) => {
                return self.close(token as u32);
            }
            // It stands in a list already, and must not stand there twice; or is told otherwise.
            Wants::Receiver | Wants::Rest(_) | Wants::Turn | Wants::Answer => return,
            Wants::Input | Wants::Output => {}
        }
        if mixed || self.turns.others_wait(held.line()) {
            return self.wait_for_turn(token);
        }
        if self.serve(token) && !many {
            self.hot.retain(|hot| *hot != token);
            self.hot.insert(0, token);
            self.hot.truncate(HOT);
        }
    }

    fn held(&mut self, token: u64) -> Option<&mut SlotOccupant> {
        held_of(&mut self.places, token)
    }

    /// Gives a connection a turn, if it is still there; returns whether anything came of it.
    fn serve(&mut self, token: u64) -> bool {
        let Some(held) = held_of(&mut self.places, token) else {
            return false;
        };
        let place = token as u32;
        let work = match self.turns.others_wait(held.line()) {
            true => Quota::SHORT_TURN,
            false => Quota::TURN,
        };
        let (scratch, reports) = (&mut self.scratch, &mut self.reports);
        match held.connection.turn(work, scratch, &self.shared, reports) {
            Ok(turn) => {
                let active = turn.active;
                self.after(token, turn);
                active
            }
            Err(end) => {
                match end {
                    DisconnectReason::Malformed(reason) => {
                        count(&self.shared.served.totals.malformed, 1);
                        self.tell(AuditKind::Malformed, token, Some(format_args!("{reason}")));
                    }
                    // It has no secret, or wants one of a grant that has none.
                    DisconnectReason::Closed => {
                        if held.connection.is_unproved() {
                            self.tell(AuditKind::Unproved, token, None);
                        }
                    }
                    DisconnectReason::Replaced => {
                        log::debug!("{} has another connection by now", held.connection.peer);
                    }
                    DisconnectReason::Revoked => {
                        count(&self.shared.served.totals.revoked, 1);
                        let why = "its grant was revoked amid an answer";
                        self.tell(AuditKind::Closed, token, Some(format_args!("{why}")));
                    }
                }
                self.close(place);
                true
            }
        }
    }

    fn after(&mut self, token: u64, turn: TurnOutcome) {
        let Some(held) = held_of(&mut self.places, token) else {
            return;
        };
        let before = want(&self.epoll, token, held, turn.wants);
        match turn.news {
            Some(AdmissionOutcome::Admitted) => {
                held.is_unauthenticated = false;
                self.unauthenticated.remove(token);
                count(&self.shared.served.totals.admitted, 1);
                self.tell(AuditKind::Admitted, token, None);
            }
            Some(AdmissionOutcome::Refused(refusal)) => {
                // One that was admitted before has some time to leave.
                if !held.is_unauthenticated {
                    self.become_unauthenticated(token);
                }
                self.refused(token, Some(refusal), format_args!("{refusal}"));
            }
            Some(AdmissionOutcome::Broken(failure)) => {
                if !held.is_unauthenticated {
                    self.become_unauthenticated(token);
                }
                self.refused(token, None, format_args!("no TLS: {failure}"));
            }
            None => {}
        }
        match turn.wants {
            Wants::Turn => self.wait_for_turn(token),
            Wants::Rest(rest) => self.resting.push(Reverse((Instant::now() + rest, token))),
            Wants::Receiver => {
                if self.stalled.is_empty() && before != Wants::Receiver {
                    self.next_retry = Instant::now() + RETRY;
                }
                self.stalled.push(token);
            }
            Wants::Input | Wants::Output | Wants::Answer => {}
        }
    }

    /// Has a connection be gone after some time, unless its client is admitted.
    fn become_unauthenticated(&mut self, token: u64) {
        let Some(held) = held_of(&mut self.places, token) else {
            return;
        };
        held.is_unauthenticated = true;
        let now = Instant::now();
        if self.unauthenticated.is_empty() {
            self.next_sweep = now + SWEEP;
        }
        let until = now + self.shared.handshake_timeout;
        self.unauthenticated
            .add(token, held.connection.peer.ip(), until);
    }

    fn close(&mut self, place: u32) {
        let Some(slot) = self.places.get_mut(place as usize) else {
            return;
        };
        let Some(mut held) = slot.held.take() else {
            return;
        };
        held.connection.let_go(&self.shared);
        let gone = token(place, slot.generation);
        slot.generation = (slot.generation + 1) & (u32::MAX >> 1);
        if held.is_unauthenticated {
            self.unauthenticated.remove(gone);
        }
        self.vacant.push(place);
        self.hot.retain(|hot| *hot != gone);
        self.shared
            .served
            .totals
            .connections
            .fetch_sub(1, Ordering::Relaxed);
        if held.connection.is_serving() {
            log::debug!("{} is gone", held.connection.peer);
        }
        // Closing the socket takes it out of the kernel's list.
        drop(held);
    }

    /// Takes some of those that have come; the kernel tells of the others again.
    fn accept(&mut self) {
        let Some(acceptor) = &mut self.acceptor else {
            return;
        };
        let accepted = acceptor.accept(&self.epoll, &self.shared);
        for (to, newcomer) in accepted {
            if to == self.number {
                self.hold(newcomer);
            } else {
                self.shared.inboxes[to].send(newcomer);
            }
        }
    }

    fn answer_wake(&mut self) {
        let shared = Arc::clone(&self.shared);
        let inbox = &shared.inboxes[self.number];
        inbox.clear_wake();
        if inbox.serve_everybody.swap(false, Ordering::AcqRel) {
            self.serve_everybody();
        }
        if inbox.revoked.swap(false, Ordering::AcqRel) {
            self.let_go_of_revoked();
        }
        self.serve_answered(&inbox.take_answered());
        let mut newcomers = inbox
            .newcomers
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let newcomers = std::mem::take(&mut *newcomers);
        for newcomer in newcomers {
            self.hold(newcomer);
        }
    }

    /// Sends the answers that connections have waited for. Those that wait for anything else have
    /// their turn when that happens.
    fn serve_answered(&mut self, tokens: &[u64]) {
        for token in tokens {
            let Some(held) = held_of(&mut self.places, *token) else {
                continue;
            };
            if !matches!(held.wants, Wants::Input | Wants::Answer) {
                continue;
            }
            if tokens.len() > HOT || self.turns.others_wait(held.line()) {
                self.wait_for_turn(*token);
            } else {
                self.serve(*token);
            }
        }
    }

    /// Serves the admitted clients that are waited for. The others have their turn anyway.
    fn serve_everybody(&mut self) {
        let waited_for =
            |held: &SlotOccupant| held.wants == Wants::Input && held.connection.is_serving();
        let tokens: Vec<_> = (0..)
            .zip(&self.places)
            .filter(|(_, place)| place.held.as_ref().is_some_and(waited_for))
            .map(|(number, place)| token(number, place.generation))
            .collect();
        for token in tokens {
            self.serve(token);
        }
    }

    /// Gives the clients of revoked grants some time to leave. Their verbs are refused meanwhile.
    fn let_go_of_revoked(&mut self) {
        let revoked = |held: &SlotOccupant| {
            let grant = held.connection.grant();
            !held.is_unauthenticated && grant.is_some_and(Issued::is_revoked)
        };
        let tokens: Vec<_> = (0..)
            .zip(&self.places)
            .filter(|(_, place)| place.held.as_ref().is_some_and(revoked))
            .map(|(number, place)| token(number, place.generation))
            .collect();
        for token in tokens {
            self.become_unauthenticated(token);
        }
    }

    /// Gives a newcomer a place; an unauthenticated client of longer standing may have to go for
    /// it.
    fn hold(&mut self, newcomer: Newcomer) {
        let Newcomer {
            stream,
            peer,
            refusal,
        } = newcomer;
        let Some(socket) = self.shared.secure(stream) else {
            let totals = &self.shared.served.totals;
            count(&totals.turned_away, 1);
            totals.connections.fetch_sub(1, Ordering::Relaxed);
            return;
        };
        if let Some(oldest) = self.unauthenticated.to_go_for(peer.ip()) {
            count(&self.shared.served.totals.turned_away, 1);
            let why = "too many connections wait to be admitted";
            self.tell(AuditKind::TurnedAway, oldest, Some(format_args!("{why}")));
            self.close(oldest as u32);
        }
        let place = self.vacant.pop().unwrap_or(self.places.len() as u32);
        if place as usize == self.places.len() {
            self.places.push(ConnectionSlot::default());
        }
        let slot = &mut self.places[place as usize];
        let token = token(place, slot.generation);
        let data = EventData::new_u64(token);
        let watched = epoll::add(&self.epoll, socket.tcp(), data, interest(Wants::Input));
        let bell = AnswerBell {
            shared: Arc::clone(&self.shared),
            worker: self.number,
            token,
        };
        slot.held = Some(SlotOccupant {
            connection: Connection::new(socket, peer, refusal, Waker::from(Arc::new(bell))),
            wants: Wants::Input,
            is_unauthenticated: true,
        });
        self.become_unauthenticated(token);
        if let Err(error) = watched {
            log::warn!("cannot wait for {peer}: {error}");
            self.close(place);
        }
    }
}

impl ServeLoop for Worker {
    fn round(&mut self, most: Option<Duration>) -> Result<bool> {
        Ok(self.serve_round(most))
    }
}
