//! READs one after the other, without a future for any of them.

use crate::{Booking, Buffer, Endpoint, OperationClass, PostError, RemoteAddr, Result, Verb};
use std::task::{Context, Poll, ready};

/// One READ at a time, of one operation after the other, all into one buffer.
///
/// For those who have many lookups under way, each a READ and a look at its words: a `Reader` stays
/// where it is and costs a few stores, where futures are made and moved. The READs are booked as
/// those of a future in an [`Operation`](crate::counters::Operation) are. Dropping a `Reader`
/// abandons its READ, as dropping a future does.
pub struct Reader<'e, E: Endpoint> {
    endpoint: &'e E,
    /// While no READ is on its way.
    buffer: Option<Buffer>,
    /// Where to read from, while the queue is too full to post the READ.
    from: RemoteAddr,
    posted: Option<E::Posted>,
    booking: Booking,
}

impl<'e, E: Endpoint> Reader<'e, E> {
    #[inline]
    pub(crate) fn new(endpoint: &'e E) -> Self {
        Self {
            endpoint,
            buffer: None,
            from: RemoteAddr {
                node: crate::NodeId(0),
                region: crate::RegionId(0),
                offset: 0,
            },
            posted: None,
            booking: Booking::default(),
        }
    }

    /// Has `len` bytes read; they may be torn at any 8-byte boundary. To be followed by
    /// [`Reader::poll`]. A READ that is still on its way is abandoned.
    ///
    /// # Errors
    /// Those of the buffer pool, and of an address or a right that is wrong. Nothing is read then.
    #[inline]
    pub fn read(&mut self, from: RemoteAddr, len: usize) -> Result<()> {
        self.posted = None;
        let buffers = &self.endpoint.core().buffers;
        let buffer = match self.buffer.take() {
            Some(used) => buffers.take_again(used, len)?,
            None => buffers.take(len)?,
        };
        self.post(from, buffer)
    }

    #[inline(always)]
    fn post(&mut self, from: RemoteAddr, buffer: Buffer) -> Result<()> {
        let bytes = buffer.len() as u64;
        match self.endpoint.post_read(from, buffer) {
            Ok(posted) => {
                let counters = &self.endpoint.core().counters;
                counters.lone_read_posted(&mut self.booking, bytes);
                self.posted = Some(posted);
                Ok(())
            }
            Err(error) => self.not_posted(error),
        }
    }

    /// Keeps the buffer of a READ that the next poll shall post.
    #[cold]
    fn not_posted(&mut self, error: PostError) -> Result<()> {
        match error {
            PostError::QueueFull(Verb::Read { from, into }) => {
                self.from = from;
                self.buffer = Some(into);
                Ok(())
            }
            PostError::QueueFull(_) => unreachable!("a full queue gives back what it was given"),
            PostError::Rejected(error) => Err(error),
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
        let filled = ready!(self.endpoint.poll_read(posted, cx));
        self.posted = None;
        self.buffer = Some(filled?);
        Poll::Ready(Ok(()))
    }

    #[cold]
    fn post_again(&mut self) -> Result<()> {
        match self.buffer.take() {
            Some(buffer) => self.post(self.from, buffer),
            None => panic!("a reader was polled that reads nothing"),
        }
    }

    /// The words that were read; none while a READ is on its way.
    #[inline]
    #[must_use]
    pub fn words(&self) -> &[u64] {
        self.buffer.as_ref().map_or(&[], Buffer::words)
    }

    /// Counts the operation that the READs since the last one belong to.
    #[inline]
    pub fn end_operation(&mut self, class: OperationClass) {
        let booking = std::mem::take(&mut self.booking);
        let counters = &self.endpoint.core().counters;
        counters.operation_ended(class, booking);
    }

    /// Hands over what was read, and the operation, to be gone on with by
    /// [`operation_begun`](crate::EndpointExt::operation_begun).
    #[must_use]
    pub fn hand_over(&mut self) -> (Option<Buffer>, Booking) {
        (self.buffer.take(), std::mem::take(&mut self.booking))
    }
}
