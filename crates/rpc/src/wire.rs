//! The first words of requests and replies. Both are little-endian; the body follows.
//!
//! ```text
//! request   | method, 16 bits | slot, 16 | number, 32 |
//!           | session, 64 |
//! reply     | status, 8 | 0, 24 | detail, 32 |
//! ```
//! The first word is what a NIC's immediate would say: sender, coroutine and slot (paper 003,
//! section 5.2). It has 64 bits and so is no immediate, but lies where the receiver looks first
//! anyway. A method without sessions has its number in the same place, and the rest to itself.

/// Bytes of a request before its body.
pub(crate) const REQUEST_HEADER: usize = 16;
/// Bytes of a reply before its body.
pub(crate) const REPLY_HEADER: usize = 8;
/// The session of requests that ask for one.
pub(crate) const NO_SESSION: u64 = 0;

/// What a request is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RequestHeader {
    pub(crate) session: u64,
    pub(crate) number: u32,
    pub(crate) slot: u16,
    pub(crate) method: u16,
}

impl RequestHeader {
    pub(crate) fn encode(self) -> [u8; REQUEST_HEADER] {
        let name =
            u64::from(self.method) | u64::from(self.slot) << 16 | u64::from(self.number) << 32;
        let mut bytes = [0; REQUEST_HEADER];
        bytes[..8].copy_from_slice(&name.to_le_bytes());
        bytes[8..].copy_from_slice(&self.session.to_le_bytes());
        bytes
    }

    /// The header and the body of a request; nothing if it is too short for them.
    pub(crate) fn decode(request: &[u8]) -> Option<(Self, &[u8])> {
        let (name, rest) = request.split_first_chunk()?;
        let (session, body) = rest.split_first_chunk()?;
        let name = u64::from_le_bytes(*name);
        let header = Self {
            session: u64::from_le_bytes(*session),
            number: (name >> 32) as u32,
            slot: (name >> 16) as u16,
            method: name as u16,
        };
        Some((header, body))
    }
}

/// How a request ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum RequestStatus {
    /// The method's reply follows.
    Done = 0,
    /// The request is none; or, if the detail is 1, there is no such method.
    Malformed = 1,
    /// The method refused; the detail is its reason.
    Refused = 2,
    /// The session is not known, or not any more.
    NoSession = 3,
    /// A newer request of the slot was there before.
    Stale = 4,
    /// The body has more bytes than the detail.
    TooLong = 5,
    /// The reply takes as many bytes as the detail.
    NoRoom = 6,
    /// The method met wrong words in the node's memory.
    Damaged = 7,
    /// All sessions are taken; the detail is how many there are.
    NoVacancy = 8,
    /// It was executed before, and its reply was not kept.
    NotKept = 10,
}

impl RequestStatus {
    pub(crate) const fn of(byte: u8) -> Option<Self> {
        Some(match byte {
            0 => Self::Done,
            1 => Self::Malformed,
            2 => Self::Refused,
            3 => Self::NoSession,
            4 => Self::Stale,
            5 => Self::TooLong,
            6 => Self::NoRoom,
            7 => Self::Damaged,
            8 => Self::NoVacancy,
            10 => Self::NotKept,
            _ => return None,
        })
    }

    pub(crate) fn encode(self, detail: u32) -> [u8; REPLY_HEADER] {
        (self as u64 | u64::from(detail) << 32).to_le_bytes()
    }

    /// The status, the detail and the body of a reply; nothing if it is none.
    pub(crate) fn decode(reply: &[u8]) -> Option<(Self, u32, &[u8])> {
        let (head, body) = reply.split_first_chunk()?;
        let head = u64::from_le_bytes(*head);
        Some((Self::of(head as u8)?, (head >> 32) as u32, body))
    }
}

/// What a server grants with a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SessionGrant {
    pub(crate) session: u64,
    pub(crate) slots: u16,
    pub(crate) largest_request: u32,
    pub(crate) largest_reply: u32,
}

/// Bytes of a [`SessionGrant`].
pub(crate) const GRANT_BYTES: usize = 24;

impl SessionGrant {
    pub(crate) fn encode(self) -> [u8; GRANT_BYTES] {
        let limits = u64::from(self.largest_request) | u64::from(self.largest_reply) << 32;
        let mut bytes = [0; GRANT_BYTES];
        let words = [self.session, u64::from(self.slots), limits];
        for (to, word) in bytes.chunks_exact_mut(8).zip(words) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    pub(crate) fn decode(body: &[u8]) -> Option<Self> {
        let body: &[u8; GRANT_BYTES] = body.try_into().ok()?;
        let (words, _) = body.as_chunks::<8>();
        let word = |index: usize| u64::from_le_bytes(words[index]);
        Some(Self {
            session: word(0),
            slots: word(1) as u16,
            largest_request: word(2) as u32,
            largest_reply: (word(2) >> 32) as u32,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn headers_survive_and_no_bytes_panic(
            session: u64, number: u32, slot: u16, method: u16, detail: u32,
            body in proptest::collection::vec(any::<u8>(), 0..40),
        ) {
            let header = RequestHeader { session, number, slot, method };
            let request = [&header.encode()[..], &body].concat();
            prop_assert_eq!(RequestHeader::decode(&request), Some((header, &body[..])));
            let reply = [&RequestStatus::NoRoom.encode(detail)[..], &body].concat();
            let decoded = RequestStatus::decode(&reply);
            prop_assert_eq!(decoded, Some((RequestStatus::NoRoom, detail, &body[..])));
            let _ = (RequestHeader::decode(&body), RequestStatus::decode(&body));
            let _ = SessionGrant::decode(&body);
            let (largest_request, largest_reply) = (number, detail);
            let grant = SessionGrant { session, slots: slot, largest_request, largest_reply };
            prop_assert_eq!(SessionGrant::decode(&grant.encode()), Some(grant));
        }
    }
}
