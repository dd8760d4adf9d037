//! What a server keeps of a client: of each slot the newest request's number, and how it ended.

use crate::wire::RequestStatus;
use farslot_fabric::Nanos;

/// How a request ended: with a reply, or without and why.
type RequestResult<B> = Result<B, (RequestStatus, u32)>;

/// A client's session.
pub(super) struct Session {
    pub(super) id: u64,
    /// The grant of whoever opened it.
    pub(super) grant: Option<Box<str>>,
    /// When its last request came.
    pub(super) last_used: Nanos,
    slots: Vec<Slot>,
}

/// One of a client's requests at a time.
pub(super) struct Slot {
    /// The newest request's number; the first has 1.
    number: u32,
    /// Used again and again.
    bytes: Vec<u8>,
    end: RequestResult<()>,
}

/// How a request compares to the newest of its slot.
pub(super) enum RequestFreshness<'s> {
    New,
    /// The newest itself, and how it ended.
    Repeated(RequestResult<&'s [u8]>),
    Stale,
}

impl Session {
    pub(super) fn new(id: u64, grant: Option<&str>, now: Nanos) -> Self {
        Self {
            id,
            grant: grant.map(Box::from),
            last_used: now,
            slots: Vec::new(),
        }
    }

    /// Bytes of the replies that are kept.
    pub(super) fn kept(&self) -> usize {
        self.slots.iter().map(|slot| slot.bytes.capacity()).sum()
    }

    /// A slot, if there are that many.
    pub(super) fn slot(&mut self, slot: u16, slots: u16) -> Option<&mut Slot> {
        if slot >= slots {
            return None;
        }
        let slot = usize::from(slot);
        if self.slots.len() <= slot {
            self.slots.resize_with(slot + 1, Slot::new);
        }
        self.slots.get_mut(slot)
    }
}

impl Slot {
    fn new() -> Self {
        Self {
            number: 0,
            bytes: Vec::new(),
            end: Err(UNFINISHED),
        }
    }

    pub(super) fn find(&self, number: u32) -> RequestFreshness<'_> {
        match number.wrapping_sub(self.number) as i32 {
            0 => RequestFreshness::Repeated(match &self.end {
                Ok(()) => Ok(&self.bytes),
                Err(end) => Err(*end),
            }),
            1.. => RequestFreshness::New,
            _ => RequestFreshness::Stale,
        }
    }

    /// Begins with a request: the client has the reply to the one before.
    pub(super) fn begin(&mut self, number: u32) {
        self.number = number;
        self.end = Err(UNFINISHED);
    }

    /// Keeps how the request ended, with a reply of no more than `most` bytes. Returns how many
    /// bytes more it holds than before.
    pub(super) fn keep(&mut self, end: RequestResult<&[u8]>, most: usize) -> isize {
        let before = self.bytes.capacity();
        self.bytes.clear();
        self.end = match end {
            Ok(reply) if reply.len() > before.max(most) => {
                self.bytes = Vec::new();
                Err((RequestStatus::NotKept, 0))
            }
            end => end.map(|reply| {
                self.bytes.reserve_exact(reply.len());
                self.bytes.extend_from_slice(reply);
            }),
        };
        self.bytes.capacity() as isize - before as isize
    }
}

/// How a request ended whose method did not return.
const UNFINISHED: (RequestStatus, u32) = (RequestStatus::Damaged, 0);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_knows_its_newest_request_across_the_wrap_of_numbers() {
        let mut session = Session::new(1, None, 0);
        assert!(session.slot(4, 4).is_none());
        let slot = session.slot(3, 4).unwrap();
        for number in [1, 2, 7, 1 << 30, 2 << 30, 3 << 30, u32::MAX, 0, 5] {
            assert!(
                matches!(slot.find(number), RequestFreshness::New),
                "{number}"
            );
            slot.begin(number);
            assert!(matches!(
                slot.find(number),
                RequestFreshness::Repeated(Err(_))
            ));
            slot.keep(Ok(&number.to_le_bytes()), 4);
            match slot.find(number) {
                RequestFreshness::Repeated(Ok(kept)) => assert_eq!(kept, number.to_le_bytes()),
                _ => panic!("{number}"),
            }
            assert!(matches!(
                slot.find(number.wrapping_sub(1)),
                RequestFreshness::Stale
            ));
        }
    }
}
