//! Requests to a table's owner, and its replies.
//!
//! ```text
//! request  | operation, 8 bits | 0, 8 | key length, 16 | value length, 32 | lock, 64 | key | value
//! reply    | outcome, 8 bits | 0 | extra buckets, 64 | place of the slot, 64 | words of the slot
//! ```

use super::layout::Shape;

/// What the owner is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(super) enum Operation {
    Get = 0,
    /// Sets the value.
    Put = 1,
    /// Sets the value of an absent key.
    Insert = 2,
    /// Sets the value of a key that is there.
    Update = 3,
    Remove = 4,
    /// Locks a key; an absent one by a reserved slot.
    Lock = 5,
    /// Sets the value of a key that is locked, and unlocks it.
    Commit = 6,
    /// Removes a key that is locked.
    CommitRemove = 7,
    Unlock = 8,
    /// Tells keys, from the place on that stands where others have a lock.
    Visit = 9,
}

impl Operation {
    const fn of(byte: u8) -> Option<Self> {
        Some(match byte {
            0 => Self::Get,
            1 => Self::Put,
            2 => Self::Insert,
            3 => Self::Update,
            4 => Self::Remove,
            5 => Self::Lock,
            6 => Self::Commit,
            7 => Self::CommitRemove,
            8 => Self::Unlock,
            9 => Self::Visit,
            _ => return None,
        })
    }
}

/// How the owner found the key, or left it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(super) enum Outcome {
    /// It was not there.
    Absent = 0,
    /// It was there.
    Present = 1,
    /// Another lock is on it.
    Locked = 2,
    /// The lock of the request is not on it.
    NotHeld = 3,
}

impl Outcome {
    pub(super) const fn of(byte: u8) -> Option<Self> {
        Some(match byte {
            0 => Self::Absent,
            1 => Self::Present,
            2 => Self::Locked,
            3 => Self::NotHeld,
            _ => return None,
        })
    }
}

const HEAD: usize = 16;

/// A request, its key and value within the limits of the shape.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ChainedRequest<'r> {
    pub(super) operation: Operation,
    /// The lock's word; 0 is none.
    pub(super) lock: u64,
    pub(super) key: &'r [u8],
    pub(super) value: &'r [u8],
}

impl<'r> ChainedRequest<'r> {
    pub(super) fn encode(&self) -> Vec<u8> {
        let head =
            self.operation as u64 | (self.key.len() as u64) << 16 | (self.value.len() as u64) << 32;
        let mut bytes = Vec::with_capacity(HEAD + self.key.len() + self.value.len());
        bytes.extend_from_slice(&head.to_le_bytes());
        bytes.extend_from_slice(&self.lock.to_le_bytes());
        bytes.extend_from_slice(self.key);
        bytes.extend_from_slice(self.value);
        bytes
    }

    /// The request of these bytes; nothing if they are none that this shape allows.
    pub(super) fn decode(bytes: &'r [u8], shape: &Shape) -> Option<Self> {
        let (head, rest) = bytes.split_first_chunk()?;
        let (lock, rest) = rest.split_first_chunk()?;
        let head = u64::from_le_bytes(*head);
        let (key, value) = rest.split_at_checked(usize::from((head >> 16) as u16))?;
        let fits = value.len() as u64 == head >> 32
            && key.len() <= shape.key_bytes.into()
            && value.len() <= shape.value_bytes.into()
            && (head >> 8) as u8 == 0;
        fits.then_some(Self {
            operation: Operation::of(head as u8)?,
            lock: u64::from_le_bytes(*lock),
            key,
            value,
        })
    }
}

/// Words of a reply before the slot's.
const REPLY_HEAD: usize = 3;

/// A reply.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Answer<'r> {
    pub(super) outcome: Outcome,
    pub(super) extra: u64,
    /// Where the slot lies; 0 if there is none.
    pub(super) at: u64,
    /// The slot's words, as many as were worth it.
    pub(super) slot: std::borrow::Cow<'r, [u64]>,
}

impl Answer<'_> {
    /// Most bytes of a reply.
    pub(super) fn most_bytes(shape: &Shape) -> usize {
        (REPLY_HEAD + shape.slot_words()) * 8
    }

    /// Puts the reply; nothing if it has no room.
    pub(super) fn encode(&self, to: &mut [u8]) -> Option<usize> {
        let head = [self.outcome as u64, self.extra, self.at];
        let words = head.iter().chain(&*self.slot);
        let bytes = (REPLY_HEAD + self.slot.len()) * 8;
        for (to, word) in to.get_mut(..bytes)?.chunks_exact_mut(8).zip(words) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        Some(bytes)
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let (chunks, rest) = bytes.as_chunks::<8>();
        let words: Vec<_> = chunks
            .iter()
            .map(|word| u64::from_le_bytes(*word))
            .collect();
        let (&[outcome, extra, at], slot) = words.split_first_chunk::<REPLY_HEAD>()?;
        let answer = Self {
            outcome: Outcome::of(u8::try_from(outcome).ok()?)?,
            extra,
            at,
            slot: slot.to_vec().into(),
        };
        rest.is_empty().then_some(answer)
    }
}
