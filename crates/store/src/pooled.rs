//! Tables whose memory is made of segments of their nodes' pools, as an endpoint reaches them.
//!
//! A verb to such a table goes by the table's own addresses. Here it gets those of the segments: of
//! memory that is mapped by a look at the table's list, elsewhere by what this endpoint knows of
//! the list. That may be used for as long as the table's [lease](super::lease) lasts: who takes a
//! segment from a table counts the table's versions up, which a lease shows, and waits as if the
//! table had been dropped.

use crate::catalog::TableRecord;
use crate::catalog::pool::{Claim, segments_of};
use crate::lease::held::{Lease, VerbAdmission};
use farslot_fabric::{
    AnyEndpoint, AnyPosted, Buffer, Completion, Endpoint, FabricError, InPlace, Nanos, NodeId,
    Piece, Pieces, PostError, RemoteAddr, Result, Rights, Segments, Verb,
};
use std::cell::{Cell, RefCell};
use std::task::{Context, Poll, Waker};

/// Words of a list that one READ fetches.
const LIST_READ: u64 = 512;

/// A table that is made of segments.
pub(crate) struct Pooled {
    pub(crate) segments: Segments,
    pub(crate) claim: Claim,
    pub(crate) id: u64,
    /// Of all but the owner's own endpoint, which sees before every call that the table is there.
    lease: Option<Lease>,
    /// Words of the list by their numbers, 0 for those that are not known.
    known: RefCell<Vec<u64>>,
    /// The table's versions when they were.
    version: Cell<u64>,
    /// The READ of words that is under way: the first of them, and the versions at that time.
    asked: RefCell<Option<(u64, u64, AnyPosted)>>,
    /// Where a look for a free segment goes on.
    pub(crate) cursor: Cell<u64>,
    /// Until when no more segments are looked for that other tables do not need.
    pub(crate) is_full_until: Cell<Nanos>,
}

/// What was posted for a verb.
pub enum PostedVerbs {
    One(AnyPosted),
    /// A READ of pieces.
    Gathered(AnyPosted),
    /// WRITEs, of which some are done.
    Several(Vec<Option<AnyPosted>>),
    /// Nothing: there is no memory.
    Zeros(Option<Buffer>),
}

/// Where a piece lies.
struct PieceLocation {
    /// What there is of it, from its start on.
    pieces: Pieces,
    /// Whether that is all.
    are_all: bool,
}

/// Why it is not known where a piece lies.
enum PieceLookupError {
    /// It is being read.
    Yet,
    Failed(FabricError),
}

impl Pooled {
    /// That of a record, of which a lease may be held that was seen at `since`; nothing of others.
    pub(crate) fn of(node: NodeId, record: &TableRecord, since: Option<Nanos>) -> Option<Self> {
        let segments = segments_of(node, record)?;
        Some(Self {
            known: RefCell::new(vec![0; segments.count() as usize]),
            segments,
            claim: Claim::of(record),
            id: record.id,
            lease: since.map(|since| Lease::of_table(node, record, since)),
            version: Cell::new(0),
            asked: RefCell::default(),
            cursor: Cell::new(0),
            is_full_until: Cell::new(0),
        })
    }

    pub(crate) const fn has(&self, at: RemoteAddr) -> bool {
        at.region.0 == self.segments.region.0 && at.node.0 == self.segments.list.node.0
    }

    /// What becomes of a verb by the lease.
    pub(crate) fn admit(
        &self,
        endpoint: &AnyEndpoint,
        at: RemoteAddr,
        changes: bool,
    ) -> VerbAdmission {
        let lease = self.lease.as_ref();
        lease.map_or(VerbAdmission::Post, |lease| {
            lease.admit(endpoint, at, changes)
        })
    }

    /// Its first byte.
    pub(crate) const fn start(&self) -> RemoteAddr {
        RemoteAddr {
            node: self.segments.list.node,
            region: self.segments.region,
            offset: 0,
        }
    }

    pub(crate) const fn is_leased(&self) -> bool {
        self.lease.is_some()
    }

    /// When the table was last seen to be there.
    pub(crate) fn seen_at(&self, endpoint: &AnyEndpoint) -> Nanos {
        let is_mapped = endpoint
            .in_place(self.segments.list, Rights::READ)
            .is_some();
        let lease = self.lease.as_ref().filter(|_| !is_mapped);
        lease.map_or_else(|| endpoint.now(), Lease::seen_at)
    }

