//! The verbs in a frame of kind VERBS.

use super::header::words_of;
use crate::VerbKind;
use crate::error::Malformed;

const READ: u8 = 1;
const READ_MANY: u8 = 2;
const WRITE: u8 = 3;
const COMPARE_SWAP: u8 = 4;
const FETCH_ADD: u8 = 5;
const WRITE_IMM: u8 = 6;
const CALL: u8 = 7;
const FENCE: u8 = 8;

/// Words of a READ.
pub const READ_WORDS: usize = 3;
/// Words of a WRITE or a CALL without its payload; a WRITE_IMM has one more.
pub const WRITE_WORDS: usize = 3;

/// Where a verb goes: the first three words of all but READ_MANY.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Span {
    /// The region, by its number.
    pub region: u16,
    /// First byte, counted from the region's start.
    pub offset: u64,
    /// Bytes; of an atomic 0.
    pub len: u32,
    /// The key that the region was granted under.
    pub key: u64,
}

impl Span {
    #[inline]
    const fn words(self, verb: u8) -> [u64; 3] {
        let first = self.len as u64 | (self.region as u64) << 32 | (verb as u64) << 48;
        [first, self.offset, self.key]
    }

    #[inline]
    const fn of(first: u64, offset: u64, key: u64) -> Self {
        Self {
            region: (first >> 32) as u16,
            offset,
            len: first as u32,
            key,
        }
    }
}

/// The pieces of a READ_MANY, decoded one by one. All were checked when the request was.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WirePieces<'w>(&'w [u64]);

impl<'w> WirePieces<'w> {
    /// So many pieces that `words` begin with, or all that are there; they must have been checked.
    pub(crate) fn new(words: &'w [u64], pieces: usize) -> Self {
        let all = words.len() / READ_WORDS;
        Self(&words[..pieces.min(all) * READ_WORDS])
    }
}

impl ExactSizeIterator for WirePieces<'_> {
    #[inline]
    fn len(&self) -> usize {
        self.0.len() / READ_WORDS
    }
}

impl Iterator for WirePieces<'_> {
    type Item = Span;

    #[inline]
    fn next(&mut self) -> Option<Span> {
        let ([first, offset, key], rest) = self.0.split_first_chunk::<READ_WORDS>()?;
        self.0 = rest;
        Some(Span::of(*first, *offset, *key))
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        let pieces = self.0.len() / READ_WORDS;
        (pieces, Some(pieces))
    }
}

/// A verb as it arrives. Payloads hold at least as many words as their bytes take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Request<'w> {
    /// [`Verb::Read`](crate::Verb::Read).
    Read(Span),
    /// [`Verb::ReadMany`](crate::Verb::ReadMany).
    ReadMany(WirePieces<'w>),
    /// [`Verb::Write`](crate::Verb::Write), with its payload.
    Write(Span, &'w [u64]),
    /// [`Verb::CompareSwap`](crate::Verb::CompareSwap).
    CompareSwap {
        /// The word.
        at: Span,
        /// The value it must have.
        expected: u64,
        /// The value it gets.
        new: u64,
    },
    /// [`Verb::FetchAdd`](crate::Verb::FetchAdd).
    FetchAdd {
        /// The word.
        at: Span,
        /// What is added.
        add: u64,
    },
    /// [`Verb::WriteImm`](crate::Verb::WriteImm).
    WriteImm {
        /// Where the payload goes.
        to: Span,
        /// A number for the receiver.
        imm: u32,
        /// The payload.
        payload: &'w [u64],
    },
    /// [`Verb::Call`](crate::Verb::Call).
    Call {
        /// The region called, with its key, and the bytes of the request. In place of an offset
        /// stand the most bytes of the reply.
        to: Span,
        /// The request.
        request: &'w [u64],
    },
    /// [`Endpoint::fence`](crate::Endpoint::fence): from now on verbs that change what lies behind
    /// a word in its region are refused while the word is another. It is not answered.
    Fence {
        /// The word.
        word: Span,
        /// What the word has to be; 0 ends the fence.
        holds: u64,
    },
}

impl Request<'_> {
    /// Which verb it is. A fence counts as a READ.
    #[inline]
    #[must_use]
    pub const fn kind(&self) -> VerbKind {
        match self {
            Self::Read(_) | Self::Fence { .. } => VerbKind::Read,
            Self::ReadMany(_) => VerbKind::ReadMany,
            Self::Write(..) => VerbKind::Write,
            Self::CompareSwap { .. } => VerbKind::CompareSwap,
            Self::FetchAdd { .. } => VerbKind::FetchAdd,
            Self::WriteImm { .. } => VerbKind::WriteImm,
            Self::Call { .. } => VerbKind::Call,
        }
    }
}

