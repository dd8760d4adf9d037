//! Executes the verbs of an admitted client: each is checked, executed and answered, in order of
//! arrival.

use super::answers::{answer, check_answer, check_at_once};
use super::fence::{Fence, address};
use super::in_parts::{Begun, PartContext, PartProgress, begin_copying};
use super::offences::Offences;
use crate::error::Malformed;
use crate::held_answers::HeldAnswers;
use crate::memory::{Node, mailbox};
use crate::net::admission::Issued;
use crate::net::agent::{ExecutionPause, Quota, Serve, ServedNode, Tell, TurnTraffic};
use crate::net::room::LEAST;
use crate::net::stream::{Inbound, LENT_BYTES, Outbound};
use crate::net::wire::{
    self, FrameKind, Header, READ_WORDS, Request, Span, WRITE_WORDS, WirePieces, decode_reads,
    decode_request, decode_start, request_words, words_of,
};
use crate::verb::{check_access, check_aligned};
use crate::words::SharedWords;
use crate::{
    FabricError, Handler, Message, NodeId, RegionId, RegionInfo, RemoteAddr, Result, Rights,
    VerbKind,
};
use smallvec::SmallVec;
use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

/// How a client's verbs are executed.
pub(super) struct Serving {
    pub(super) grant: Arc<Issued>,
    regions: SmallVec<[Granted; 2]>,
    /// What the frame that has begun still has: verbs and words.
    frame: (u16, u32),
    begun: Option<Begun>,
    receiver_wait: Duration,
    /// The most rights that the client asked for.
    pub(super) asked: Rights,
    offences: Offences,
    fence: Option<Fence>,
    /// Whether the call that was executed last was refused a key.
    pub(super) refused: bool,
    /// The answers behind a call that is answered later.
    pub(super) held: HeldAnswers<()>,
    /// The node, if its memory says what the client may do.
    tagged: Option<Node>,
}

struct Granted {
    info: RegionInfo,
    /// Byte of the node's memory at which it starts.
    start: u64,
    key: u64,
}

/// The most pieces of READs whose memory is asked for before the first of them is copied.
const BURST: usize = 64;
/// The most bytes of a READ that are asked for ahead: processors go on by themselves behind these.
const ASKED_AHEAD: u32 = 256;

impl Serving {
    pub(super) fn new(
        node: &Node,
        grant: Arc<Issued>,
        regions: &[RegionInfo],
        receiver_wait: Duration,
        asked: Rights,
    ) -> Self {
        let regions = regions.iter().zip(&grant.keys).enumerate();
        let regions = regions.map(|(index, (info, key))| Granted {
            info: *info,
            start: node.start_of(index),
            key: *key,
        });
        Self {
            regions: regions.collect(),
            tagged: grant.has_tagged().then(|| node.clone()),
            grant,
            frame: (0, 0),
            begun: None,
            receiver_wait,
            asked,
            offences: Offences::default(),
            fence: None,
            refused: false,
            held: HeldAnswers::default(),
        }
    }

