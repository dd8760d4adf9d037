//! The bytes of a connection in memory: received and not yet consumed, or to be sent.
//!
//! Buffers hold words, since every frame is a whole number of words. So each frame starts at a word
//! in memory, and payloads are copied word by word.

use super::secured::Socket;
use super::socket::Io;
use super::wire::{FrameKind, Header, LARGEST_COUNT};

/// What is received at once where nothing larger is waited for.
pub(crate) const RECEIVE_BYTES: usize = 256 << 10;
/// A rest of at most so many bytes is copied to a buffer that many connections use in turns.
pub(crate) const LENT_BYTES: usize = 16 << 10;
/// A buffer that grew past this for a large verb is given up when it is empty.
const KEPT_BYTES: usize = 1 << 20;

/// Bytes that have arrived. Without any, it may be without memory.
#[derive(Default)]
pub(crate) struct Inbound {
    words: Vec<u64>,
    /// First word that is not used up.
    start: usize,
    /// First byte that has not arrived.
    end: usize,
}

impl Inbound {
    /// One that has memory from the start.
    pub(crate) fn with_memory() -> Self {
        Self {
            words: vec![0; RECEIVE_BYTES / 8],
            ..Self::default()
        }
    }

    /// Bytes of memory that it has.
    pub(crate) fn memory(&self) -> usize {
        self.words.len() * 8
    }

    /// Bytes that have arrived and are not used up.
    pub(crate) fn len(&self) -> usize {
        self.end - self.start * 8
    }

    /// The whole words that have arrived and are not used up.
    #[inline]
    pub(crate) fn words(&self) -> &[u64] {
        &self.words[self.start..self.end / 8]
    }

    /// Whether nothing is left, not even a part of a word.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.start * 8 == self.end
    }

    /// Uses up words.
    #[inline]
    pub(crate) fn consume(&mut self, words: usize) {
        debug_assert!(self.start + words <= self.end / 8);
        self.start += words;
    }

    /// Uses up everything.
    pub(crate) fn discard(&mut self) {
        (self.start, self.end) = (0, 0);
    }

    /// Receives once; `wanted` words, of those that are there and those to come, will have room.
    pub(crate) fn receive(&mut self, socket: &mut Socket, wanted: usize) -> Io {
        self.make_room(wanted);
        let space = &mut bytemuck::cast_slice_mut(&mut self.words)[self.end..];
        let received = socket.receive(space);
        if let Io::Moved(bytes) = received {
            self.end += bytes;
        }
        received
    }

    /// Receives once, at most `most` bytes, into the memory that is there; there must be room.
    pub(crate) fn receive_within(&mut self, socket: &mut Socket, most: usize) -> Io {
        self.move_to_front();
        let space = &mut bytemuck::cast_slice_mut(&mut self.words)[self.end..];
        let most = most.min(space.len());
        let received = socket.receive(&mut space[..most]);
        if let Io::Moved(bytes) = received {
            self.end += bytes;
        }
        received
    }

    /// Has memory for so many bytes in all.
    pub(crate) fn grow(&mut self, bytes: usize) {
        let words = bytes.div_ceil(8);
        if self.words.len() < words {
            self.words.reserve_exact(words - self.words.len());
            self.words.resize(words, 0);
        }
    }

    /// Takes a copy of what another has left, in place of its own; it must have the memory.
    pub(crate) fn copy_rest(&mut self, other: &Self) {
        let rest = &other.words[other.start..other.end.div_ceil(8)];
        self.words[..rest.len()].copy_from_slice(rest);
        (self.start, self.end) = (0, other.len());
    }

    /// Takes bytes that have arrived otherwise.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.make_room((self.end - self.start * 8 + bytes.len()).div_ceil(8));
        let space: &mut [u8] = bytemuck::cast_slice_mut(&mut self.words);
        space[self.end..self.end + bytes.len()].copy_from_slice(bytes);
        self.end += bytes.len();
    }

    /// Moves what is left to the beginning, and grows.
    fn make_room(&mut self, wanted: usize) {
        if self.is_empty() {
            (self.start, self.end) = (0, 0);
            if self.words.len() * 8 > KEPT_BYTES && wanted * 8 <= KEPT_BYTES {
                self.words = Vec::new();
            }
        } else {
            self.move_to_front();
        }
        // Always more than what has arrived: there is room for another word at least.
        let needed = wanted.max(RECEIVE_BYTES / 8).max(self.end / 8 + 1);
        if self.words.len() < needed {
            self.words.resize(needed, 0);
        }
    }

    fn move_to_front(&mut self) {
        if self.is_empty() {
            (self.start, self.end) = (0, 0);
        } else if self.start > 0 {
            self.words.copy_within(self.start..self.end.div_ceil(8), 0);
            self.end -= self.start * 8;
            self.start = 0;
        }
    }

    /// Takes out what is left, in memory of just its size, and leaves nothing.
    pub(crate) fn take_rest(&mut self) -> Self {
        let rest = Self {
            words: self.words[self.start..self.end.div_ceil(8)].to_vec(),
            start: 0,
            end: self.len(),
        };
        (self.start, self.end) = (0, 0);
        rest
    }
}

