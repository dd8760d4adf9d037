//! What the gateway keeps of a key: when it expires, and its value, as the store keeps them in a table
//! whose records may have a time to live ([`Expiry`]).

use farslot::Expiry;
use smallvec::SmallVec;
use std::rc::Rc;

/// Bytes before the value.
const HEAD: usize = Expiry::BYTES;
/// Bytes of the longest value: those of a table that was made without sizes.
pub(crate) const LONGEST_VALUE: usize = 1 << 20;

/// The bytes of a string that is kept, or of a record. Those of short ones lie where this lies.
pub(crate) type Kept = SmallVec<[u8; 32]>;

/// A string, of a request or of the store. Copies share it.
#[derive(Clone, Debug)]
pub(crate) enum Bytes<'r> {
    /// A part of a request.
    Given(&'r [u8]),
    /// From one byte on, and up to another if that is not the end.
    Kept {
        bytes: Rc<Kept>,
        from: usize,
        to: Option<usize>,
    },
}

impl<'r> Bytes<'r> {
    /// Some of it, by its place: nothing is copied.
    ///
    /// # Panics
    /// If there is no such place.
    pub(crate) fn part(&self, place: std::ops::Range<usize>) -> Self {
        assert!(place.end <= self.len());
        match self {
            Self::Given(bytes) => Self::Given(&bytes[place]),
            Self::Kept { bytes, from, .. } => Self::Kept {
                bytes: Rc::clone(bytes),
                from: from + place.start,
                to: Some(from + place.end),
            },
        }
    }
}

impl Bytes<'_> {
    /// A copy of these.
    pub(crate) fn copied(bytes: &[u8]) -> Self {
        Self::from(Kept::from_slice(bytes))
    }

    /// The string, to be changed in place unless a reply has it as well; and how many bytes were
    /// copied for that.
    pub(crate) fn make_mut(&mut self) -> (&mut Kept, usize) {
        let shared = match self {
            Self::Given(_) => true,
            Self::Kept { bytes, from, to } => {
                *from > 0 || to.is_some() || Rc::strong_count(bytes) > 1
            }
        };
        let copied = if shared { self.len() } else { 0 };
        if shared {
            *self = Self::copied(self);
        }
        match self {
            Self::Kept { bytes, .. } => (Rc::make_mut(bytes), copied),
            Self::Given(_) => unreachable!("it was copied"),
        }
    }
}

impl From<Kept> for Bytes<'_> {
    fn from(bytes: Kept) -> Self {
        Self::Kept {
            bytes: Rc::new(bytes),
            from: 0,
            to: None,
        }
    }
}

impl std::ops::Deref for Bytes<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Given(bytes) => bytes,
            Self::Kept { bytes, from, to } => &bytes[*from..to.unwrap_or(bytes.len())],
        }
    }
}

/// A key that is there.
#[derive(Clone, Debug)]
pub(crate) struct Entry<'r> {
    pub(crate) value: Bytes<'r>,
    /// Milliseconds since 1970; 0 for never.
    pub(crate) expiry: u64,
}

impl<'r> Entry<'r> {
    /// What a record means now; nothing of one that has expired.
    pub(crate) fn of(record: &Rc<Kept>, now: u64) -> Option<Self> {
        let (expiry, _) = Expiry::living(record, now)?;
        Some(Self {
            value: Bytes::Kept {
                bytes: Rc::clone(record),
                from: HEAD,
                to: None,
            },
            expiry: expiry.millis(),
        })
    }

    /// The record of it.
    pub(crate) fn record(&self) -> Kept {
        let mut record = Kept::with_capacity(HEAD + self.value.len());
        record.extend_from_slice(&Expiry::at_millis(self.expiry).to_bytes());
        record.extend_from_slice(&self.value);
        record
    }
}

/// Whether a record counts as absent.
pub(crate) fn is_dead(record: &[u8], now: u64) -> bool {
    Expiry::living(record, now).is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_read_as_they_were_written() {
        for (expiry, is_there) in [(0, true), (1_000, false), (1_001, true)] {
            let value = Bytes::Given(b"value");
            let record = Rc::new(Entry { value, expiry }.record());
            let read = Entry::of(&record, 1_000);
            assert_eq!(read.is_some(), is_there);
            if let Some(read) = read {
                assert_eq!((&*read.value, read.expiry), (&b"value"[..], expiry));
            }
        }
        assert!(Entry::of(&Rc::new(Kept::from_slice(&[0; 7])), 0).is_none());
    }

    #[test]
    fn what_a_reply_has_is_not_changed() {
        let mut value = Bytes::copied(b"abc");
        let reply = value.clone();
        let (bytes, copied) = value.make_mut();
        bytes.push(b'd');
        assert_eq!((copied, &*reply, &*value), (3, &b"abc"[..], &b"abcd"[..]));
        assert_eq!(value.make_mut().1, 0);
    }
}