/// Words of the verb that begins with `first`.
///
/// # Errors
/// [`Malformed::Verb`], [`Malformed::Reserved`].
#[inline]
pub const fn request_words(first: u64) -> Result<usize, Malformed> {
    if first >> 56 != 0 {
        return Err(Malformed::Reserved { found: first >> 56 });
    }
    let (verb, low) = ((first >> 48) as u8, first as u32);
    Ok(match verb {
        READ => READ_WORDS,
        READ_MANY => read_many_words(low as usize),
        WRITE => WRITE_WORDS + words_of(low),
        COMPARE_SWAP => 5,
        FETCH_ADD | FENCE => 4,
        WRITE_IMM => WRITE_WORDS + 1 + words_of(low),
        CALL => WRITE_WORDS + words_of(low),
        found => return Err(Malformed::Verb { found }),
    })
}

/// Words of a READ_MANY of so many pieces.
#[must_use]
pub const fn read_many_words(pieces: usize) -> usize {
    1 + pieces * READ_WORDS
}

/// The first verb of `words`, and how many words it has; nothing if more of them are needed, which
/// [`request_words`] tells.
///
/// # Errors
/// [`Malformed`]: the words are no verb, whatever follows.
#[inline]
pub fn decode_request(words: &[u64]) -> Result<Option<(Request<'_>, usize)>, Malformed> {
    let Some(&first) = words.first() else {
        return Ok(None);
    };
    let needed = request_words(first)?;
    let Some(words) = words.get(..needed) else {
        return Ok(None);
    };
    let request = match ((first >> 48) as u8, words) {
        (READ_MANY, [_, pieces @ ..]) => {
            if (first >> 32) as u16 != 0 {
                return Err(Malformed::Reserved {
                    found: first >> 32 & 0xffff,
                });
            }
            for piece in pieces.chunks_exact(READ_WORDS) {
                if piece[0] >> 48 != u64::from(READ) {
                    return Err(Malformed::Verb {
                        found: (piece[0] >> 48) as u8,
                    });
                }
            }
            Request::ReadMany(WirePieces(pieces))
        }
        (verb, [_, offset, key, rest @ ..]) => {
            let span = Span::of(first, *offset, *key);
            match (verb, rest) {
                (READ, []) => Request::Read(span),
                (WRITE, payload) => Request::Write(span, payload),
                (CALL, request) => Request::Call { to: span, request },
                (COMPARE_SWAP, [expected, new]) => Request::CompareSwap {
                    at: bare(span)?,
                    expected: *expected,
                    new: *new,
                },
                (FETCH_ADD, [add]) => Request::FetchAdd {
                    at: bare(span)?,
                    add: *add,
                },
                (FENCE, [holds]) => Request::Fence {
                    word: bare(span)?,
                    holds: *holds,
                },
                (WRITE_IMM, [imm, payload @ ..]) => Request::WriteImm {
                    to: span,
                    imm: number_of(*imm)?,
                    payload,
                },
                _ => return Err(Malformed::Verb { found: verb }),
            }
        }
        (verb, _) => return Err(Malformed::Verb { found: verb }),
    };
    Ok(Some((request, needed)))
}

/// The first verb of `words`, which are only a part of it, as far as its first words tell where it
/// goes: with what there is of its payload. Nothing where they do not yet, and of a READ_MANY.
///
/// # Errors
/// As [`decode_request`].
pub fn decode_start(words: &[u64]) -> Result<Option<Request<'_>>, Malformed> {
    let [first, offset, key, rest @ ..] = words else {
        return Ok(None);
    };
    let span = Span::of(*first, *offset, *key);
    Ok(match ((first >> 48) as u8, rest) {
        (WRITE, payload) => Some(Request::Write(span, payload)),
        (CALL, request) => Some(Request::Call { to: span, request }),
        (WRITE_IMM, [imm, payload @ ..]) => Some(Request::WriteImm {
            to: span,
            imm: number_of(*imm)?,
            payload,
        }),
        _ => None,
    })
}

