//! The connection to one node, as its endpoint, the hang-up thread and the reconnecting thread
//! share it: whether the current connection has ended, and which one replaces it.

use super::admission::Admitted;
use super::backoff::Backoff;
use super::hangup::{HangupListener, HangupWatch};
use super::redial::Redial;
use crate::{FabricError, Result};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// A connection that a dialer establishes.
pub(crate) trait Connection: Send + 'static {
    /// What ends when the connection does.
    fn stream(&self) -> &TcpStream;

    /// The number of its session.
    fn session(&self) -> u64;

    /// Which node it leads to.
    fn incarnation(&self) -> u64;
}

impl Connection for Admitted {
    fn stream(&self) -> &TcpStream {
        self.socket.tcp()
    }

    fn session(&self) -> u64 {
        self.welcome.session
    }

    fn incarnation(&self) -> u64 {
        self.welcome.node.incarnation
    }
}

/// Connects once, in place of a connection of that session or, where it is 0, of none. This blocks.
type Dial<C> = dyn Fn(u64) -> Result<C> + Send + Sync;

/// Connects to one node, and reconnects when the connection ends.
pub(crate) struct Dialer<C: Connection> {
    pub(crate) address: String,
    dial: Arc<Dial<C>>,
    reconnect: Backoff,
    /// Whether the connection in use has ended, or there is none. Nothing more can be sent on it.
    ended: AtomicBool,
    state: Mutex<State<C>>,
}

struct State<C: Connection> {
    /// The number of the watch over the connection in use; 0 if there is none.
    in_use: u64,
    /// The session of the connection in use, or of the last one.
    session: u64,
    /// Makes the next connection.
    redial: Option<Redial<Connected<C>>>,
    /// Why there is no redial, if there should be one.
    cannot_redial: Option<FabricError>,
}

/// An admitted connection whose end is watched for.
pub(crate) struct Connected<C> {
    pub(crate) made: C,
    watch: HangupWatch,
}

impl<C: Connection> Connected<C> {
    fn watched(made: C, dialer: Weak<Dialer<C>>) -> Result<Self> {
        let watch = HangupWatch::new(made.stream(), dialer)?;
        Ok(Self { made, watch })
    }
}

/// What there is to take the place of a connection that ended.
pub(crate) enum RedialResult {
    /// A connection, to a node of this incarnation.
    Made(u64),
    /// None yet, and what the last attempt failed with, if there was one.
    None(Option<FabricError>),
}

impl<C: Connection> Dialer<C> {
    /// A dialer without a connection.
    pub(crate) fn new(
        address: &str,
        reconnect: Backoff,
        dial: impl Fn(u64) -> Result<C> + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self {
            address: address.into(),
            dial: Arc::new(dial),
            reconnect,
            ended: AtomicBool::new(true),
            state: Mutex::new(State {
                in_use: 0,
                session: 0,
                redial: None,
                cannot_redial: None,
            }),
        })
    }

    fn state(&self) -> MutexGuard<'_, State<C>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the connection in use has ended, or there is none.
    #[inline]
    pub(crate) fn has_none(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    /// Connects, and puts the connection in use. This blocks.
    ///
    /// # Errors
    /// As connecting has.
    pub(crate) fn connect(self: &Arc<Self>) -> Result<Connected<C>> {
        let connected = Connected::watched((self.dial)(0)?, Arc::downgrade(self))?;
        self.put_in_use(&mut self.state(), &connected);
        Ok(connected)
    }

    fn put_in_use(self: &Arc<Self>, state: &mut State<C>, connected: &Connected<C>) {
        state.in_use = connected.watch.number();
        state.session = connected.made.session();
        self.ended.store(false, Ordering::Relaxed);
        // The watcher may have told so before the dialer knew the connection.
        if connected.watch.has_ended() {
            self.redial_with(state);
        }
    }

    /// Gives up the connection in use, if there is one, and sees to it that another is made.
    pub(crate) fn redial(self: &Arc<Self>) {
        self.redial_with(&mut self.state());
    }

    fn redial_with(self: &Arc<Self>, state: &mut State<C>) {
        self.ended.store(true, Ordering::Relaxed);
        state.in_use = 0;
        if state.redial.is_none() {
            self.start_redial(state);
        }
    }

    fn start_redial(self: &Arc<Self>, state: &mut State<C>) {
        let (dialer, last_session) = (Arc::downgrade(self), state.session);
        let dial = Arc::clone(&self.dial);
        // The dialer itself is held for moments only: an endpoint that is dropped is gone with it.
        let dial = move || {
            let made = dial(last_session)?;
            Connected::watched(made, Weak::clone(&dialer))
        };
        // One that ends before it is left with the redial is unknown when its watch tells of it.
        let is_open = |connected: &Connected<C>| !connected.watch.has_ended();
        (state.redial, state.cannot_redial) = match Redial::start(self.reconnect, dial, is_open) {
            Ok(redial) => (Some(redial), None),
            Err(error) => (None, Some(error)),
        };
    }

    fn connection_ended(self: &Arc<Self>, watch: u64) {
        let mut state = self.state();
        if state.in_use == watch {
            self.redial_with(&mut state);
            return;
        }
        let is_next = |redial: &Redial<Connected<C>>| {
            let made = &redial.progress().made;
            made.as_ref()
                .is_some_and(|made| made.watch.number() == watch)
        };
        if state.redial.as_ref().is_some_and(is_next) {
            // It has ended before anybody could use it.
            self.start_redial(&mut state);
        }
    }

    /// What there is in place of the connection that has ended.
    pub(crate) fn next(self: &Arc<Self>) -> RedialResult {
        let mut state = self.state();
        let has_ended = |redial: &Redial<Connected<C>>| {
            let made = &redial.progress().made;
            made.as_ref().is_some_and(|made| made.watch.has_ended())
        };
        if state.redial.as_ref().is_none_or(has_ended) {
            self.start_redial(&mut state);
        }
        let Some(redial) = &state.redial else {
            return RedialResult::None(state.cannot_redial.clone());
        };
        let progress = redial.progress();
        match &progress.made {
            Some(made) => RedialResult::Made(made.made.incarnation()),
            None => RedialResult::None(progress.error.clone()),
        }
    }

    /// Puts the next connection in use, if there still is one, to the node with this incarnation:
    /// since it was looked at, it may have ended and another been made, to a node that came back
    /// empty.
    pub(crate) fn take_next(self: &Arc<Self>, incarnation: u64) -> Option<Connected<C>> {
        let mut state = self.state();
        let is_it = |made: &mut Connected<C>| made.made.incarnation() == incarnation;
        let made = state.redial.as_ref()?.progress().made.take_if(is_it)?;
        state.redial = None;
        self.put_in_use(&mut state, &made);
        Some(made)
    }
}

impl<C: Connection> HangupListener for Dialer<C> {
    fn has_ended(self: Arc<Self>, watch: u64) {
        self.connection_ended(watch);
    }
}
