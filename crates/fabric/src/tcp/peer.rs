//! One node and the connection to it: verbs become frames, frames become completions.

use crate::error::{Malformed, Refusal};
use crate::memory::mailbox;
use crate::net::admission::Admitted;
use crate::net::admission::handshake::{REFUSED_WORDS, decode_refused};
use crate::net::dialer::{Connected, Dialer, RedialResult};
use crate::net::peers::NetworkPeer;
use crate::net::socket::Io;
use crate::net::stream::{Inbound, Outbound};
use crate::net::wire::{
    self, FAILURE_WORDS, FrameKind, Header, READ_WORDS, Span, WRITE_WORDS, words_of,
};
use crate::net::{Answer, Arrivals, Slots};
use crate::verb::{check_access, check_aligned, gathered_len};
use crate::{
    Buffer, FabricError, Nanos, NodeId, NodeInfo, RegionInfo, RemoteAddr, Result, Rights, Verb,
};
use std::collections::VecDeque;
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;

/// Verbs that move so much, either way, do not wait for their doorbell where nothing is under way.
/// Less is not worth a frame of its own: over loopback one more took a batch of 32 READs of 1 KiB
/// some five microseconds, of fifty. Such a batch leaves as two.
const EARLY_BYTES: usize = 16 << 10;

/// A node as its endpoint knows it, and the connection to it.
pub(super) struct TcpPeer {
    dialer: Arc<Dialer<Admitted>>,
    node: NodeId,
    /// The connection, or what is left of one; nothing before the first.
    connection: Option<Connected<Admitted>>,
    info: NodeInfo,
    keys: Vec<u64>,
    /// The most words of a frame.
    frame_words: usize,
    out: Outbound,
    input: Inbound,
    /// Verbs that are not answered, by their slots.
    pending: VecDeque<u32>,
    /// What the frame that has begun to arrive still has: answers and words.
    frame: (u16, u32),
    /// When the oldest verb began to be waited for: its sending, or the answer before it.
    waiting_since: Nanos,
    /// Verbs are posted and none of them was sent.
    unsent: bool,
    /// Bytes of the answers to these.
    awaited: usize,
    /// The word that verbs which change memory are held back by, and what it has to be.
    fence: Option<(RemoteAddr, u64)>,
    /// Verbs that failed with their connection. No other is made use of before their tasks know it:
    /// nothing that they would not post then may take effect behind what was lost.
    lost: Vec<u32>,
    state: State,
    /// Why the agent serves this client no more, if it said so.
    refused: Option<Refusal>,
    /// What verbs fail with where nothing is known that is worse.
    down: FabricError,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    /// Nothing can be sent any more; answers may still be here.
    Closing,
    Broken,
}

impl NetworkPeer for TcpPeer {
    type Connection = Admitted;

    fn unconnected(dialer: Arc<Dialer<Admitted>>, node: NodeId, down: FabricError) -> Self {
        Self {
            dialer,
            node,
            connection: None,
            info: NodeInfo::UNKNOWN,
            keys: Vec::new(),
            frame_words: 0,
            out: Outbound::default(),
            input: Inbound::default(),
            pending: VecDeque::new(),
            frame: (0, 0),
            waiting_since: 0,
            unsent: false,
            awaited: 0,
            fence: None,
            lost: Vec::new(),
            state: State::Broken,
            refused: None,
            down,
        }
    }

    fn dialer(&self) -> &Arc<Dialer<Admitted>> {
        &self.dialer
    }

    fn info(&self) -> &NodeInfo {
        &self.info
    }

    #[inline]
    fn is_open(&self) -> bool {
        self.state == State::Open && !self.dialer.has_none()
    }

    fn open(&mut self, connected: Connected<Admitted>) {
        let welcome = &connected.made.welcome;
        self.info.clone_from(&welcome.node);
        self.keys.clone_from(&welcome.keys);
        self.frame_words = welcome.frame_words as usize;
        self.connection = Some(connected);
        self.out.clear();
        self.input.discard();
        self.frame = (0, 0);
        self.lost.clear();
        self.state = State::Open;
        self.down = FabricError::NodeStopped {
            node: self.node,
            sent: true,
        };
        self.put_fence();
    }

    fn reason(&self) -> FabricError {
        self.down.clone()
    }
}

impl TcpPeer {
    /// The replacement of a connection that has ended.
    pub(super) fn next(&mut self, slots: &Slots) -> RedialResult {
        if self.state == State::Open {
            // Answers that have arrived are taken, and what was not sent is not.
            self.state = State::Closing;
            self.unsent = false;
            self.out.clear();
        }
        self.lost.retain(|slot| slots.is_failed(*slot));
        if !self.pending.is_empty() || !self.lost.is_empty() {
            return RedialResult::None(None);
        }
        self.dialer.next()
    }

