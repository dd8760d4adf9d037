//! The verbs of an endpoint as futures, and sleeping on its clock.

use crate::counters::Operation;
use crate::look;
use crate::timer::{Sleep, timeout};
use crate::verb::{check_one_node, gathered_len};
use crate::{
    Accounting, Buffer, Change, Endpoint, Fetched, Nanos, NodeId, NodeState, OperationClass,
    Pieces, Reader, RegionId, RemoteAddr, TimedOut, Verb, VerbFuture,
};
use std::cell::Cell;
use std::future::Future;

/// The verbs as futures. A future posts its verb when it is first polled.
pub trait EndpointExt: Endpoint + Sized {
    /// Reads `len` bytes; they may be torn at any 8-byte boundary.
    #[inline]
    fn read(&self, from: RemoteAddr, len: usize) -> VerbFuture<'_, Self, Buffer> {
        let into = self.core().buffers.take(len);
        VerbFuture::new(self, into.map(|into| Verb::Read { from, into }))
    }

    /// Reads pieces side by side and looks at them, without a copy where the memory is mapped.
    #[inline(always)]
    fn look<T>(
        &self,
        pieces: Pieces,
        look: impl FnOnce(&mut Fetched<'_>) -> T,
    ) -> impl Future<Output = crate::Result<T>> {
        look::look(self, pieces, look)
    }

    /// Makes a change; resolves to what the word was that was swapped, 0 without one.
    #[inline(always)]
    fn change(&self, change: Change) -> impl Future<Output = crate::Result<u64>> {
        look::change(self, change)
    }

    /// Makes a change and, with the same doorbell, reads pieces. The change takes effect before
    /// they are read. Resolves to what the word was that was swapped (0 without one), and to what
    /// was read of each piece; the error is the change's.
    fn change_and_read(
        &self,
        change: Change,
        pieces: Pieces,
    ) -> impl Future<Output = crate::Result<(u64, crate::Result<Vec<Buffer>>)>> {
        look::change_and_read(self, change, pieces)
    }

    /// A [`Reader`] over this endpoint.
    #[inline]
    fn reader(&self) -> Reader<'_, Self> {
        Reader::new(self)
    }

    /// Reads several pieces of one node into one buffer, each at the next multiple of 8 bytes.
    #[inline]
    fn read_many(&self, pieces: Pieces) -> VerbFuture<'_, Self, Buffer> {
        let into =
            check_one_node(&pieces).and_then(|()| self.core().buffers.take(gathered_len(&pieces)));
        VerbFuture::new(self, into.map(|into| Verb::ReadMany { pieces, into }))
    }

    /// Writes the buffer.
    #[inline]
    fn write(&self, to: RemoteAddr, data: Buffer) -> VerbFuture<'_, Self, ()> {
        VerbFuture::new(self, Ok(Verb::Write { to, data }))
    }

    /// Replaces the word at `at` by `new` if it is `expected`; resolves to what it was.
    #[inline]
    fn compare_swap(&self, at: RemoteAddr, expected: u64, new: u64) -> VerbFuture<'_, Self, u64> {
        VerbFuture::new(self, Ok(Verb::CompareSwap { at, expected, new }))
    }

    /// Adds to the word at `at`, wrapping; resolves to what it was.
    #[inline]
    fn fetch_add(&self, at: RemoteAddr, add: u64) -> VerbFuture<'_, Self, u64> {
        VerbFuture::new(self, Ok(Verb::FetchAdd { at, add }))
    }

    /// Writes the buffer, then leaves a [`Message`](crate::Message) with the owner of the node.
    #[inline]
    fn write_imm(&self, to: RemoteAddr, data: Buffer, imm: u32) -> VerbFuture<'_, Self, ()> {
        VerbFuture::new(self, Ok(Verb::WriteImm { to, data, imm }))
    }

    /// Has the owner of a region answer a request; resolves to the reply, of at most `reply_bytes`
    /// bytes.
    #[inline]
    fn call(
        &self,
        (node, region): (NodeId, RegionId),
        request: Buffer,
        reply_bytes: usize,
    ) -> VerbFuture<'_, Self, Buffer> {
        let reply = self.core().buffers.take(reply_bytes);
        let verb = reply.map(|reply| Verb::Call {
            node,
            region,
            request,
            reply,
        });
        VerbFuture::new(self, verb)
    }

    /// Counts the verbs of `future` for one operation of `class`.
    #[inline]
    fn operation<F: Future>(&self, class: OperationClass, future: F) -> Operation<'_, F> {
        self.operation_begun(class, Accounting::default(), future)
    }

    /// Counts the verbs of `future` for an operation of `class` that has already posted others.
    #[inline]
    fn operation_begun<F: Future>(
        &self,
        class: OperationClass,
        before: Accounting,
        future: F,
    ) -> Operation<'_, F> {
        Operation::new(&self.core().counters, class, before, future)
    }

    /// Whether a peer is reachable and has not restarted, as far as the endpoint knows without
    /// asking it ([`Endpoint::node_state`]). A peer that was never connected to is not up.
    fn is_up(&self, node: NodeId) -> bool {
        self.node_state(node) == Ok(NodeState::Up)
    }

    /// Whether a peer is not known to be down.
    ///
    /// # Errors
    /// As of a verb that is posted to it now.
    fn check_not_down(&self, node: NodeId) -> crate::Result<()> {
        match self.node_state(node)? {
            NodeState::Down(error) => Err(error.of_unsent(self.core().counters.has_sent())),
            NodeState::Up | NodeState::Restarted { .. } => Ok(()),
        }
    }

    /// Resolves `span` from now.
    fn sleep(&self, span: Nanos) -> Sleep<'_> {
        Sleep::until(&self.core().timers, self.now().saturating_add(span))
    }

    /// Runs `future` for at most `span`; past that it is dropped, which is safe for every verb.
    ///
    /// # Errors
    /// [`TimedOut`](crate::TimedOut) if it did not end in time.
    fn timeout<F: Future>(
        &self,
        span: Nanos,
        future: F,
    ) -> impl Future<Output = std::result::Result<F::Output, TimedOut>> {
        timeout(self.sleep(span), span, future)
    }

    /// Runs `future` until it has waited for what is `left`, and takes from that what it waited;
    /// past that it is dropped, as by [`timeout`](Self::timeout). Time in which the thread has
    /// something to do does not count, nor does time in which the machine runs something else.
    ///
    /// # Errors
    /// [`TimedOut`](crate::TimedOut) if it has waited for so long.
    fn timeout_of_waiting<F: Future>(
        &self,
        left: &Cell<Nanos>,
        future: F,
    ) -> impl Future<Output = std::result::Result<F::Output, TimedOut>> {
        async move {
            let core = self.core();
            let _counted = core.count_waiting();
            let span = left.get();
            let until = core.waited().saturating_add(span);
            let waits = async {
                while core.waited() < until {
                    // A sleep that is over before the thread begins to wait would count as nothing.
                    let rest = until - core.waited();
                    self.sleep(rest.max(span / 16)).await;
                }
            };
            let output = timeout(waits, span, future).await;
            left.set(until.saturating_sub(core.waited()));
            output
        }
    }
}

impl<E: Endpoint> EndpointExt for E {}