/// Frames that are to be sent. The last may be open, so that more entries can be added.
#[derive(Default)]
pub(crate) struct Outbound {
    words: Vec<u64>,
    /// Bytes that went.
    sent: usize,
    /// Where the open frame begins, and its entries.
    open: Option<(usize, u16)>,
    /// Of the memory that has this capacity, so many words were written once, from its start on.
    written: (usize, usize),
}

impl Outbound {
    /// Bytes of memory that it has.
    pub(crate) fn memory(&self) -> usize {
        self.words.capacity() * 8
    }

    /// Bytes that did not go yet.
    #[inline]
    pub(crate) fn unsent(&self) -> usize {
        self.words.len() * 8 - self.sent
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// Counts an entry of `entry` words into a frame of this kind, the only one that is ever left
    /// open here, of at most `limit` words where it has more than one entry; returns where to
    /// append the entry.
    #[inline]
    pub(crate) fn entry(&mut self, kind: FrameKind, entry: usize, limit: usize) -> &mut Vec<u64> {
        match &mut self.open {
            Some((start, count))
                if usize::from(*count) < LARGEST_COUNT
                    && self.words.len() - *start + entry <= limit =>
            {
                *count += 1;
            }
            _ => self.open(kind),
        }
        &mut self.words
    }

    #[cold]
    fn open(&mut self, kind: FrameKind) {
        self.close(kind);
        self.open = Some((self.words.len(), 1));
        self.words.push(0);
    }

    /// Ends the open frame, of this kind.
    #[inline]
    fn close(&mut self, kind: FrameKind) {
        if let Some((start, count)) = self.open.take() {
            let words = (self.words.len() - start) as u32;
            self.words[start] = Header { kind, count, words }.encode();
        }
    }

    /// Appends a whole frame, behind the open one of `kind`.
    pub(crate) fn frame(&mut self, kind: FrameKind, frame: &[u64]) {
        self.close(kind);
        self.words.extend_from_slice(frame);
    }

    /// Begins a frame of one entry of so many words, behind the open one of the same kind; they are
    /// appended to [`Outbound::end`].
    pub(crate) fn begin(&mut self, kind: FrameKind, words: usize) {
        let words = words as u32 + 1;
        let header = Header {
            kind,
            count: 1,
            words,
        };
        self.frame(kind, &[header.encode()]);
    }

    /// Where the words of a frame that was [begun](Outbound::begin) go.
    pub(crate) fn end(&mut self) -> &mut Vec<u64> {
        &mut self.words
    }

    /// Appends so many words to the open frame's last entry, to be filled; what they hold is
    /// unspecified. Without this a reply whose length nobody knows would be cleared first, at the
    /// length that it may have.
    pub(crate) fn room(&mut self, words: usize) -> &mut [u64] {
        let start = self.words.len();
        let end = start + words;
        self.words.reserve(words);
        let capacity = self.words.capacity();
        let written = match self.written {
            (of, written) if of == capacity => written,
            _ => 0,
        };
        let known = written.clamp(start, end);
        // SAFETY: there is room for `end` words. Those before `start` are the vector's; those from
        // there to `known` were written when the vector was longer, into the same memory: it has
        // moved only if its capacity has grown, and whoever replaces it forgets what was written.
        unsafe { self.words.set_len(known) };
        self.words.resize(end, 0);
        self.written = (capacity, written.max(end));
        &mut self.words[start..]
    }

    /// Takes so many words of the last entry back.
    pub(crate) fn shorten(&mut self, words: usize) {
        let end = self.words.len().saturating_sub(words);
        self.words.truncate(end);
    }

    /// Takes the last entry back, of so many words, which was added to the open frame.
    pub(crate) fn take_back(&mut self, words: usize) {
        self.shorten(words);
        match &mut self.open {
            Some((start, 1)) => {
                self.words.truncate(*start);
                self.open = None;
            }
            Some((_, count)) => *count -= 1,
            None => {}
        }
    }

    /// Ends the open frame, of `kind`, and sends once; all is gone if nothing is left then.
    #[inline]
    pub(crate) fn send(&mut self, socket: &mut Socket, kind: FrameKind) -> Io {
        self.close(kind);
        let bytes = &bytemuck::cast_slice(&self.words)[self.sent..];
        let sent = socket.send(bytes);
        if let Io::Moved(bytes) = sent {
            self.sent += bytes;
            if self.unsent() == 0 {
                self.clear();
            }
        }
        sent
    }

    /// Ends the open frame, of `kind`, and takes out everything.
    pub(crate) fn take_bytes(&mut self, kind: FrameKind, into: &mut Vec<u8>) {
        self.close(kind);
        into.extend_from_slice(&bytemuck::cast_slice(&self.words)[self.sent..]);
        self.clear();
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        (self.sent, self.open) = (0, None);
        if self.words.capacity() * 8 > KEPT_BYTES {
            self.words = Vec::new();
            self.written = (0, 0);
        } else {
            self.words.clear();
        }
    }

    /// Takes out what did not go, in memory of about its size, and leaves nothing. No frame may be
    /// open.
    pub(crate) fn take_rest(&mut self) -> Self {
        debug_assert!(self.open.is_none());
        let first = self.sent / 8;
        let rest = Self {
            words: self.words[first..].to_vec(),
            sent: self.sent % 8,
            ..Self::default()
        };
        self.clear();
        rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (client, listener.accept().unwrap().0)
    }

    fn bare(stream: TcpStream) -> Socket {
        Socket::new(stream, None)
    }

    #[test]
    fn bytes_that_come_in_pieces_are_whole_words_in_the_end() {
        let (mut from, to) = pair();
        let mut to = bare(to);
        let mut inbound = Inbound::default();
        let mut receive = |inbound: &mut Inbound, wanted| {
            while inbound.receive(&mut to, wanted) == Io::Blocked {
                std::thread::yield_now();
            }
        };
        from.write_all(&[1; 12]).unwrap();
        receive(&mut inbound, 1);
        assert_eq!(inbound.words(), [0x0101_0101_0101_0101]);
        inbound.consume(1);
        assert!(inbound.words().is_empty() && !inbound.is_empty());

        let mut rest = inbound.take_rest();
        assert!(inbound.is_empty());
        from.write_all(&[2; 4]).unwrap();
        receive(&mut rest, 1);
        assert_eq!(rest.words(), [0x0202_0202_0101_0101]);
        rest.consume(1);
        assert!(rest.is_empty());

        // One that is longer than what is received at once.
        let large = vec![3u8; 8 * (RECEIVE_BYTES / 8 + 10)];
        std::thread::scope(|scope| {
            scope.spawn(|| from.write_all(&large).unwrap());
            while rest.words().len() < large.len() / 8 {
                receive(&mut rest, large.len() / 8);
            }
        });
        assert!(
            rest.words()
                .iter()
                .all(|word| *word == 0x0303_0303_0303_0303)
        );
    }

    #[test]
    fn room_is_for_what_is_written_there_whatever_was_before() {
        let kind = FrameKind::Completions;
        let mut outbound = Outbound::default();
        for round in 1..200_u64 {
            for entry in 0..round % 5 {
                let words = (round * 37 + entry) as usize % 3000;
                outbound.entry(kind, words, usize::MAX).push(round);
                let room = outbound.room(words);
                assert_eq!(room.len(), words);
                room.fill(round);
                outbound.shorten(words / 2);
            }
            let mut bytes = Vec::new();
            outbound.take_bytes(kind, &mut bytes);
            let words = bytes.chunks_exact(8).map(bytemuck::pod_read_unaligned);
            assert!(words.skip(1).all(|word: u64| word == round));
        }
    }

    #[test]
    fn frames_end_at_their_limits_and_what_did_not_go_goes_later() {
        let kind = FrameKind::Verbs;
        let mut outbound = Outbound::default();
        for entry in 0..5 {
            outbound.entry(kind, 2, 5).extend([entry, entry]);
        }
        outbound.frame(kind, &[77]);
        for _ in 0..LARGEST_COUNT + 1 {
            outbound.entry(kind, 0, 5);
        }
        let (from, mut to) = pair();
        let mut from = bare(from);
        let expected = outbound.unsent() + 8;
        outbound.entry(kind, 1, 5).push(9);
        while !outbound.is_empty() {
            assert_ne!(outbound.send(&mut from, kind), Io::Closed);
            let rest = outbound.take_rest();
            outbound = rest;
        }
        let mut bytes = vec![0; expected];
        to.read_exact(&mut bytes).unwrap();
        let words: Vec<u64> = bytes
            .chunks_exact(8)
            .map(bytemuck::pod_read_unaligned)
            .collect();
        let head = |count, words| Header { kind, count, words }.encode();
        let (two, one) = (head(2, 5), head(1, 3));
        assert_eq!(
            words,
            [
                &[two, 0, 0, 1, 1, two, 2, 2, 3, 3, one, 4, 4, 77][..],
                &[head(65535, 1), head(2, 2), 9],
            ]
            .concat()
        );
    }
}