    /// The table's memory, where it is mapped and may be used so.
    #[inline]
    pub(crate) fn in_place<'e>(
        &self,
        endpoint: &'e AnyEndpoint,
        needed: Rights,
        changes: bool,
    ) -> Option<InPlace<'e>> {
        let view = endpoint.in_place(self.segments.list, needed)?;
        let lease = self.lease.as_ref();
        let is_there = lease.is_none_or(|lease| lease.is_seen_in(&view, changes, endpoint));
        is_there.then(|| view.of_segments(self.segments))?
    }

    /// Posts a verb to the table's addresses, if its turn has come.
    pub(crate) fn post(
        &self,
        endpoint: &AnyEndpoint,
        verb: Verb,
    ) -> std::result::Result<PostedVerbs, PostError> {
        match verb {
            Verb::Read { from, into } => self.post_read(endpoint, from, into),
            Verb::Write { to, data } => self.post_write(endpoint, to, data),
            Verb::CompareSwap { at, expected, new } => {
                self.post_on_word(endpoint, at, |at| Verb::CompareSwap { at, expected, new })
            }
            Verb::FetchAdd { at, add } => {
                self.post_on_word(endpoint, at, |at| Verb::FetchAdd { at, add })
            }
            // No table that is made of segments posts these: of its addresses a fabric knows none.
            verb @ (Verb::ReadMany { .. } | Verb::WriteImm { .. } | Verb::Call { .. }) => {
                endpoint.post(verb).map(PostedVerbs::One)
            }
        }
    }

    /// A READ. What there is no memory for, and what lies behind that, is read as zeros.
    pub(crate) fn post_read(
        &self,
        endpoint: &AnyEndpoint,
        from: RemoteAddr,
        mut into: Buffer,
    ) -> std::result::Result<PostedVerbs, PostError> {
        let len = into.len();
        let PieceLocation { pieces, are_all } = match self.places(endpoint, Piece { from, len }) {
            Ok(places) => places,
            Err(PieceLookupError::Yet) => {
                return Err(PostError::QueueFull(Verb::Read { from, into }));
            }
            Err(PieceLookupError::Failed(error)) => return Err(PostError::Rejected(error)),
        };
        if !are_all {
            into.words_mut().fill(0);
        }
        let again = |refused| match refused {
            PostError::QueueFull(Verb::Read { into, .. } | Verb::ReadMany { into, .. }) => {
                PostError::QueueFull(Verb::Read { from, into })
            }
            other => other,
        };
        match &*pieces {
            [] => Ok(PostedVerbs::Zeros(Some(into))),
            [piece] if are_all => {
                let posted = endpoint.post_read(piece.from, into);
                posted.map(PostedVerbs::One).map_err(again)
            }
            _ => {
                let posted = endpoint.post(Verb::ReadMany { pieces, into });
                posted.map(PostedVerbs::Gathered).map_err(again)
            }
        }
    }

    /// A WRITE: several, where it lies in segments that are no neighbours.
    fn post_write(
        &self,
        endpoint: &AnyEndpoint,
        to: RemoteAddr,
        data: Buffer,
    ) -> std::result::Result<PostedVerbs, PostError> {
        let len = data.len();
        let pieces = match self.pieces_of(endpoint, Piece { from: to, len }) {
            Ok(pieces) => pieces,
            Err(PieceLookupError::Yet) => {
                return Err(PostError::QueueFull(Verb::Write { to, data }));
            }
            Err(PieceLookupError::Failed(error)) => return Err(PostError::Rejected(error)),
        };
        if let [piece] = &*pieces {
            let posted = endpoint.post(Verb::Write {
                to: piece.from,
                data,
            });
            return posted
                .map(PostedVerbs::One)
                .map_err(|refused| match refused {
                    PostError::QueueFull(Verb::Write { data, .. }) => {
                        PostError::QueueFull(Verb::Write { to, data })
                    }
                    other => other,
                });
        }
        let (mut all, mut done) = (Vec::with_capacity(pieces.len()), 0);
        for Piece { from, len } in pieces {
            let part = endpoint.core().buffers.copy_of(&data[done..done + len]);
            let part = part.map_err(PostError::Rejected)?;
            match endpoint.post(Verb::Write {
                to: from,
                data: part,
            }) {
                Ok(posted) => all.push(Some(posted)),
                // Those before are written again: they write the same.
                Err(PostError::QueueFull(_)) => {
                    return Err(PostError::QueueFull(Verb::Write { to, data }));
                }
                Err(rejected) => return Err(rejected),
            }
            done += len;
        }
        Ok(PostedVerbs::Several(all))
    }

    fn post_on_word(
        &self,
        endpoint: &AnyEndpoint,
        at: RemoteAddr,
        verb: impl Fn(RemoteAddr) -> Verb,
    ) -> std::result::Result<PostedVerbs, PostError> {
        match self
            .pieces_of(endpoint, Piece { from: at, len: 8 })
            .as_deref()
        {
            Ok([word]) => endpoint
                .post(verb(word.from))
                .map(PostedVerbs::One)
                .map_err(|refused| match refused {
                    PostError::QueueFull(_) => PostError::QueueFull(verb(at)),
                    other => other,
                }),
            Ok(_) => Err(PostError::Rejected(FabricError::Misaligned { at })),
            Err(PieceLookupError::Yet) => Err(PostError::QueueFull(verb(at))),
            Err(PieceLookupError::Failed(error)) => Err(PostError::Rejected(error.clone())),
        }
    }

    /// Where all of a piece lies.
    fn pieces_of(
        &self,
        endpoint: &AnyEndpoint,
        piece: Piece,
    ) -> std::result::Result<Pieces, PieceLookupError> {
        let places = self.places(endpoint, piece)?;
        match places.are_all {
            true => Ok(places.pieces),
            false => Err(PieceLookupError::Failed(self.out_of_bounds(piece))),
        }
    }

    const fn out_of_bounds(&self, Piece { from, len }: Piece) -> FabricError {
        FabricError::OutOfBounds {
            at: from,
            len: len as u64,
            region_len: self.segments.len,
        }
    }

    /// Where a piece lies, as far as there is memory for it.
    fn places(
        &self,
        endpoint: &AnyEndpoint,
        piece: Piece,
    ) -> std::result::Result<PieceLocation, PieceLookupError> {
        let Some(numbers) = self.segments.numbers(piece) else {
            return Err(PieceLookupError::Failed(self.out_of_bounds(piece)));
        };
        let (mut pieces, mut left) = (Pieces::new(), piece.len);
        let mut offset = piece.from.offset;
        for number in numbers {
            let word = self.word(endpoint, number)?;
            let Some(start) = self.segments.start_of(word) else {
                let are_all = false;
                return Ok(PieceLocation { pieces, are_all });
            };
            let within = offset & (self.segments.bytes() - 1);
            let len = left.min((self.segments.bytes() - within) as usize);
            let at = start + within;
            match pieces.last_mut() {
                Some(last) if last.from.offset + last.len as u64 == at => last.len += len,
                _ => pieces.push(Piece {
                    from: RemoteAddr {
                        offset: at,
                        ..self.segments.list
                    },
                    len,
                }),
            }
            (offset, left) = (offset + len as u64, left - len);
        }
        let are_all = true;
        Ok(PieceLocation { pieces, are_all })
    }

    /// A word of the list.
    fn word(
        &self,
        endpoint: &AnyEndpoint,
        number: u64,
    ) -> std::result::Result<u64, PieceLookupError> {
        let at = self.segments.word_at(number);
        let view = endpoint.in_place(at, Rights::READ);
        let mapped = view.and_then(|view| {
            let offset = view.offset_of(Piece { from: at, len: 8 })?;
            Some(view.words(offset)(0))
        });
        if let Some(word) = mapped {
            return Ok(word);
        }
        let version = self.lease.as_ref().map_or(0, Lease::version);
        if self.version.replace(version) != version {
            self.known.borrow_mut().fill(0);
        }
        let known = self.known.borrow().get(number as usize).copied();
        // An odd one says that segments are being taken from the table.
        let may_know = self.lease.is_some() && version.is_multiple_of(2);
        if let Some(word) = known.filter(|word| *word != 0 && may_know) {
            return Ok(word);
        }
        if let Some(word) = self.take_answer(endpoint, number)? {
            return Ok(word);
        }
        if self.asked.borrow().is_none() {
            self.ask(endpoint, number)?;
            // Memory that is lent answers at once.
            if let Some(word) = self.take_answer(endpoint, number)? {
                return Ok(word);
            }
        }
        Err(PieceLookupError::Yet)
    }

    /// Has words of the list read, that of this number among them.
    fn ask(
        &self,
        endpoint: &AnyEndpoint,
        number: u64,
    ) -> std::result::Result<(), PieceLookupError> {
        let first = number - number % LIST_READ;
        let words = LIST_READ.min(self.segments.count() - first);
        let buffer = endpoint.core().buffers.take(words as usize * 8);
        let posted = buffer.map(|buffer| endpoint.post_read(self.segments.word_at(first), buffer));
        match posted {
            Ok(Ok(posted)) => {
                let asked = (first, self.version.get(), posted);
                self.asked.replace(Some(asked));
                Ok(())
            }
            // It is asked for again when verbs have completed.
            Ok(Err(PostError::QueueFull(_))) => Ok(()),
            Ok(Err(PostError::Rejected(error))) | Err(error) => {
                Err(PieceLookupError::Failed(error))
            }
        }
    }

    /// Takes the answer of the READ that is under way, if it has come: the word of this number, if
    /// it has that.
    fn take_answer(
        &self,
        endpoint: &AnyEndpoint,
        number: u64,
    ) -> std::result::Result<Option<u64>, PieceLookupError> {
        let mut asked = self.asked.borrow_mut();
        let Some((first, version, posted)) = asked.as_mut() else {
            return Ok(None);
        };
        // The tasks that wait are woken when verbs have completed, this one among them.
        let mut context = Context::from_waker(Waker::noop());
        let Poll::Ready(read) = endpoint.poll_read(posted, &mut context) else {
            return Ok(None);
        };
        let (first, version) = (*first, *version);
        *asked = None;
        let read = read.map_err(PieceLookupError::Failed)?;
        if version != self.version.get() {
            return Ok(None);
        }
        let words = read.words();
        let mut known = self.known.borrow_mut();
        for (word, known) in words.iter().zip(&mut known[first as usize..]) {
            *known = *word;
        }
        let at = number.checked_sub(first);
        Ok(at.and_then(|at| words.get(at as usize).copied()))
    }
}