    fn execute_all(
        &mut self,
        input: &mut Inbound,
        out: &mut Outbound,
        served: &ServedNode,
        quota: &mut Quota,
        tell: &mut Tell<'_>,
        bell: &Waker,
    ) -> std::result::Result<ExecutionPause, Malformed> {
        let words = input.words();
        let (mut at, mut moved, offences) = (0, TurnTraffic::default(), self.offences);
        let pause = loop {
            if quota.work == 0 || quota.verbs == 0 {
                break ExecutionPause::Spent;
            }
            if out.unsent() >= quota.unsent {
                break ExecutionPause::Full;
            }
            if !self.held.is_empty() && self.send_held(out, served, quota, &mut moved, bell) {
                continue;
            }
            let rest = &words[at..];
            if let Some(begun) = self.begun.take() {
                let (used, pause) = self.go_on(begun, rest, out, served, quota, tell);
                at += used;
                match pause {
                    Some(pause) => break pause,
                    None => continue,
                }
            }
            let (left, left_words) = self.frame;
            let Some(&first) = rest.first() else {
                break ExecutionPause::Hungry(1);
            };
            if left == 0 {
                self.frame = begin(first, served)?;
                at += 1;
                continue;
            }
            if !self.held.is_empty() && !self.may_call(first, out, quota) {
                break ExecutionPause::Unanswered;
            }
            let (reads, used) = self.run_reads(rest, out, served, quota, &mut moved);
            if reads > 0 {
                at += used;
                continue;
            }
            let count = Malformed::Count { count: left };
            let decoded = decode_request(rest)?;
            let needed = match &decoded {
                Some((_, needed)) => *needed,
                None => request_words(first)?,
            };
            // Noticed before anything of the verb is done.
            if needed > left_words as usize || left == 1 && needed < left_words as usize {
                return Err(count);
            }
            let (executed, used) = match decoded {
                Some((request, _)) => match self.execute(request, out, served, quota, &mut moved) {
                    Ok(kept) => (Ok(()), needed - kept),
                    Err(error) => (Err(error), needed),
                },
                None => match self.begin_long(rest, needed, served, &mut moved)? {
                    Some(begun) => begun,
                    None => break ExecutionPause::Hungry(needed),
                },
            };
            self.frame = (left - 1, left_words - needed as u32);
            at += used;
            quota.verbs -= 1;
            quota.spend(Quota::VERB + used * 8);
            if let Err(error) = executed {
                self.fail(&error, out, served, quota, tell);
            } else if std::mem::take(&mut self.refused) {
                let error = FabricError::KeyRefused { node: NodeId(0) };
                self.offended(&error, served, quota, tell);
            }
        };
        input.consume(at);
        served.totals.add(&moved);
        let is_amid_answer = matches!(self.begun, Some(Begun::Copying { .. }));
        let verbs = moved.verbs();
        Ok(self
            .offences
            .judge(pause, verbs, offences, is_amid_answer, served))
    }

    /// Goes on with what has begun; returns how many words of the input are done, and why it goes
    /// no further.
    fn go_on(
        &mut self,
        begun: Begun,
        rest: &[u64],
        out: &mut Outbound,
        served: &ServedNode,
        quota: &mut Quota,
        tell: &mut Tell<'_>,
    ) -> (usize, Option<ExecutionPause>) {
        let locate = |piece: Span| self.locate(piece, piece.len.into(), Rights::READ);
        let is_open = |byte, len, needed| self.is_still_open(byte, len, needed, served);
        let around = PartContext {
            served,
            grant: &self.grant,
            locate: &locate,
            is_open: &is_open,
        };
        // The answers to WRITEs and READs that are moved in pieces.
        let is_write = matches!(begun, Begun::Stalled { .. } | Begun::Placing { .. });
        // The fence may have fallen since a WRITE began.
        let fenced_off = match begun {
            Begun::Placing { byte, bytes, .. } => {
                let checked = self.check_fence(byte, served);
                checked.err().map(|error| (error, words_of(bytes)))
            }
            _ => None,
        };
        let gone = match fenced_off {
            Some((error, skip)) => PartProgress::Failed(0, error, skip),
            None => begun.go_on(rest, out, &around, quota),
        };
        match gone {
            PartProgress::Done(used, message) => {
                if let Some(message) = message {
                    self.put(message, out, served);
                } else if is_write {
                    out.entry(FrameKind::Completions, 0, served.frame_words as usize);
                }
                (used, None)
            }
            PartProgress::Waits(used, begun, pause) => {
                self.begun = Some(begun);
                (used, Some(pause))
            }
            PartProgress::Failed(used, error, skip) => {
                if skip > 0 {
                    self.begun = Some(Begun::Skipping { words: skip });
                }
                if let FabricError::ReceiverNotReady { .. } = error {
                    // The receiver's fault, not the client's.
                    out.frame(FrameKind::Completions, &wire::encode_failure(&error));
                    served.totals.verb_failed(&error);
                } else {
                    self.fail(&error, out, served, quota, tell);
                }
                (used, None)
            }
            PartProgress::Cut => (0, Some(ExecutionPause::Cut)),
        }
    }

