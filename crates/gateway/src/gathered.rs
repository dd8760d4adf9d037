//! The answers of a connection in a tick, and how they become replies.

use crate::commands::ReplyJoin;
use crate::frame::{Progress, RequestLimits, RequestParser};
use crate::reply::{OK, Protocol, Reply};
use crate::session::Choices;
use crate::shared::GatewayState;
use crate::tick::TickSteps;
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// Those of a request that was read before.
const ANY_LIMITS: RequestLimits = RequestLimits {
    arguments: 1 << 20,
    bulk: 1 << 30,
    request: 1 << 30,
};

/// How a connection's answers come to be.
pub(crate) enum Answer<'r> {
    Ready(Reply<'r>),
    /// It waits for EXEC.
    Queued,
    /// Ready, and what it took was looked at by itself.
    Apart(Reply<'r>),
    Step(usize),
    Steps(Range<usize>, ReplyJoin),
}

/// An answer, and the request that it is to.
pub(crate) struct RequestAnswer<'r> {
    pub(crate) answer: Answer<'r>,
    pub(crate) protocol: Protocol,
    /// The command's number, if it is known.
    pub(crate) command: Option<usize>,
    /// Where the request begins in the input.
    pub(crate) from: usize,
}

/// The answers of a connection in a tick.
pub(crate) struct Gathered<'r> {
    pub(crate) by: usize,
    pub(crate) input: &'r [u8],
    pub(crate) choices: &'r Choices,
    pub(crate) output: &'r mut Vec<u8>,
    pub(crate) parser: &'r mut RequestParser,
    pub(crate) answers: Vec<RequestAnswer<'r>>,
    pub(crate) done: ConnectionOutcome,
}

/// What a tick has done for a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConnectionOutcome {
    /// Bytes of the input that were done.
    pub(crate) bytes: usize,
    /// Whether there may be more to do before more arrives.
    pub(crate) has_more: bool,
    /// Whether it waits for room: it is among the first in the next tick.
    pub(crate) waits: bool,
    /// Whether a request of it was too long for this tick.
    pub(crate) is_cut: bool,
    /// Bytes of the replies.
    pub(crate) replied: usize,
    /// Requests that were done.
    pub(crate) commands: u64,
}

impl ConnectionOutcome {
    /// Of one that had no tick.
    pub(crate) const WAITS: Self = Self {
        bytes: 0,
        has_more: true,
        waits: true,
        is_cut: false,
        replied: 0,
        commands: 0,
    };
}

/// The request of a tick that has moved the most bytes, of those that were not looked at by
/// themselves.
#[derive(Default)]
pub(crate) struct Longest<'r> {
    /// Of it and of its reply.
    bytes: usize,
    /// It is where this begins.
    input: &'r [u8],
    choices: Option<&'r Choices>,
}

impl Longest<'_> {
    /// Remembers it as one that took long.
    pub(crate) fn remember(&self, shared: &GatewayState, took: Duration) {
        let mut parser = RequestParser::default();
        let read = parser.read(self.input, &ANY_LIMITS, false);
        let (Some(choices), Ok(Progress::Whole(_))) = (self.choices, read) else {
            return;
        };
        let arguments = parser.arguments().iter();
        let arguments: Vec<&[u8]> = arguments.map(|place| &self.input[place.clone()]).collect();
        let Choices { peer, name, .. } = choices;
        shared.slow_log.add(took, &arguments, *peer, name);
    }
}

impl<'r> Gathered<'r> {
    /// Appends the answers, all of whose steps were run, to the connection's output. Looks for the
    /// longest request where that is asked for.
    pub(crate) fn finish(
        self,
        tick: &mut TickSteps<'r>,
        shared: &GatewayState,
        mut longest: Option<&mut Longest<'r>>,
    ) -> ConnectionOutcome {
        let mut done = self.done;
        let before = self.output.len();
        let mut queued = 0;
        let mut answers = self.answers.into_iter().peekable();
        while let Some(answered) = answers.next() {
            let is_queued = matches!(answered.answer, Answer::Queued);
            let is_apart = is_queued || matches!(answered.answer, Answer::Apart(_));
            let first = match &answered.answer {
                Answer::Ready(_) | Answer::Queued | Answer::Apart(_) => None,
                Answer::Step(step) => Some(*step),
                Answer::Steps(steps, _) => Some(steps.start),
            };
            if first.is_some_and(|step| tick.is_cut(self.by, step)) {
                // Nothing from here on was done: it is read again.
                self.parser.reset();
                (done.bytes, done.has_more, done.waits) = (answered.from, true, true);
                done.is_cut = true;
                break;
            }
            let reply = match answered.answer {
                Answer::Ready(reply) | Answer::Apart(reply) => reply,
                Answer::Queued => Reply::Status("QUEUED"),
                Answer::Step(step) => tick.reply(step),
                Answer::Steps(steps, join) => joined(tick, steps, join),
            };
            if let Reply::Error(failure) = &reply {
                shared.counts.errors[failure.code()].fetch_add(1, Relaxed);
            }
            queued += u64::from(is_queued);
            if let Some(command) = answered.command
                && !is_queued
            {
                shared.counts.by_command[command].fetch_add(1, Relaxed);
            }
            done.commands += 1;
            let replied = self.output.len();
            // Its room was taken.
            reply.put(self.output, usize::MAX, answered.protocol);
            if let Some(longest) = &mut longest
                && answered.command.is_some()
                && !is_apart
            {
                let end = answers.peek().map_or(done.bytes, |next| next.from);
                let bytes = end - answered.from + self.output.len() - replied;
                // What unauthenticated clients send is nobody's business.
                if bytes > longest.bytes && self.choices.is_admitted {
                    **longest = Longest {
                        bytes,
                        input: &self.input[answered.from..],
                        choices: Some(self.choices),
                    };
                }
            }
        }
        // Those that wait for EXEC are counted when they are done.
        let commands = done.commands - queued;
        shared.counts.commands.fetch_add(commands, Relaxed);
        done.replied = self.output.len() - before;
        done
    }
}

/// One reply of those to several steps; if one failed, its error.
fn joined<'r>(tick: &mut TickSteps<'r>, steps: Range<usize>, join: ReplyJoin) -> Reply<'r> {
    let mut replies = steps.map(|step| tick.reply(step));
    match join {
        ReplyJoin::Array => Reply::Array(replies.collect()),
        ReplyJoin::Status | ReplyJoin::Sum => {
            let mut sum = 0;
            let failed = replies.find_map(|reply| match reply {
                Reply::Integer(one) => {
                    sum += one;
                    None
                }
                Reply::Error(_) => Some(reply),
                _ => None,
            });
            let done = if join == ReplyJoin::Sum {
                Reply::Integer(sum)
            } else {
                OK
            };
            failed.unwrap_or(done)
        }
    }
}
