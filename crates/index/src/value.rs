//! A value that a lookup found.

use farslot_fabric::Buffer;
use std::fmt;
use std::ops::{Deref, Range};
use std::rc::Rc;

/// A value's bytes: a small one in itself, a longer one in the registered buffer that it was read
/// into, in the reply of a call, or in the cache that has answered; and of memory that is mapped a
/// copy. It belongs to the thread that looked it up.
pub struct Value(Bytes);

enum Bytes {
    /// The first `len` bytes of a little-endian word: as a word, it is moved with one load and one
    /// store.
    Small {
        word: u64,
        len: u8,
    },
    Read {
        buffer: Buffer,
        range: Range<u32>,
    },
    /// A part of a reply, which has other values as well.
    Replied {
        reply: Rc<Buffer>,
        range: Range<u32>,
    },
    /// From this byte on.
    Shared {
        bytes: Rc<[u8]>,
        from: usize,
    },
    /// From this byte on.
    Copied {
        bytes: Box<[u8]>,
        from: usize,
    },
}

impl Value {
    /// The first `len` bytes of a little-endian word; at most 8.
    #[inline]
    pub(crate) fn of_word(word: u64, len: usize) -> Self {
        Self(Bytes::Small {
            word,
            len: len.min(8) as u8,
        })
    }

    /// A part of a buffer that was read.
    #[inline]
    pub(crate) fn of_buffer(buffer: Buffer, range: Range<usize>) -> Self {
        let range = range.start as u32..range.end as u32;
        Self(Bytes::Read { buffer, range })
    }
}

impl Value {
    /// The same without the fabric's buffer that it was read into: for who keeps many, as the
    /// buffers of an endpoint are few.
    #[must_use]
    pub fn detached(self) -> Self {
        match self.0 {
            Bytes::Read { .. } | Bytes::Replied { .. } => Self::from(&*self),
            Bytes::Small { .. } | Bytes::Shared { .. } | Bytes::Copied { .. } => self,
        }
    }

    /// The same without its first bytes, of which it has at least so many. Nothing is copied.
    #[inline]
    #[must_use]
    pub fn without_first(self, bytes: usize) -> Self {
        let after = |range: Range<u32>| (range.start + bytes as u32).min(range.end)..range.end;
        Self(match self.0 {
            Bytes::Small { word, len } => Bytes::Small {
                word: word.checked_shr(8 * bytes as u32).unwrap_or(0),
                len: usize::from(len).saturating_sub(bytes) as u8,
            },
            Bytes::Read { buffer, range } => Bytes::Read {
                buffer,
                range: after(range),
            },
            Bytes::Replied { reply, range } => Bytes::Replied {
                reply,
                range: after(range),
            },
            Bytes::Shared { bytes: all, from } => Bytes::Shared {
                from: (from + bytes).min(all.len()),
                bytes: all,
            },
            Bytes::Copied { bytes: all, from } => Bytes::Copied {
                from: (from + bytes).min(all.len()),
                bytes: all,
            },
        })
    }

    /// As a little-endian word and how many of its bytes it is, if it is small.
    #[inline]
    pub(crate) const fn as_word(&self) -> Option<(u64, usize)> {
        match self.0 {
            Bytes::Small { word, len } => Some((word, len as usize)),
            _ => None,
        }
    }

    /// A part of a buffer that others may share, as of a reply with many values.
    ///
    /// # Panics
    /// If the buffer has no such part.
    #[must_use]
    pub fn of_reply(reply: &Rc<Buffer>, range: Range<usize>) -> Self {
        if range.len() <= 8 {
            return Self::from(&reply[range]);
        }
        Self(Bytes::Replied {
            reply: Rc::clone(reply),
            range: range.start as u32..range.end as u32,
        })
    }

    /// What follows the first `from` bytes of a cached record.
    pub(crate) fn of_shared(bytes: Rc<[u8]>, from: usize) -> Self {
        Self(Bytes::Shared { bytes, from })
    }
}

/// A copy of bytes from elsewhere.
impl From<&[u8]> for Value {
    fn from(bytes: &[u8]) -> Self {
        match bytes.len() {
            len @ ..=8 => {
                let mut small = [0; 8];
                small[..len].copy_from_slice(bytes);
                Self::of_word(u64::from_le_bytes(small), len)
            }
            _ => Self(Bytes::Copied {
                bytes: bytes.into(),
                from: 0,
            }),
        }
    }
}

/// The bytes as they are, if they are the value's own; else a copy.
impl From<Value> for Vec<u8> {
    #[inline]
    fn from(value: Value) -> Self {
        match value.0 {
            Bytes::Copied { bytes, from } => {
                let mut bytes = bytes.into_vec();
                bytes.drain(..from);
                bytes
            }
            _ => value.to_vec(),
        }
    }
}

/// Values that are not shared are copied.
impl Clone for Value {
    fn clone(&self) -> Self {
        match &self.0 {
            Bytes::Shared { bytes, from } => Self::of_shared(Rc::clone(bytes), *from),
            _ => Self::from(&**self),
        }
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Value {}

impl Deref for Value {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match &self.0 {
            Bytes::Small { word, len } => &bytemuck::bytes_of(word)[..usize::from(*len)],
            Bytes::Read { buffer, range } => &buffer[range.start as usize..range.end as usize],
            Bytes::Replied { reply, range } => &reply[range.start as usize..range.end as usize],
            Bytes::Shared { bytes, from } => &bytes[*from..],
            Bytes::Copied { bytes, from } => &bytes[*from..],
        }
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.deref().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_without_its_first_bytes_is_the_rest() {
        for length in 0..40 {
            let bytes: Vec<u8> = (0..length).collect();
            for first in 0..=bytes.len() {
                let rest = Value::from(&bytes[..]).without_first(first);
                assert_eq!(&*rest, &bytes[first..], "{length} without {first}");
                assert_eq!(Vec::from(rest), &bytes[first..], "as the user's own");
            }
        }
    }
}