    /// Begins a verb of which only the first words are here, `needed` in all: checks it, and
    /// returns how many words of it are done. Nothing where all of it has to be here.
    #[allow(clippy::type_complexity, reason = "a verb's error beside a frame's")]
    fn begin_long(
        &mut self,
        rest: &[u64],
        needed: usize,
        served: &ServedNode,
        moved: &mut TurnTraffic,
    ) -> std::result::Result<Option<(Result<()>, usize)>, Malformed> {
        let Some(start) = decode_start(rest)? else {
            return Ok(None);
        };
        let kind = start.kind();
        let (checked, to, message, head) = match start {
            Request::Write(to, _) => {
                let byte = self.locate_change(to, to.len.into(), Rights::WRITE, served);
                (byte.map(Some), to, None, WRITE_WORDS)
            }
            Request::WriteImm { to, imm, .. } => {
                let message = Message { imm, len: to.len };
                let byte = self.locate_message(to, served);
                (byte.map(Some), to, Some(message), WRITE_WORDS + 1)
            }
            Request::Call { to, .. } => {
                let callable = self.handler_of(to, served);
                (callable.map(|_| None), to, None, WRITE_WORDS)
            }
            _ => return Ok(None),
        };
        let begun = match checked {
            Ok(Some(byte)) if byte.is_multiple_of(8) && needed * 8 > LENT_BYTES => {
                self.begun = Some(Begun::Placing {
                    byte,
                    bytes: to.len,
                    message,
                });
                moved.written(to.len);
                Ok(())
            }
            Ok(_) => return Ok(None),
            Err(error) => {
                let words = needed - head;
                self.begun = Some(Begun::Skipping { words });
                Err(error)
            }
        };
        moved.verb(kind);
        Ok(Some((begun, head)))
    }

    /// Puts a message whose bytes are written, and answers it, or has it wait.
    fn put(&mut self, message: Message, out: &mut Outbound, served: &ServedNode) {
        if mailbox::put(served.node.words(), message) {
            out.entry(FrameKind::Completions, 0, served.frame_words as usize);
        } else {
            let until = Instant::now() + self.receiver_wait;
            self.begun = Some(Begun::Stalled { message, until });
        }
    }

    #[cold]
    fn fail(
        &mut self,
        error: &FabricError,
        out: &mut Outbound,
        served: &ServedNode,
        quota: &mut Quota,
        tell: &mut Tell<'_>,
    ) {
        if self.held.is_empty() {
            out.frame(FrameKind::Completions, &wire::encode_failure(error));
        } else {
            self.held.put_answer((), Err(error.clone()));
        }
        self.offended(error, served, quota, tell);
    }

    /// Counts and tells of what was refused.
    #[cold]
    fn offended(
        &mut self,
        error: &FabricError,
        served: &ServedNode,
        quota: &mut Quota,
        tell: &mut Tell<'_>,
    ) {
        served.totals.verb_failed(error);
        quota.spend(Quota::REFUSED);
        self.offences.add_one();
        tell(&self.grant.name, error);
    }

    /// The byte of the node's memory at which a checked access starts.
    #[inline]
    pub(super) fn locate(&self, span: Span, len: u64, needed: Rights) -> Result<u64> {
        let at = address(span);
        let RemoteAddr { node, region, .. } = at;
        if self.grant.is_revoked() {
            return Err(FabricError::GrantRevoked { node });
        }
        let Some(granted) = self.regions.get(usize::from(span.region)) else {
            return Err(FabricError::UnknownRegion {
                node,
                region,
                regions: self.regions.len(),
            });
        };
        if granted.key != span.key {
            return Err(FabricError::WrongKey { at });
        }
        check_access(at, len, needed, &granted.info)?;
        let checked = self.grant.check_area(at, len, needed);
        checked.or_else(|refused| self.check_tagged(at, len, needed, refused))?;
        Ok(granted.start + span.offset)
    }