    /// Whether answers are on their way.
    #[inline]
    pub(super) fn is_waiting(&self) -> bool {
        !self.pending.is_empty() && !self.unsent
    }

    /// Whether a part of what the doorbell was to send is still here.
    pub(super) fn is_sending(&self) -> bool {
        !self.out.is_empty()
    }

    /// Whether answers are here of which the kernel does not tell.
    pub(super) fn has_opened(&self) -> bool {
        let connection = self.connection.as_ref();
        connection.is_some_and(|connection| connection.made.socket.opened() > 0)
    }

    /// What to poll for news.
    pub(super) fn stream(&self) -> Option<&TcpStream> {
        let connection = self.connection.as_ref();
        connection.map(|connection| connection.made.socket.tcp())
    }

    /// When the verbs on their way are given up.
    pub(super) fn give_up_at(&self, verb_timeout: Nanos) -> Nanos {
        self.waiting_since.saturating_add(verb_timeout)
    }

    #[inline(always)]
    fn region(&self, at: RemoteAddr) -> Result<(&RegionInfo, u64)> {
        let index = usize::from(at.region.0);
        match (self.info.regions.get(index), self.keys.get(index)) {
            (Some(region), Some(key)) => Ok((region, *key)),
            _ => Err(FabricError::UnknownRegion {
                node: at.node,
                region: at.region,
                regions: self.info.regions.len(),
            }),
        }
    }

    /// A checked access on the wire.
    #[inline(always)]
    fn span(&self, at: RemoteAddr, len: usize, needed: Rights) -> Result<Span> {
        let (region, key) = self.region(at)?;
        check_access(at, len as u64, needed, region)?;
        Ok(Span {
            region: at.region.0,
            offset: at.offset,
            len: u32::try_from(len).map_err(|_| self.too_large(len, 0))?,
            key,
        })
    }

    #[cold]
    fn too_large(&self, requested: usize, besides: usize) -> FabricError {
        FabricError::BufferTooLarge {
            requested,
            limit: (self.frame_words.saturating_sub(1 + besides)).saturating_mul(8),
        }
    }

    /// Checks that `bytes` of payload fit a frame, behind so many other words of their verb.
    #[inline]
    fn check_fits(&self, bytes: usize, besides: usize) -> Result<()> {
        if 1 + besides + bytes.div_ceil(8) > self.frame_words {
            return Err(self.too_large(bytes, besides));
        }
        Ok(())
    }

    #[inline(always)]
    fn entry(&mut self, words: usize) -> &mut Vec<u64> {
        self.out.entry(FrameKind::Verbs, words, self.frame_words)
    }

    /// From now on the node refuses verbs that change what lies behind this word, in this
    /// connection and later ones, while the word is another; 0 ends that.
    pub(super) fn fence(&mut self, word: RemoteAddr, holds: u64) {
        self.fence = Some((word, holds));
        if self.is_open() {
            self.put_fence();
        }
        // A new connection has none.
        self.fence = self.fence.filter(|_| holds != 0);
    }

    /// Appends the fence to the batch, if there is one. Where this client may not change the word,
    /// there is nothing to fence off.
    fn put_fence(&mut self) {
        if let Some((word, holds)) = self.fence
            && let Ok(span) = self.span(word, 8, Rights::ATOMIC)
        {
            wire::put_fence(self.entry(READ_WORDS + 1), span, holds);
        }
    }

    /// Appends a READ to the batch.
    #[inline(always)]
    pub(super) fn put_read(&mut self, from: RemoteAddr, into: &Buffer) -> Result<Answer> {
        self.check_fits(into.len(), 0)?;
        let span = self.span(from, into.len(), Rights::READ)?;
        wire::put_read(self.entry(READ_WORDS), span);
        Ok(Answer::Bytes(words_of(span.len) as u32))
    }

