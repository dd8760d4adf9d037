//! Executes the verbs of an admitted client: each is checked, executed and answered, in order of
//! arrival.

use crate::error::{Carrier, Malformed};
use crate::memory::{AgentClaim, Node, mailbox};
use crate::net::admission::Issued;
use crate::net::agent::{Client, Pause, Serve, Served, Service, Tell, count};
use crate::net::stream::{Inbound, Outbound};
use crate::net::wire::{
    self, FrameKind, Header, Pieces, Request, Span, decode_reads, decode_request, request_words,
    words_of,
};
use crate::verb::{check_access, check_aligned};
use crate::words::SharedWords;
use crate::{FabricError, Message, NodeId, RegionId, RegionInfo, RemoteAddr, Result, Rights};
use smallvec::SmallVec;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The verbs come over the connection, and are executed by the agent's threads.
pub(super) struct Executing {
    _claim: AgentClaim,
}

impl Executing {
    /// On the memory of that node.
    ///
    /// # Errors
    /// [`FabricError::NicAndProcessor`].
    pub(super) fn new(node: &Node) -> Result<Self> {
        let claim = node.claim_for_agent()?;
        Ok(Self { _claim: claim })
    }
}

impl Service for Executing {
    fn carrier(&self) -> Carrier {
        Carrier::Tcp
    }

    fn admit(&self, client: Client<'_>) -> Box<dyn Serve> {
        let Client {
            node,
            grant,
            regions,
            receiver_wait,
            ..
        } = client;
        Box::new(Serving::new(node, grant, regions, receiver_wait))
    }
}

/// How a client's verbs are executed.
struct Serving {
    grant: Arc<Issued>,
    regions: SmallVec<[Granted; 2]>,
    /// What the frame that has begun still has: verbs and words.
    frame: (u16, u32),
    stalled: Option<Stalled>,
    receiver_wait: Duration,
}

struct Granted {
    info: RegionInfo,
    /// Byte of the node's memory at which it starts.
    start: u64,
    key: u64,
}

/// A message that its receiver has no room for; its bytes are written.
struct Stalled {
    message: Message,
    until: Instant,
}

/// The most pieces of READs whose memory is asked for before the first of them is copied.
const BURST: usize = 64;
/// The most bytes of a READ that are asked for ahead: processors go on by themselves behind these.
const ASKED_AHEAD: u32 = 256;

impl Serving {
    fn new(
        node: &Node,
        grant: Arc<Issued>,
        regions: &[RegionInfo],
        receiver_wait: Duration,
    ) -> Self {
        let regions = regions.iter().zip(&grant.keys).enumerate();
        let regions = regions.map(|(index, (info, key))| Granted {
            info: *info,
            start: node.start_of(index),
            key: *key,
        });
        Self {
            regions: regions.collect(),
            grant,
            frame: (0, 0),
            stalled: None,
            receiver_wait,
        }
    }

    fn execute_all(
        &mut self,
        input: &mut Inbound,
        out: &mut Outbound,
        served: &Served,
        tell: &mut Tell<'_>,
    ) -> std::result::Result<Pause, Malformed> {
        if self.stalled.is_some() && !self.deliver(out, served) {
            return Ok(Pause::Stalled);
        }
        let words = input.words();
        let (mut at, mut verbs) = (0, 0);
        let pause = loop {
            let (left, left_words) = self.frame;
            let rest = &words[at..];
            let Some(&first) = rest.first() else {
                break Pause::Hungry(1);
            };
            if left == 0 {
                self.frame = begin(first, served)?;
                at += 1;
                continue;
            }
            if out.unsent() >= served.unsent_bytes {
                break Pause::Full;
            }
            let (reads, used) = self.run_reads(rest, out, served);
            if reads > 0 {
                at += used;
                verbs += u64::from(reads);
                continue;
            }
            let count = Malformed::Count { count: left };
            let Some((request, used)) = decode_request(rest)? else {
                let needed = request_words(first)?;
                if needed > left_words as usize {
                    return Err(count);
                }
                break Pause::Hungry(needed);
            };
            if used > left_words as usize {
                return Err(count);
            }
            self.frame = (left - 1, left_words - used as u32);
            if self.frame.0 == 0 && self.frame.1 > 0 {
                return Err(count);
            }
            at += used;
            verbs += 1;
            if let Err(error) = self.execute(request, out, served) {
                self.fail(&error, out, served);
                tell(&self.grant.name, &error);
            } else if self.stalled.is_some() {
                break Pause::Stalled;
            }
        };
        input.consume(at);
        count(&served.tally.verbs, verbs);
        Ok(pause)
    }