    /// Whether bytes of the memory that the client goes on with are opened to it, where the memory
    /// itself says that.
    fn is_still_open(&self, byte: u64, len: u64, needed: Rights, served: &ServedNode) -> bool {
        if self.tagged.is_none() {
            return true;
        }
        let mut regions = (0..).zip(&self.regions);
        let of = regions.find(|(_, of)| (of.start..of.start + of.info.len).contains(&byte));
        let Some((region, of)) = of else {
            return false;
        };
        let (info, offset) = (served.node.info(), byte - of.start);
        let at = address(Span {
            region,
            offset,
            len: 0,
            key: of.key,
        });
        let is_within = usize::from(region) < info.regions.len() && offset + len <= of.info.len;
        is_within
            && (self.grant.check_area(at, len, needed))
                .or_else(|refused| self.check_tagged(at, len, needed, refused))
                .is_ok()
    }

    /// Admits an access that was refused, if the memory itself says that it is opened.
    #[cold]
    fn check_tagged(
        &self,
        at: RemoteAddr,
        len: u64,
        needed: Rights,
        refused: FabricError,
    ) -> Result<()> {
        let node = self.tagged.as_ref();
        let is_opened = node.is_some_and(|node| {
            let words = node.words_of(usize::from(at.region.0));
            let load = |offset| words.from(offset).load(0);
            self.grant.opens_tagged(at, len, needed, load)
        });
        if is_opened { Ok(()) } else { Err(refused) }
    }

    /// The handler that answers a call: one that holds callers to their rights itself, or else all
    /// of the region may be called, for it may use all of it.
    pub(super) fn handler_of(&self, to: Span, served: &ServedNode) -> Result<Arc<dyn Handler>> {
        let start = Span { offset: 0, ..to };
        // The region is there, and the key is its own.
        self.locate(start, 0, Rights::NONE)?;
        let handler = served.node.handler(NodeId(0), RegionId(to.region))?;
        if !handler.checks_callers() {
            let granted_region = self.regions.get(usize::from(to.region));
            let len = granted_region.map_or(0, |granted| granted.info.len);
            self.locate(start, len, Rights::CALL)?;
        }
        Ok(handler)
    }

    /// As [`Serving::locate`], of a message's bytes.
    fn locate_message(&self, to: Span, served: &ServedNode) -> Result<u64> {
        if to.len as usize > mailbox::LONGEST {
            return Err(FabricError::BufferTooLarge {
                requested: to.len as usize,
                limit: mailbox::LONGEST,
            });
        }
        self.locate_change(to, to.len.into(), Rights::WRITE, served)
    }

    /// As [`Serving::locate`], of the word that an atomic changes.
    fn locate_word(&self, at: Span, served: &ServedNode) -> Result<u64> {
        check_aligned(address(at))?;
        self.locate_change(at, 8, Rights::ATOMIC, served)
    }

    /// As [`Serving::locate`], of what a verb changes: refused if it is fenced off.
    #[inline]
    fn locate_change(
        &self,
        span: Span,
        len: u64,
        needed: Rights,
        served: &ServedNode,
    ) -> Result<u64> {
        let byte = self.locate(span, len, needed)?;
        self.check_fence(byte, served)?;
        Ok(byte)
    }

    #[inline]
    fn check_fence(&self, byte: u64, served: &ServedNode) -> Result<()> {
        let memory = served.node.words();
        let fence = self.fence.as_ref();
        fence.map_or(Ok(()), |fence| fence.check(byte, memory))
    }

    /// The fence that a client asks for. One by a word that it could not change itself is none: it
    /// has nothing to fence off.
    fn fence_by(&self, word: Span, holds: u64) -> Option<Fence> {
        let is_word = holds != 0 && check_aligned(address(word)).is_ok();
        let start = is_word
            .then(|| self.locate(word, 8, Rights::ATOMIC))?
            .ok()?;
        let granted = self.regions.get(usize::from(word.region))?;
        let end = granted.start + granted.info.len;
        Some(Fence::new(word, holds, start..end))
    }

