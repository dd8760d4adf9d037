//! What an endpoint, the keeper and a redialing thread share of a connection to a node: whether the one in
//! use has ended, and the one that will take its place.

use super::keeper::Watch;
use crate::redial::Redial;
use crate::tcp::TcpOptions;
use crate::tcp::admission::{Admitted, connect_after};
use crate::{FabricError, Result};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A node's address, and how it is connected to.
pub(super) struct Line {
    pub(super) address: String,
    options: TcpOptions,
    /// Whether the connection in use has ended, or there is none. Nothing more can be sent on it.
    ended: AtomicBool,
    state: Mutex<State>,
}

struct State {
    /// The number of the watch over the connection in use; 0 if there is none.
    in_use: u64,
    /// The session of the connection in use, or of the last one.
    session: u64,
    /// Makes the next connection.
    redial: Option<Redial<Connected>>,
    /// Why there is no redial, if there should be one.
    cannot_redial: Option<FabricError>,
}

/// An admitted connection whose end is watched for.
pub(super) struct Connected {
    pub(super) admitted: Admitted,
    watch: Watch,
}

/// What there is to take the place of a connection that ended.
pub(super) enum Next {
    /// A connection, to a node of this incarnation.
    Made(u64),
    /// None yet, and what the last attempt failed with, if there was one.
    None(Option<FabricError>),
}

impl Line {
    /// A line that nobody has connected yet.
    pub(super) fn new(address: &str, options: &TcpOptions) -> Arc<Self> {
        Arc::new(Self {
            address: address.into(),
            options: options.clone(),
            ended: AtomicBool::new(true),
            state: Mutex::new(State {
                in_use: 0,
                session: 0,
                redial: None,
                cannot_redial: None,
            }),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the connection in use has ended, or there is none.
    #[inline]
    pub(super) fn has_none(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    /// Connects, and puts the connection in use. This blocks.
    ///
    /// # Errors
    /// As [`connect`](crate::tcp::admission::connect).
    pub(super) fn connect(self: &Arc<Self>) -> Result<Connected> {
        let connected = self.dial(0)?;
        self.put_in_use(&mut self.state(), &connected);
        Ok(connected)
    }

    fn dial(self: &Arc<Self>, last_session: u64) -> Result<Connected> {
        let admitted = connect_after(last_session, &self.address, &self.options)?;
        let watch = Watch::new(&admitted.stream, &Arc::downgrade(self))?;
        Ok(Connected { admitted, watch })
    }

    fn put_in_use(self: &Arc<Self>, state: &mut State, connected: &Connected) {
        state.in_use = connected.watch.number();
        state.session = connected.admitted.welcome.session;
        self.ended.store(false, Ordering::Relaxed);
        // The keeper may have told so before the line knew the connection.
        if connected.watch.has_ended() {
            self.redial_with(state);
        }
    }

    /// Gives up the connection in use, if there is one, and sees to it that another is made.
    pub(super) fn redial(self: &Arc<Self>) {
        self.redial_with(&mut self.state());
    }

    fn redial_with(self: &Arc<Self>, state: &mut State) {
        self.ended.store(true, Ordering::Relaxed);
        state.in_use = 0;
        if state.redial.is_none() {
            self.start_redial(state);
        }
    }

    fn start_redial(self: &Arc<Self>, state: &mut State) {
        let (line, last_session) = (Arc::downgrade(self), state.session);
        let (address, options) = (self.address.clone(), self.options.clone());
        // The line itself is held for moments only: an endpoint that is dropped is gone with it.
        let dial = move || {
            let admitted = connect_after(last_session, &address, &options)?;
            let watch = Watch::new(&admitted.stream, &line)?;
            Ok(Connected { admitted, watch })
        };
        (state.redial, state.cannot_redial) = match Redial::start(self.options.reconnect, dial) {
            Ok(redial) => (Some(redial), None),
            Err(error) => (None, Some(error)),
        };
    }

    /// The keeper tells that a connection has ended.
    pub(super) fn has_ended(self: &Arc<Self>, watch: u64) {
        let mut state = self.state();
        if state.in_use == watch {
            self.redial_with(&mut state);
            return;
        }
        let is_next = |redial: &Redial<Connected>| {
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
    pub(super) fn next(self: &Arc<Self>) -> Next {
        let mut state = self.state();
        let has_ended = |redial: &Redial<Connected>| {
            let made = &redial.progress().made;
            made.as_ref().is_some_and(|made| made.watch.has_ended())
        };
        if state.redial.as_ref().is_none_or(has_ended) {
            self.start_redial(&mut state);
        }
        let Some(redial) = &state.redial else {
            return Next::None(state.cannot_redial.clone());
        };
        let progress = redial.progress();
        match &progress.made {
            Some(made) => Next::Made(made.admitted.welcome.node.incarnation),
            None => Next::None(progress.error.clone()),
        }
    }

    /// Puts the next connection in use, if there still is one.
    pub(super) fn take_next(self: &Arc<Self>) -> Option<Connected> {
        let mut state = self.state();
        let made = state.redial.as_ref()?.progress().made.take()?;
        state.redial = None;
        self.put_in_use(&mut state, &made);
        Some(made)
    }
}