    #[cold]
    fn fail(&self, error: &FabricError, out: &mut Outbound, served: &Served) {
        out.frame(FrameKind::Completions, &wire::encode_failure(error));
        count(&served.tally.failed_verbs, 1);
    }

    /// The byte of the node's memory at which a checked access starts.
    #[inline]
    fn locate(&self, span: Span, len: u64, needed: Rights) -> Result<u64> {
        let node = NodeId(0);
        let region = RegionId(span.region);
        let at = RemoteAddr {
            node,
            region,
            offset: span.offset,
        };
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
        self.grant.check_area(at, len, needed)?;
        Ok(granted.start + span.offset)
    }

    /// Checks that all of a region may be called: its handler may use all of it.
    fn check_call(&self, to: Span) -> Result<()> {
        let whole = self.regions.get(usize::from(to.region));
        let len = whole.map_or(0, |granted| granted.info.len);
        self.locate(Span { offset: 0, ..to }, len, Rights::CALL)?;
        Ok(())
    }

    fn locate_word(&self, at: Span) -> Result<u64> {
        check_aligned(RemoteAddr {
            node: NodeId(0),
            region: RegionId(at.region),
            offset: at.offset,
        })?;
        self.locate(at, 8, Rights::ATOMIC)
    }

    /// Executes and answers READs that `words` begin with, gathers among them, and returns how
    /// many, and of how many words: none where the first verb is no READ, or one that must be
    /// looked at more closely.
    ///
    /// All of them are checked, and their memory is asked for, before the first is copied: they
    /// wait for memory side by side, where READs that are decoded and copied in turns wait one
    /// after the other.
    #[inline]
    fn run_reads(&mut self, words: &[u64], out: &mut Outbound, served: &Served) -> (u16, usize) {
        let memory = served.node.words();
        let limit = served.frame_words as usize;
        let (left, left_words) = self.frame;
        let mut room = served.unsent_bytes.saturating_sub(out.unsent());
        // Of each READ its pieces, its words, and those of its answer; of each piece where it is.
        let mut reads = SmallVec::<[(usize, usize, usize); BURST]>::new();
        let mut burst = SmallVec::<[(u64, u32); BURST]>::new();
        let mut used = 0;
        while reads.len() < usize::from(left)
            && let Some((pieces, needed)) = decode_reads(&words[used..])
            && burst.len() + pieces.len() <= BURST
            && used + needed <= left_words as usize
        {
            let answer = pieces.map(|piece| words_of(piece.len)).sum();
            let known = burst.len();
            if answer >= limit || answer * 8 > room || !self.ask_for(pieces, &mut burst, memory) {
                burst.truncate(known);
                break;
            }
            reads.push((pieces.len(), needed, answer));
            room -= answer * 8;
            used += needed;
        }
        if reads.len() == usize::from(left) && used < left_words as usize {
            // The frame is longer than its verbs, which has to be noticed before the last of them.
            used -= reads.pop().map_or(0, |(_, needed, _)| needed);
        }
        let mut located = burst.into_iter();
        for &(pieces, _, answer) in &reads {
            let to = out.entry(FrameKind::Completions, answer, limit);
            for (byte, len) in located.by_ref().take(pieces) {
                memory.append_to(byte, len as usize, to);
            }
        }
        let count = reads.len() as u16;
        self.frame = (left - count, left_words - used as u32);
        (count, used)
    }