    /// Appends a verb to the batch; returns its answer, and the buffer if the answer fills it.
    pub(super) fn put(&mut self, verb: Verb) -> Result<(Answer, Option<Buffer>)> {
        let needed = verb.needs();
        Ok(match verb {
            Verb::Read { from, into } => (self.put_read(from, &into)?, Some(into)),
            Verb::ReadMany { pieces, into } => {
                let requested = gathered_len(&pieces);
                if requested > into.len() {
                    return Err(FabricError::BufferTooLarge {
                        requested,
                        limit: into.len(),
                    });
                }
                self.check_fits(requested, 0)?;
                let words = wire::read_many_words(pieces.len());
                self.check_fits(0, words)?;
                let spans = pieces
                    .iter()
                    .map(|piece| self.span(piece.from, piece.len, needed))
                    .collect::<Result<smallvec::SmallVec<[Span; 4]>>>()?;
                wire::put_read_many(self.entry(words), spans.into_iter());
                (Answer::Bytes((requested / 8) as u32), Some(into))
            }
            Verb::Write { to, data } => {
                self.check_fits(data.len(), WRITE_WORDS)?;
                let span = self.span(to, data.len(), needed)?;
                let words = WRITE_WORDS + words_of(span.len);
                wire::put_write(self.entry(words), span, data.words());
                (Answer::Placed, None)
            }
            Verb::CompareSwap { at, expected, new } => {
                check_aligned(at)?;
                let span = self.span(at, 8, needed)?;
                wire::put_compare_swap(self.entry(READ_WORDS + 2), span, expected, new);
                (Answer::Word, None)
            }
            Verb::FetchAdd { at, add } => {
                check_aligned(at)?;
                let span = self.span(at, 8, needed)?;
                wire::put_fetch_add(self.entry(READ_WORDS + 1), span, add);
                (Answer::Word, None)
            }
            Verb::Call {
                node,
                region,
                request,
                reply,
            } => {
                self.check_fits(request.len(), WRITE_WORDS)?;
                self.check_fits(reply.len(), 1)?;
                let start = RemoteAddr {
                    node,
                    region,
                    offset: 0,
                };
                let span = Span {
                    offset: reply.len() as u64,
                    len: request.len() as u32,
                    // What a caller needs is for the handler to say.
                    ..self.span(start, 0, Rights::NONE)?
                };
                let words = WRITE_WORDS + words_of(span.len);
                wire::put_call(self.entry(words), span, request.words());
                (Answer::Reply(reply.len() as u32), Some(reply))
            }
            Verb::WriteImm { to, data, imm } => {
                if data.len() > mailbox::LONGEST {
                    return Err(FabricError::BufferTooLarge {
                        requested: data.len(),
                        limit: mailbox::LONGEST,
                    });
                }
                self.check_fits(data.len(), WRITE_WORDS + 1)?;
                let span = self.span(to, data.len(), needed)?;
                let words = WRITE_WORDS + 1 + words_of(span.len);
                wire::put_write_imm(self.entry(words), span, imm, data.words());
                (Answer::Placed, None)
            }
        })
    }

    /// Notes the slot of the verb that was put last, and its answer. The first verbs leave at once
    /// when they are work enough for a node that has none from here: it does them while more are
    /// posted, which wait for the doorbell.
    #[inline(always)]
    pub(super) fn posted(&mut self, slot: u32, answer: Answer, now: impl FnOnce() -> Nanos) {
        if self.pending.is_empty() {
            self.unsent = true;
            self.awaited = 0;
        }
        self.pending.push_back(slot);
        if self.unsent {
            // How long a reply is, nobody knows yet.
            let is_reply = matches!(answer, Answer::Reply(_));
            self.awaited += if is_reply { 8 } else { answer.words() * 8 };
            if self.out.unsent() + self.awaited >= EARLY_BYTES {
                self.send(now);
            }
        }
    }

    /// Sends what is to be sent, with one call.
    #[inline]
    pub(super) fn send(&mut self, now: impl FnOnce() -> Nanos) {
        if self.out.is_empty() || self.state != State::Open {
            return;
        }
        let Some(connection) = &mut self.connection else {
            return;
        };
        if std::mem::take(&mut self.unsent) {
            self.waiting_since = now();
        }
        let sent = self.out.send(&mut connection.made.socket, FrameKind::Verbs);
        if sent == Io::Closed {
            // Answers to earlier verbs may have arrived: the end is noticed behind them.
            self.state = State::Closing;
            self.out.clear();
        }
    }