/// Whether a verb is a CALL, by its first word.
#[must_use]
pub fn is_call(first: u64) -> bool {
    (first >> 48) as u8 == CALL
}

/// The number that a WRITE_IMM has for its receiver.
fn number_of(word: u64) -> Result<u32, Malformed> {
    u32::try_from(word).map_err(|_| Malformed::Reserved { found: word >> 32 })
}

/// The pieces of the READ or READ_MANY that `words` begin with, and how many words it has; nothing
/// where they begin with anything else, not with all of it, or with one that is malformed or has no
/// pieces: [`decode_request`] tells.
#[inline]
#[must_use]
pub fn decode_reads(words: &[u64]) -> Option<(WirePieces<'_>, usize)> {
    let first = *words.first()?;
    if first >> 48 == u64::from(READ) {
        return Some((WirePieces(words.get(..READ_WORDS)?), READ_WORDS));
    }
    if first >> 32 != u64::from(READ_MANY) << 16 || first as u32 == 0 {
        return None;
    }
    let needed = read_many_words(first as u32 as usize);
    let pieces = words.get(1..needed)?;
    let (pieces_of, _) = pieces.as_chunks::<READ_WORDS>();
    let all_reads = pieces_of
        .iter()
        .all(|piece| piece[0] >> 48 == u64::from(READ));
    all_reads.then_some((WirePieces(pieces), needed))
}

/// The span of an atomic, whose length is not on the wire.
const fn bare(span: Span) -> Result<Span, Malformed> {
    match span.len {
        0 => Ok(span),
        len => Err(Malformed::Reserved { found: len as u64 }),
    }
}

/// Appends a READ.
#[inline]
pub fn put_read(out: &mut Vec<u64>, from: Span) {
    out.extend_from_slice(&from.words(READ));
}

/// Appends a READ_MANY. Of more than `u32::MAX` pieces the number would be cut.
pub fn put_read_many(out: &mut Vec<u64>, pieces: impl ExactSizeIterator<Item = Span>) {
    out.push(pieces.len() as u32 as u64 | u64::from(READ_MANY) << 48);
    for piece in pieces {
        put_read(out, piece);
    }
}

/// Appends a WRITE of the first `to.len` bytes of `payload`, words that are no fewer.
pub fn put_write(out: &mut Vec<u64>, to: Span, payload: &[u64]) {
    out.extend_from_slice(&to.words(WRITE));
    put_payload(out, payload, to.len);
}

/// Appends a COMPARE_SWAP of the word at `at`, whose length is not looked at.
pub fn put_compare_swap(out: &mut Vec<u64>, at: Span, expected: u64, new: u64) {
    out.extend_from_slice(&Span { len: 0, ..at }.words(COMPARE_SWAP));
    out.extend_from_slice(&[expected, new]);
}

/// Appends a FETCH_ADD to the word at `at`, whose length is not looked at.
pub fn put_fetch_add(out: &mut Vec<u64>, at: Span, add: u64) {
    out.extend_from_slice(&Span { len: 0, ..at }.words(FETCH_ADD));
    out.push(add);
}

/// Appends a FENCE by the word at `word`, whose length is not looked at.
pub fn put_fence(out: &mut Vec<u64>, word: Span, holds: u64) {
    out.extend_from_slice(&Span { len: 0, ..word }.words(FENCE));
    out.push(holds);
}

/// Appends a WRITE_IMM of the first `to.len` bytes of `payload`, words that are no fewer.
pub fn put_write_imm(out: &mut Vec<u64>, to: Span, imm: u32, payload: &[u64]) {
    out.extend_from_slice(&to.words(WRITE_IMM));
    out.push(imm.into());
    put_payload(out, payload, to.len);
}

/// Appends a CALL of the region of `to`, with the first `to.len` bytes of `request`, words that are
/// no fewer.
pub fn put_call(out: &mut Vec<u64>, to: Span, request: &[u64]) {
    out.extend_from_slice(&to.words(CALL));
    put_payload(out, request, to.len);
}

/// Appends `len` bytes, and zeros up to the next word: what lies behind them in a buffer stays
/// there.
fn put_payload(out: &mut Vec<u64>, payload: &[u64], len: u32) {
    out.extend_from_slice(&payload[..words_of(len)]);
    let behind = (words_of(len) * 8) as u32 - len;
    if behind > 0
        && let Some(last) = out.last_mut()
    {
        *last &= u64::MAX >> (behind * 8);
    }
}
