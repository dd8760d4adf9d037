//! What the gateway keeps of a key: when it expires, and its value, as the store keeps them in a
//! table whose records may have a time to live ([`Expiry`]).

use farslot::Expiry;
use farslot::layout::{LARGEST_RECORD, record_bytes};
use std::ops::Deref;
use std::rc::Rc;

/// Bytes before the value.
const HEAD: usize = Expiry::BYTES;
/// Bytes of the longest key of a database.
const LONGEST_KEY: usize = 64 << 10;
/// Bytes of the longest value of a database: what the largest record of a heap has room for beside
/// the longest key.
pub(crate) const LONGEST_VALUE: usize = LARGEST_RECORD - record_bytes(LONGEST_KEY, HEAD);

/// Bytes that lie where their [`RecordBytes`] lies: a record of a number is no longer.
const FEW: usize = 30;

/// The bytes of a string that is kept, or of a record: a few in place, more of them where copies
/// share them.
#[derive(Clone, Debug)]
pub(crate) enum RecordBytes {
    Few { bytes: [u8; FEW], len: u8 },
    More(Rc<Vec<u8>>),
}

impl RecordBytes {
    /// Copies of pieces, one behind the other.
    pub(crate) fn of<const PIECES: usize>(pieces: [&[u8]; PIECES]) -> Self {
        let len: usize = pieces.iter().map(|piece| piece.len()).sum();
        if len > FEW {
            return Self::More(Rc::new(pieces.concat()));
        }
        let (mut bytes, mut from) = ([0; FEW], 0);
        for piece in pieces {
            bytes[from..from + piece.len()].copy_from_slice(piece);
            from += piece.len();
        }
        let len = len as u8;
        Self::Few { bytes, len }
    }
}

impl Deref for RecordBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Few { bytes, len } => &bytes[..usize::from(*len)],
            Self::More(bytes) => bytes,
        }
    }
}

/// A string, of a request or of the store. Copies share a long one.
#[derive(Clone, Debug)]
pub(crate) enum Bytes<'r> {
    /// A part of a request.
    Given(&'r [u8]),
    /// From one byte on, and up to another if that is not the end.
    Kept {
        bytes: RecordBytes,
        from: usize,
        to: Option<usize>,
    },
}

impl<'r> Bytes<'r> {
    /// Some of it, by its place: nothing long is copied.
    ///
    /// # Panics
    /// If there is no such place.
    pub(crate) fn part(&self, place: std::ops::Range<usize>) -> Self {
        assert!(place.end <= self.len());
        match self {
            Self::Given(bytes) => Self::Given(&bytes[place]),
            Self::Kept { bytes, from, .. } => Self::Kept {
                bytes: bytes.clone(),
                from: from + place.start,
                to: Some(from + place.end),
            },
        }
    }
}

impl Bytes<'_> {
    /// A copy of these.
    pub(crate) fn copied(bytes: &[u8]) -> Self {
        Self::from(RecordBytes::of([bytes]))
    }

    /// The string, to be changed in place: a copy of it if a reply may have it as well.
    pub(crate) fn make_mut(&mut self) -> &mut Vec<u8> {
        let is_alone = |bytes: &Rc<_>| Rc::strong_count(bytes) == 1;
        if !matches!(self, Self::Kept { bytes: RecordBytes::More(all), from: 0, to: None } if is_alone(all))
        {
            *self = Self::from(RecordBytes::More(Rc::new(self.to_vec())));
        }
        match self {
            Self::Kept {
                bytes: RecordBytes::More(all),
                ..
            } => Rc::make_mut(all),
            _ => unreachable!("it was copied"),
        }
    }
}

impl From<RecordBytes> for Bytes<'_> {
    fn from(bytes: RecordBytes) -> Self {
        Self::Kept {
            bytes,
            from: 0,
            to: None,
        }
    }
}

impl Deref for Bytes<'_> {
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
    pub(crate) fn of(record: &RecordBytes, now: u64) -> Option<Self> {
        let (expiry, _) = Expiry::living(record, now)?;
        Some(Self {
            value: Bytes::Kept {
                bytes: record.clone(),
                from: HEAD,
                to: None,
            },
            expiry: expiry.millis(),
        })
    }

    /// The record of it.
    pub(crate) fn record(&self) -> RecordBytes {
        RecordBytes::of([&Expiry::at_millis(self.expiry).to_bytes(), &self.value])
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
            let record = Entry { value, expiry }.record();
            let read = Entry::of(&record, 1_000);
            assert_eq!(read.is_some(), is_there);
            if let Some(read) = read {
                assert_eq!((&*read.value, read.expiry), (&b"value"[..], expiry));
            }
        }
        assert!(Entry::of(&RecordBytes::of([&[0; 7]]), 0).is_none());
    }

    #[test]
    fn what_a_reply_has_is_not_changed() {
        // Short bytes lie in place, long ones elsewhere.
        for before in [b"abc".to_vec(), vec![b'a'; FEW + 1]] {
            let mut value = Bytes::copied(&before);
            let reply = value.clone();
            value.make_mut().push(b'd');
            assert_eq!(&*reply, &*before);
            assert_eq!(&*value, [&*before, b"d"].concat());
            let at = value.as_ptr();
            assert_eq!(value.make_mut().as_ptr(), at, "it is not copied again");
        }
    }

    #[test]
    fn pieces_are_kept_one_behind_the_other() {
        for (first, second) in [(0, 0), (8, FEW - 8), (8, FEW - 7), (FEW, 0), (FEW + 1, 0)] {
            let (first, second) = (vec![1; first], vec![2; second]);
            assert_eq!(
                &*RecordBytes::of([&first, &second]),
                [first, second].concat()
            );
        }
    }
}