    /// Executes and answers READs that `words` begin with, gathers among them, and returns how
    /// many, and of how many words: none where the first verb is no READ, or one that must be
    /// looked at more closely.
    ///
    /// All of them are checked, and their memory is asked for, before the first is copied: they
    /// wait for memory side by side, where READs that are decoded and copied in turns wait one
    /// after the other.
    #[inline]
    fn run_reads(
        &mut self,
        words: &[u64],
        out: &mut Outbound,
        served: &ServedNode,
        quota: &mut Quota,
        moved: &mut TurnTraffic,
    ) -> (u16, usize) {
        let memory = served.node.words();
        let limit = served.frame_words as usize;
        let (left, left_words) = self.frame;
        let mut room = quota.unsent.saturating_sub(out.unsent()).min(quota.work);
        // Of each READ its pieces, its words, and those of its answer; of each piece where it is.
        let mut reads = SmallVec::<[(usize, usize, usize); BURST]>::new();
        let mut burst = SmallVec::<[(u64, u32); BURST]>::new();
        let mut used = 0;
        while reads.len() < usize::from(left).min(quota.verbs)
            && let Some((pieces, needed)) = decode_reads(&words[used..])
            && burst.len() + pieces.len() <= BURST
            && used + needed <= left_words as usize
        {
            let answer = pieces.map(|piece| words_of(piece.len)).sum();
            let known = burst.len();
            let work = answer * 8 + Quota::VERB;
            if answer >= limit || work > room || !self.ask_for(pieces, &mut burst, memory) {
                burst.truncate(known);
                break;
            }
            reads.push((pieces.len(), needed, answer));
            room -= work;
            used += needed;
        }
        if reads.len() == usize::from(left) && used < left_words as usize {
            // The frame is longer than its verbs, which has to be noticed before the last of them.
            used -= reads.pop().map_or(0, |(_, needed, _)| needed);
        }
        let mut located = burst.into_iter();
        for &(pieces, needed, answer) in &reads {
            let to = out.entry(FrameKind::Completions, answer, limit);
            for (byte, len) in located.by_ref().take(pieces) {
                memory.append_to(byte, len as usize, to);
                moved.read(len.into());
            }
            moved.verb(match needed {
                READ_WORDS => VerbKind::Read,
                _ => VerbKind::ReadMany,
            });
            quota.spend(answer * 8 + Quota::VERB);
        }
        quota.verbs -= reads.len();
        let count = reads.len() as u16;
        self.frame = (left - count, left_words - used as u32);
        (count, used)
    }

    /// Checks the pieces of a READ and asks for their memory; false if one of them may not be read.
    #[inline]
    fn ask_for(
        &self,
        pieces: WirePieces<'_>,
        burst: &mut SmallVec<[(u64, u32); BURST]>,
        memory: SharedWords<'_>,
    ) -> bool {
        for piece in pieces {
            let Ok(byte) = self.locate(piece, piece.len.into(), Rights::READ) else {
                return false;
            };
            memory.prefetch(byte, piece.len.min(ASKED_AHEAD) as usize);
            burst.push((byte, piece.len));
        }
        true
    }

