//! The calls of a node that wait, and what answers them.

use super::clock::Picos;
use crate::Handler;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Wake, Waker};

/// Makes a node's handler, at each of its starts anew: what a handler keeps outside of the memory
/// is lost with its process.
pub(super) type MakeHandler = Box<dyn Fn() -> Arc<dyn Handler> + Send>;

/// When a node's handler goes on with what it answers later.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum GoesOn {
    /// It has left nothing.
    Never,
    /// At this instant, for which there is an event.
    At(Picos),
    /// As soon as a thread of the owner is free.
    NextFree,
}

/// The calls of a node.
pub(super) struct NodeCallQueue {
    make: Option<MakeHandler>,
    pub(super) handler: Option<Arc<dyn Handler>>,
    /// Calls that no thread has taken.
    pub(super) waiting: VecDeque<u32>,
    pub(super) threads: u32,
    pub(super) busy: u32,
    /// How often the node has stopped: events of its earlier threads are void.
    pub(super) stops: u32,
    /// When the handler goes on with what it answers later.
    pub(super) goes_on: GoesOn,
}

impl NodeCallQueue {
    pub(super) fn new(threads: u32) -> Self {
        Self {
            make: None,
            handler: None,
            waiting: VecDeque::new(),
            threads: threads.max(1),
            busy: 0,
            stops: 0,
            goes_on: GoesOn::Never,
        }
    }

    pub(super) fn serve(&mut self, make: MakeHandler) {
        self.handler = Some(make());
        self.make = Some(make);
    }

    /// Loses what only the owner's process had; returns the calls that waited.
    pub(super) fn stop(&mut self) -> VecDeque<u32> {
        self.handler = None;
        self.busy = 0;
        self.goes_on = GoesOn::Never;
        self.stops = self.stops.wrapping_add(1);
        std::mem::take(&mut self.waiting)
    }

    pub(super) fn restart(&mut self) {
        self.handler = self.make.as_ref().map(|make| make());
    }
}

/// Queue pairs whose oldest call is answered by now, as a client and a node each. Whoever answers
/// tells here, as the state may be in use: a handler may answer earlier calls.
#[derive(Default)]
pub(super) struct AnsweredPairs(Mutex<Vec<(u32, u16)>>);

struct PairBell {
    answered: Arc<AnsweredPairs>,
    pair: (u32, u16),
}

impl AnsweredPairs {
    pub(super) fn take(&self) -> Vec<(u32, u16)> {
        let mut pairs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *pairs)
    }

    /// Adds a queue pair when it is woken.
    pub(super) fn bell(self: &Arc<Self>, client: u32, node: u16) -> Waker {
        Waker::from(Arc::new(PairBell {
            answered: Arc::clone(self),
            pair: (client, node),
        }))
    }
}

impl Wake for PairBell {
    fn wake(self: Arc<Self>) {
        let mut pairs = self
            .answered
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        pairs.push(self.pair);
    }
}