    /// Checks the pieces of a READ and asks for their memory; false if one of them may not be read.
    #[inline]
    fn ask_for(
        &self,
        pieces: Pieces<'_>,
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

    /// Executes a verb, and answers it if it is done.
    #[inline]
    fn execute(&mut self, request: Request<'_>, out: &mut Outbound, served: &Served) -> Result<()> {
        let memory = served.node.words();
        match request {
            Request::Read(from) => {
                let byte = self.locate(from, from.len.into(), Rights::READ)?;
                let to = answer(words_of(from.len), out, served)?;
                memory.append_to(byte, from.len as usize, to);
            }
            Request::ReadMany(pieces) => {
                let mut bytes = SmallVec::<[u64; 8]>::new();
                let mut total = 0;
                for piece in pieces {
                    bytes.push(self.locate(piece, piece.len.into(), Rights::READ)?);
                    total += words_of(piece.len);
                }
                let to = answer(total, out, served)?;
                for (piece, byte) in pieces.zip(bytes) {
                    memory.append_to(byte, piece.len as usize, to);
                }
            }
            Request::Write(to, payload) => {
                let byte = self.locate(to, to.len.into(), Rights::WRITE)?;
                memory.copy_in(byte, to.len as usize, payload);
                answer(0, out, served)?;
            }
            Request::CompareSwap { at, expected, new } => {
                let seen = memory.compare_swap(self.locate_word(at)?, expected, new);
                answer(1, out, served)?.push(seen);
            }
            Request::FetchAdd { at, add } => {
                let seen = memory.fetch_add(self.locate_word(at)?, add);
                answer(1, out, served)?.push(seen);
            }
            Request::Call { to, request } => {
                let region = RegionId(to.region);
                // The region is there, and the key is its own.
                self.locate(Span { offset: 0, ..to }, 0, Rights::NONE)?;
                let handler = served.node.handler(NodeId(0), region)?;
                if !handler.checks_callers() {
                    self.check_call(to)?;
                }
                let allowed = |bytes: Range<u64>, needed| {
                    let offset = bytes.start;
                    let len = bytes.end.saturating_sub(offset);
                    self.locate(Span { offset, ..to }, len, needed).map(drop)
                };
                let room = usize::try_from(to.offset).unwrap_or(usize::MAX);
                // Its length, then its bytes.
                let words = room.div_ceil(8).saturating_add(1);
                let reply = answer(words, out, served)?;
                let start = reply.len();
                reply.resize(start + words, 0);
                let request = &bytemuck::cast_slice(request)[..to.len as usize];
                let (len, bytes) = reply[start..].split_at_mut(1);
                let bytes = &mut bytemuck::cast_slice_mut(bytes)[..room];
                let replied = served
                    .node
                    .answer_call(&*handler, region, request, bytes, &allowed);
                len[0] = replied as u64;
                reply.truncate(start + 1 + replied.div_ceil(8));
            }
            Request::WriteImm { to, imm, payload } => {
                if to.len as usize > mailbox::LONGEST {
                    return Err(FabricError::BufferTooLarge {
                        requested: to.len as usize,
                        limit: mailbox::LONGEST,
                    });
                }
                let byte = self.locate(to, to.len.into(), Rights::WRITE)?;
                memory.copy_in(byte, to.len as usize, payload);
                let message = Message { imm, len: to.len };
                if mailbox::put(memory, message) {
                    answer(0, out, served)?;
                } else {
                    let until = Instant::now() + self.receiver_wait;
                    self.stalled = Some(Stalled { message, until });
                }
            }
        }
        Ok(())
    }

    /// Delivers the message that waits, or gives it up; false if it goes on waiting.
    fn deliver(&mut self, out: &mut Outbound, served: &Served) -> bool {
        let Some(stalled) = &self.stalled else {
            return true;
        };
        let revoked = self.grant.is_revoked();
        if !revoked && mailbox::put(served.node.words(), stalled.message) {
            out.entry(FrameKind::Completions, 0, served.frame_words as usize);
        } else if revoked || Instant::now() >= stalled.until {
            // Its bytes are written, whatever becomes of the message: no other error says so.
            let error = FabricError::ReceiverNotReady {
                node: NodeId(0),
                capacity: mailbox::CAPACITY as usize,
            };
            self.fail(&error, out, served);
        } else {
            return false;
        }
        self.stalled = None;
        true
    }
}

impl Serve for Serving {
    /// Executes the verbs that are here.
    fn run(
        &mut self,
        input: &mut Inbound,
        out: &mut Outbound,
        served: &Served,
        tell: &mut Tell<'_>,
    ) -> std::result::Result<Pause, Malformed> {
        self.execute_all(input, out, served, tell)
    }
}

/// Verbs and words of the frame whose header this is.
fn begin(first: u64, served: &Served) -> std::result::Result<(u16, u32), Malformed> {
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

/// Where to append the answer to a verb, which has so many words.
#[inline]
fn answer<'o>(words: usize, out: &'o mut Outbound, served: &Served) -> Result<&'o mut Vec<u64>> {
    let limit = served.frame_words as usize;
    if words >= limit {
        return Err(FabricError::BufferTooLarge {
            requested: words * 8,
            limit: (limit - 1) * 8,
        });
    }
    Ok(out.entry(FrameKind::Completions, words, limit))
}