    /// Executes a verb, and answers it if it is done; returns how many of its last words have to
    /// stay in the input.
    #[inline]
    fn execute(
        &mut self,
        request: Request<'_>,
        out: &mut Outbound,
        served: &ServedNode,
        quota: &mut Quota,
        moved: &mut TurnTraffic,
    ) -> Result<usize> {
        moved.verb(request.kind());
        let memory = served.node.words();
        match request {
            Request::Read(from) => {
                let byte = self.locate(from, from.len.into(), Rights::READ)?;
                let words = words_of(from.len);
                let limit = check_answer(words, served)?;
                if words * 8 <= LEAST || !byte.is_multiple_of(8) {
                    check_at_once(words, quota)?;
                    let to = out.entry(FrameKind::Completions, words, limit);
                    memory.append_to(byte, from.len as usize, to);
                    quota.spend(words * 8);
                } else {
                    self.begun = Some(begin_copying(words, (byte, from.len), 0, out));
                }
                moved.read(from.len.into());
            }
            Request::ReadMany(pieces) => {
                let mut bytes = SmallVec::<[u64; 8]>::new();
                let (mut total, mut len, mut starts) = (0, 0, 0);
                for piece in pieces {
                    let byte = self.locate(piece, piece.len.into(), Rights::READ)?;
                    (total, len) = (total + words_of(piece.len), len + u64::from(piece.len));
                    starts |= byte;
                    if total * 8 <= LEAST {
                        bytes.push(byte);
                    }
                }
                let limit = check_answer(total, served)?;
                moved.read(len);
                quota.spend(pieces.len() * Quota::VERB);
                if total * 8 <= LEAST {
                    let to = out.entry(FrameKind::Completions, total, limit);
                    for (piece, byte) in pieces.zip(bytes) {
                        memory.append_to(byte, piece.len as usize, to);
                    }
                } else if starts.is_multiple_of(8) {
                    // The pieces stay in the input until each is copied.
                    self.begun = Some(begin_copying(total, (0, 0), pieces.len(), out));
                    return Ok(pieces.len() * READ_WORDS);
                } else {
                    check_at_once(total, quota)?;
                    let to = out.entry(FrameKind::Completions, total, limit);
                    for piece in pieces {
                        let byte = self.locate(piece, piece.len.into(), Rights::READ)?;
                        memory.append_to(byte, piece.len as usize, to);
                    }
                    quota.spend(total * 8);
                }
            }
            Request::Write(to, payload) => {
                let byte = self.locate_change(to, to.len.into(), Rights::WRITE, served)?;
                memory.copy_in(byte, to.len as usize, payload);
                moved.written(to.len);
                answer(0, out, served)?;
            }
            Request::CompareSwap { at, expected, new } => {
                let seen = memory.compare_swap(self.locate_word(at, served)?, expected, new);
                moved.read(8);
                answer(1, out, served)?.push(seen);
            }
            Request::FetchAdd { at, add } => {
                let seen = memory.fetch_add(self.locate_word(at, served)?, add);
                moved.read(8);
                answer(1, out, served)?.push(seen);
            }
            Request::Call { to, request } => {
                self.call(to, request, out, served, quota, moved)?;
            }
            Request::Fence { word, holds } => self.fence = self.fence_by(word, holds),
            Request::WriteImm { to, imm, payload } => {
                let byte = self.locate_message(to, served)?;
                memory.copy_in(byte, to.len as usize, payload);
                moved.written(to.len);
                self.put(Message { imm, len: to.len }, out, served);
            }
        }
        Ok(0)
    }
}

impl Serve for Serving {
    /// Executes the verbs that are here.
    fn run(
        &mut self,
        input: &mut Inbound,
        out: &mut Outbound,
        served: &ServedNode,
        quota: &mut Quota,
        tell: &mut Tell<'_>,
        bell: &Waker,
    ) -> std::result::Result<ExecutionPause, Malformed> {
        self.execute_all(input, out, served, quota, tell, bell)
    }

    fn held_bytes(&self) -> usize {
        self.held.bytes()
    }

    fn grant(&self) -> &Arc<Issued> {
        &self.grant
    }
}

/// Verbs and words of the frame whose header this is.
fn begin(first: u64, served: &ServedNode) -> std::result::Result<(u16, u32), Malformed> {
    let Header { kind, count, words } = Header::decode(first)?;
    if kind != FrameKind::Verbs {
        return Err(Malformed::Kind { found: kind as u8 });
    }
    if words > served.frame_words {
        return Err(Malformed::Length {
            words,
            limit: served.frame_words,
        });
    }
    if count == 0 {
        return Err(Malformed::Count { count });
    }
    Ok((count, words - 1))
}
