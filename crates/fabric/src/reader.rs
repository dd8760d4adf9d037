//! Consecutive READs into one buffer, without a future for each.

use crate::verb::{FromCompletion, Pieces, check_one_node, gathered_len};
use crate::{
    Accounting, Buffer, Endpoint, OperationClass, PostError, RemoteAddr, Result, Verb, VerbKind,
};
use std::fmt;
use std::task::{Context, Poll, ready};

/// One READ at a time, for one operation after the other, all into one buffer.
///
/// For many lookups in flight, each a READ and a look at its words. A `Reader` stays in place and
/// costs a few stores, where futures are created and moved. The READs are counted as those of a
/// future in an [`Operation`](crate::counters::Operation) are. Dropping a `Reader` abandons its
/// READ, as dropping a future does.
pub struct Reader<'e, E: Endpoint> {
    endpoint: &'e E,
    /// While no READ is on its way.
    buffer: Option<Buffer>,
    /// What the queue was too full for, until it is posted.
    unposted: Option<Box<Verb>>,
    posted: Option<E::Posted>,
    /// Whether what was posted reads several pieces.
    gathers: bool,
    accounting: Accounting,
}

impl<E: Endpoint> fmt::Debug for Reader<'_, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader")
            .field("is_reading", &self.buffer.is_none())
            .field("accounting", &self.accounting)
            .finish_non_exhaustive()
    }
}

impl<'e, E: Endpoint> Reader<'e, E> {
    #[inline]
    pub(crate) fn new(endpoint: &'e E) -> Self {
        Self {
            endpoint,
            buffer: None,
            unposted: None,
            posted: None,
            gathers: false,
            accounting: Accounting::default(),
        }
    }

    /// Has `len` bytes read; they may be torn at any 8-byte boundary. To be followed by
    /// [`Reader::poll`]. A READ that is still on its way is abandoned.
    ///
    /// # Errors
    /// Those of the buffer pool, and of an address or a right that is wrong. Nothing is read then.
    #[inline]
    pub fn read(&mut self, from: RemoteAddr, len: usize) -> Result<()> {
        let buffer = self.buffer_of(len)?;
        self.post(from, buffer)
    }

    /// Has several pieces of one node read into one buffer, each at the next multiple of 8 bytes,
    /// as one request where the fabric gathers; otherwise as [`Reader::read`].
    ///
    /// # Errors
    /// Those of the buffer pool, and of an address or a right that is wrong;
    /// [`SeveralNodes`](crate::FabricError::SeveralNodes). Nothing is read then.
    #[inline]
    pub fn read_many(&mut self, pieces: Pieces) -> Result<()> {
        check_one_node(&pieces)?;
        let into = self.buffer_of(gathered_len(&pieces))?;
        self.post_many(Verb::ReadMany { pieces, into })
    }

    /// A buffer for what is to be read next. What is on its way is abandoned.
    #[inline(always)]
    fn buffer_of(&mut self, len: usize) -> Result<Buffer> {
        self.posted = None;
        self.unposted = None;
        let buffers = &self.endpoint.core().buffers;
        match self.buffer.take() {
            Some(used) => buffers.take_again(used, len),
            None => buffers.take(len),
        }
    }

    #[inline(always)]
    fn post(&mut self, from: RemoteAddr, buffer: Buffer) -> Result<()> {
        let bytes = buffer.len() as u64;
        match self.endpoint.post_read(from, buffer) {
            Ok(posted) => {
                self.gathers = false;
                self.note_posted(posted, VerbKind::Read, bytes);
                Ok(())
            }
            Err(error) => self.not_posted(error),
        }
    }

    fn post_many(&mut self, verb: Verb) -> Result<()> {
        let bytes = verb.bytes();
        match self.endpoint.post(verb) {
            Ok(posted) => {
                self.gathers = true;
                self.note_posted(posted, VerbKind::ReadMany, bytes);
                Ok(())
            }
            Err(error) => self.not_posted(error),
        }
    }

    #[inline(always)]
    fn note_posted(&mut self, posted: E::Posted, kind: VerbKind, bytes: u64) {
        let counters = &self.endpoint.core().counters;
        counters.lone_read_posted(&mut self.accounting, kind, bytes);
        self.posted = Some(posted);
    }

    /// Keeps the READ, which the next poll shall post.
    #[cold]
    fn not_posted(&mut self, error: PostError) -> Result<()> {
        match error {
            PostError::QueueFull(verb) => {
                self.unposted = Some(Box::new(verb));
                Ok(())
            }
            PostError::Rejected(error) => {
                let counters = &self.endpoint.core().counters;
                Err(error.of_unsent(!self.accounting.is_empty() || counters.has_sent()))
            }
        }
    }

    /// Ready when the bytes are here; if they are not, the task is woken when they are.
    ///
    /// # Errors
    /// What became of the READ.
    #[inline]
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        if self.posted.is_none() {
            self.post_again()?;
        }
        let Some(posted) = &mut self.posted else {
            self.endpoint.core().wait_for_queue(cx.waker());
            return Poll::Pending;
        };
        let filled = if self.gathers {
            let completed = ready!(self.endpoint.poll_posted(posted, cx));
            completed.map(Buffer::from_completion)
        } else {
            ready!(self.endpoint.poll_read(posted, cx))
        };
        self.posted = None;
        self.buffer = Some(filled?);
        Poll::Ready(Ok(()))
    }

    #[cold]
    fn post_again(&mut self) -> Result<()> {
        match self.unposted.take().map(|verb| *verb) {
            Some(Verb::Read { from, into }) => self.post(from, into),
            Some(verb) => self.post_many(verb),
            None => panic!("a reader was polled that reads nothing"),
        }
    }

    /// Whether a READ is on its way, or waits to be posted.
    #[inline]
    #[must_use]
    pub const fn is_reading(&self) -> bool {
        self.posted.is_some() || self.unposted.is_some()
    }

    /// The words that were read; none while a READ is on its way.
    #[inline]
    #[must_use]
    pub fn words(&self) -> &[u64] {
        self.buffer.as_ref().map_or(&[], Buffer::words)
    }

    /// Takes the buffer that was read into; nothing while a READ is on its way. The next READ has
    /// another.
    #[inline]
    #[must_use]
    pub fn take(&mut self) -> Option<Buffer> {
        self.buffer.take()
    }

    /// Counts the operation that the READs since the last one belong to.
    #[inline]
    pub fn end_operation(&mut self, class: OperationClass) {
        let accounting = std::mem::take(&mut self.accounting);
        let counters = &self.endpoint.core().counters;
        counters.operation_ended(class, accounting);
    }

    /// Counts the READs of another reader as those of the same operation, side by side with its own
    /// last one.
    #[inline]
    pub fn count_with(&mut self, other: &mut Self) {
        self.accounting.merge(std::mem::take(&mut other.accounting));
    }

    /// Hands over what was read, and the operation, to be gone on with by
    /// [`operation_begun`](crate::EndpointExt::operation_begun).
    #[must_use]
    pub fn hand_over(&mut self) -> (Option<Buffer>, Accounting) {
        (self.buffer.take(), std::mem::take(&mut self.accounting))
    }
}