/// What has become of a verb.
pub(crate) fn poll_posted(
    endpoint: &AnyEndpoint,
    posted: &mut PostedVerbs,
    cx: &mut Context<'_>,
) -> Poll<Result<Completion>> {
    match posted {
        PostedVerbs::One(one) | PostedVerbs::Gathered(one) => endpoint.poll_posted(one, cx),
        PostedVerbs::Several(all) => {
            let (mut is_pending, mut outcome) = (false, Ok(Completion::Placed));
            for one in all {
                match one.as_mut().map(|one| endpoint.poll_posted(one, cx)) {
                    Some(Poll::Pending) => is_pending = true,
                    Some(Poll::Ready(Ok(_))) => *one = None,
                    Some(Poll::Ready(Err(error))) => (*one, outcome) = (None, Err(error)),
                    None => {}
                }
            }
            match (is_pending, outcome) {
                (true, Ok(_)) => Poll::Pending,
                (_, outcome) => Poll::Ready(outcome),
            }
        }
        PostedVerbs::Zeros(buffer) => {
            let buffer = buffer.take().expect("a verb completes once");
            Poll::Ready(Ok(Completion::Filled(buffer)))
        }
    }
}

/// The same of a READ.
#[inline]
pub(crate) fn poll_read(
    endpoint: &AnyEndpoint,
    posted: &mut PostedVerbs,
    cx: &mut Context<'_>,
) -> Poll<Result<Buffer>> {
    match posted {
        PostedVerbs::One(one) => endpoint.poll_read(one, cx),
        other => poll_posted(endpoint, other, cx).map(|outcome| {
            outcome.map(|completion| match completion {
                Completion::Filled(buffer) => buffer,
                _ => unreachable!("a READ fills a buffer"),
            })
        }),
    }
}