    /// Takes the answers that have arrived, with one call; returns how many verbs are done.
    #[inline]
    pub(super) fn poll(
        &mut self,
        slots: &Slots,
        verb_timeout: Nanos,
        now: impl Fn() -> Nanos,
    ) -> usize {
        let Some(&oldest) = self.pending.front() else {
            return 0;
        };
        let wanted = slots.answer_words(oldest) + FAILURE_WORDS;
        let received = match &mut self.connection {
            Some(connection) => self.input.receive(&mut connection.made.socket, wanted),
            None => Io::Closed,
        };
        match received {
            Io::Moved(_) => {
                let waited = self.pending.len();
                let taken = self.take_answers(slots);
                let mut done = waited - self.pending.len();
                if done > 0 {
                    self.waiting_since = now();
                }
                if let Err(reason) = taken {
                    let peer = self.address().to_owned();
                    let error = match self.refused.take() {
                        Some(reason) => FabricError::NotAdmitted {
                            address: peer,
                            reason,
                        },
                        None => FabricError::Protocol { peer, reason },
                    };
                    done += self.break_with(&error, slots);
                }
                done
            }
            Io::Blocked if self.state == State::Open => {
                if now() <= self.give_up_at(verb_timeout) {
                    return 0;
                }
                let error = FabricError::TimedOut {
                    node: self.node,
                    after: verb_timeout,
                };
                self.break_with(&error, slots)
            }
            Io::Blocked | Io::Closed => self.break_with(
                &FabricError::NodeStopped {
                    node: self.node,
                    sent: true,
                },
                slots,
            ),
        }
    }

    fn take_answers(&mut self, slots: &Slots) -> std::result::Result<(), Malformed> {
        let mut arrivals = slots.arrivals();
        while self.take_completions(&mut arrivals)? {
            let words = self.input.words();
            let Some(&first) = words.first() else {
                return Ok(());
            };
            let header = Header::decode(first)?;
            match header.kind {
                FrameKind::Completions if header.count > 0 => {
                    self.frame = (header.count, header.words - 1);
                    self.input.consume(1);
                }
                FrameKind::Failure if header.words as usize == FAILURE_WORDS => {
                    let Some([_, failure @ ..]) = words.first_chunk::<FAILURE_WORDS>() else {
                        return Ok(());
                    };
                    let error = wire::decode_failure(*failure, self.node)?;
                    let slot = self.pending.pop_front().ok_or(Malformed::Answer)?;
                    arrivals.fail(slot, error);
                    self.input.consume(FAILURE_WORDS);
                }
                FrameKind::Refused if header.words as usize == REFUSED_WORDS => {
                    let Some(frame) = words.first_chunk::<REFUSED_WORDS>() else {
                        return Ok(());
                    };
                    // The agent serves this client no more, and says why.
                    self.refused = decode_refused(frame);
                    return Err(Malformed::Kind {
                        found: header.kind as u8,
                    });
                }
                kind => return Err(Malformed::Kind { found: kind as u8 }),
            }
        }
        Ok(())
    }

    /// Takes what has arrived of the frame that has begun; false if more of it is to come.
    #[inline]
    fn take_completions(
        &mut self,
        arrivals: &mut Arrivals<'_>,
    ) -> std::result::Result<bool, Malformed> {
        let mut words = self.input.words();
        let arrived = words.len();
        let (mut count, mut left) = self.frame;
        while count > 0 {
            let Some(&slot) = self.pending.front() else {
                return Err(Malformed::Answer);
            };
            let Some(needed) = arrivals.answer_words(slot, words)? else {
                if left == 0 {
                    return Err(Malformed::Count { count });
                }
                break;
            };
            if needed > left as usize {
                return Err(Malformed::Count { count });
            }
            let Some((answer, rest)) = words.split_at_checked(needed) else {
                break;
            };
            arrivals.complete(slot, answer);
            self.pending.pop_front();
            words = rest;
            (count, left) = (count - 1, left - needed as u32);
        }
        if count == 0 && left > 0 {
            return Err(Malformed::Count { count });
        }
        let taken = arrived - words.len();
        self.frame = (count, left);
        self.input.consume(taken);
        Ok(count == 0)
    }

    /// Fails every verb in flight, ends the connection and starts to reconnect; returns how many
    /// failed.
    #[cold]
    fn break_with(&mut self, error: &FabricError, slots: &Slots) -> usize {
        let failed = self.pending.len();
        let mut arrivals = slots.arrivals();
        for &slot in &self.pending {
            arrivals.fail(slot, error.clone());
        }
        self.lost.extend(self.pending.drain(..));
        self.state = State::Broken;
        self.unsent = false;
        self.out.clear();
        if let Some(stream) = self.stream() {
            // Nothing that the node has not read yet is followed by anything, and it may be gone
            // already.
            let _ = stream.shutdown(Shutdown::Both);
        }
        self.dialer.redial();
        failed
    }
}

impl Drop for TcpPeer {
    fn drop(&mut self) {
        // Posted verbs take effect, as far as one call sends them.
        self.send(|| 0);
    }
}
