//! The connections of a thread, and what the kernel is to tell of each.

use super::connection::{Connection, Wants};
use super::turns::UNAUTHENTICATED;
use rustix::event::epoll::{self, EventData, EventFlags};
use std::os::fd::OwnedFd;

/// A slot for a connection. Its number and its generation are the connection's token.
#[derive(Default)]
pub(super) struct ConnectionSlot {
    pub(super) generation: u32,
    pub(super) held: Option<SlotOccupant>,
}

/// The connection in a slot.
pub(super) struct SlotOccupant {
    pub(super) connection: Connection,
    pub(super) wants: Wants,
    /// Whether it is among the unauthenticated clients.
    pub(super) is_unauthenticated: bool,
}

impl SlotOccupant {
    /// The line in which it waits for its turn.
    pub(super) fn line(&self) -> u64 {
        match self.connection.grant() {
            Some(grant) if !self.is_unauthenticated => grant.number,
            _ => UNAUTHENTICATED,
        }
    }
}

pub(super) fn token(place: u32, generation: u32) -> u64 {
    // Generations are below 2^31, so that none is a token that stands for something else.
    u64::from(place) | u64::from(generation) << 32
}

/// The connection with that token, if it is still there.
pub(super) fn held_of(places: &mut [ConnectionSlot], token: u64) -> Option<&mut SlotOccupant> {
    let place = places.get_mut(token as u32 as usize)?;
    if u64::from(place.generation) != token >> 32 {
        return None;
    }
    place.held.as_mut()
}

/// Notes what a connection waits for, and has the kernel tell of that; returns what it was before.
pub(super) fn want(epoll: &OwnedFd, token: u64, held: &mut SlotOccupant, wants: Wants) -> Wants {
    let before = std::mem::replace(&mut held.wants, wants);
    if interest(before) != interest(wants) {
        let data = EventData::new_u64(token);
        // It can only fail for a socket that is not registered; this one is.
        let _ = epoll::modify(epoll, held.connection.socket.tcp(), data, interest(wants));
    }
    before
}

/// What the kernel is to tell of a connection.
pub(super) fn interest(wants: Wants) -> EventFlags {
    match wants {
        Wants::Input => EventFlags::IN,
        Wants::Output => EventFlags::OUT,
        // Its client may leave meanwhile.
        Wants::Answer => EventFlags::RDHUP,
        Wants::Receiver | Wants::Rest(_) | Wants::Turn => EventFlags::empty(),
    }
}
