//! A connection: what has arrived, what is to be sent, and the requests in between.

use crate::commands::{self, Join, Moment, Request};
use crate::databases::Databases;
use crate::failure::Failure;
use crate::frame::{Parser, ProtocolError, RequestLimits};
use crate::reply::{OK, Protocol, Reply};
use crate::session::Choices;
use crate::shared::Shared;
use crate::turn::{STEPS_A_TURN, Turn};
use crate::whole;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

/// What clients may ask for.
const LIMITS: RequestLimits = RequestLimits {
    arguments: 1 << 16,
    bulk: 1 << 20,
    request: 16 << 20,
};
/// What those may that have not shown that they know the secret.
const STRANGERS_LIMITS: RequestLimits = RequestLimits {
    arguments: 10,
    bulk: 1 << 10,
    request: 4 << 10,
};
/// Requests of a connection that one turn does: with the longest values, half of what a connection
/// may have read.
const REQUESTS_A_TURN: usize = 32;
/// Bytes of replies that are sent even if there are more requests.
const SEND_FROM: usize = 256 << 10;

/// A connection of a client.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) stream: TcpStream,
    input: Vec<u8>,
    parser: Parser,
    output: Vec<u8>,
    /// Bytes of the output that were sent.
    sent: usize,
    choices: Choices,
    /// Whether nothing more is done: it ends once its replies are sent.
    is_ending: bool,
    /// Whether the client sends no more: it ends once all that it has sent is done.
    is_last: bool,
    /// Whether the kernel has no room for its replies. Nothing more is done meanwhile.
    pub(crate) is_blocked: bool,
    /// Since when it has had to do what is limited in time: to be admitted, or to take replies.
    pub(crate) since: Instant,
    /// Whether it may have requests that were not done.
    pub(crate) is_ready: bool,
    /// Whether it is in the line for the next turn.
    pub(crate) is_queued: bool,
    /// Bytes that were counted as held.
    pub(crate) counted: usize,
    /// What the kernel watches: whether there is input, whether there is room for output.
    pub(crate) watched: (bool, bool),
}

/// How a connection's answers come to be.
enum Answer<'r> {
    Ready(Reply<'r>),
    Step(usize),
    Steps(Range<usize>, Join),
}

/// The answers of a connection in a turn.
pub(crate) struct Gathered<'r> {
    output: &'r mut Vec<u8>,
    answers: Vec<(Protocol, Answer<'r>)>,
    room: usize,
}

impl Connection {
    pub(crate) fn new(stream: TcpStream, choices: Choices) -> Self {
        Self {
            stream,
            choices,
            input: Vec::new(),
            parser: Parser::default(),
            output: Vec::new(),
            sent: 0,
            is_ending: false,
            is_last: false,
            is_blocked: false,
            since: Instant::now(),
            is_ready: false,
            is_queued: false,
            counted: 0,
            watched: (true, false),
        }
    }

    /// Bytes that it keeps.
    pub(crate) fn held(&self) -> usize {
        self.input.capacity() + self.output.capacity()
    }

    pub(crate) fn is_admitted(&self) -> bool {
        self.choices.is_admitted
    }

    /// Bytes that have arrived and were not done.
    pub(crate) fn input_bytes(&self) -> usize {
        self.input.len()
    }

    /// What the kernel shall watch: whether there is input, whether there is room for output.
    pub(crate) fn wants(&self) -> (bool, bool) {
        let takes_input = !self.is_blocked && !self.is_ending && !self.is_last;
        (takes_input, self.is_blocked)
    }

    /// Whether everything is done.
    pub(crate) fn has_ended(&self) -> bool {
        (self.is_ending || self.is_last && !self.is_ready) && self.output.is_empty()
    }

    /// Takes what has arrived, as much as the buffer holds; fails at the connection's end.
    pub(crate) fn receive(&mut self, buffer: &mut [u8]) -> std::io::Result<()> {
        match (&self.stream).read(buffer) {
            Ok(bytes) => {
                self.is_last = bytes == 0;
                self.input.extend_from_slice(&buffer[..bytes]);
            }
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock | ErrorKind::Interrupted => {}
                _ => return Err(error),
            },
        }
        self.is_ready = true;
        Ok(())
    }

    /// Sends replies, as many as the kernel takes; fails at the connection's end.
    pub(crate) fn send(&mut self) -> std::io::Result<()> {
        self.is_blocked = false;
        while self.sent < self.output.len() {
            match (&self.stream).write(&self.output[self.sent..]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(bytes) => {
                    self.sent += bytes;
                    self.since = Instant::now();
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.is_blocked = true;
                    return Ok(());
                }
                Err(error) => return Err(error),
            }
        }
        self.sent = 0;
        self.output.clear();
        self.output.shrink_to(SEND_FROM);
        Ok(())
    }

    /// Takes whole requests into a turn, and runs those that are of no key. Returns the answers,
    /// and how many bytes of input they were. The connection [goes on](Connection::consume) behind
    /// them.
    pub(crate) fn gather<'r>(
        &'r mut self,
        turn: &mut Turn<'r>,
        databases: &mut Databases,
        shared: &Shared,
        room: usize,
    ) -> (Gathered<'r>, usize, bool) {
        let Self {
            input,
            parser,
            output,
            choices,
            is_ending,
            ..
        } = self;
        let input: &'r [u8] = input;
        let by = turn.admit(room);
        let mut gathered = Gathered {
            output,
            answers: Vec::new(),
            room,
        };
        let mut requests = Requests {
            by,
            choices,
            shared,
            databases,
            turn,
            room,
        };
        let (mut at, mut commands) = (0, 0);
        let mut arguments: Vec<&'r [u8]> = Vec::new();
        let mut has_more = false;
        while !*is_ending {
            if gathered.answers.len() >= REQUESTS_A_TURN || requests.turn.len() >= STEPS_A_TURN {
                has_more = true;
                break;
            }
            let is_stranger = !requests.choices.is_admitted;
            let limits = if is_stranger {
                &STRANGERS_LIMITS
            } else {
                &LIMITS
            };
            let bytes = match parser.read(&input[at..], limits, is_stranger) {
                Ok(Some(bytes)) => bytes,
                Ok(None) => break,
                Err(error) => {
                    *is_ending = true;
                    let protocol = requests.choices.protocol;
                    gathered.answers.push((protocol, malformed(error)));
                    break;
                }
            };
            arguments.clear();
            let of_it = &input[at..at + bytes];
            arguments.extend(parser.arguments().iter().map(|place| &of_it[place.clone()]));
            parser.reset();
            at += bytes;
            if arguments.is_empty() {
                continue;
            }
            if is_of_a_browser(arguments[0]) {
                log::warn!("a connection to the Redis gateway speaks HTTP: closed");
                *is_ending = true;
                break;
            }
            commands += 1;
            let answer = requests.answer(&arguments);
            gathered.answers.push((requests.choices.protocol, answer));
            *is_ending = requests.choices.has_quit;
        }
        shared.counts.commands.fetch_add(commands, Relaxed);
        (gathered, at, has_more)
    }

    /// Forgets input that was done; whether there may be more to do before more arrives.
    pub(crate) fn consume(&mut self, bytes: usize, has_more: bool) {
        self.input.drain(..bytes);
        if self.input.is_empty() {
            self.input.shrink_to(64 << 10);
        }
        self.is_ready = has_more && !self.is_ending;
    }

    /// Whether replies are to be sent now: there are enough, or nothing more to do.
    pub(crate) fn is_to_send(&self) -> bool {
        !self.output.is_empty() && (!self.is_ready || self.output.len() >= SEND_FROM)
    }

    /// Ends it with an error, whatever it has sent.
    pub(crate) fn refuse(&mut self, failure: Failure) {
        Reply::Error(failure).put(&mut self.output, SEND_FROM, self.choices.protocol);
        self.input = Vec::new();
        self.parser = Parser::default();
        self.is_ending = true;
        self.is_ready = false;
    }
}

fn malformed(error: ProtocolError) -> Answer<'static> {
    Answer::Ready(Reply::Error(error.into()))
}

/// Pages can make a browser send requests to any address of its machine. Where a header would
/// stand, commands of the page's choice can follow: so the connection ends at the first line.
fn is_of_a_browser(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b"post") || name.eq_ignore_ascii_case(b"host:")
}

/// The requests of one connection in a turn.
struct Requests<'t, 'r> {
    /// The connection's number in the turn.
    by: usize,
    choices: &'t mut Choices,
    shared: &'t Shared,
    databases: &'t mut Databases,
    turn: &'t mut Turn<'r>,
    room: usize,
}

impl<'r> Requests<'_, 'r> {
    fn answer(&mut self, arguments: &[&'r [u8]]) -> Answer<'r> {
        self.take(arguments)
            .unwrap_or_else(|failure| Answer::Ready(Reply::Error(failure)))
    }

    fn take(&mut self, arguments: &[&'r [u8]]) -> Result<Answer<'r>, Failure> {
        let (number, command) = commands::find(arguments)?;
        self.shared.counts.by_command[number].fetch_add(1, Relaxed);
        if !self.choices.is_admitted && !command.is_open {
            return Err(Failure::NotAdmitted);
        }
        let now = self.turn.now;
        let database = self.choices.database;
        Ok(match (command.parse)(arguments, Moment { now })? {
            Request::One(key, step) => Answer::Step(self.turn.push(self.by, database, key, step)),
            Request::Each(steps, join) => {
                let first = self.turn.len();
                for (key, step) in steps {
                    self.turn.push(self.by, database, key, step);
                }
                Answer::Steps(first..self.turn.len(), join)
            }
            Request::Whole(of) => {
                // Behind everything that came before it.
                self.turn.run(self.databases);
                let done = whole::run(self.databases, database, &of, now, self.room);
                Answer::Ready(done?)
            }
            Request::Session(of) => {
                Answer::Ready(self.choices.run(of, self.shared, self.databases)?)
            }
        })
    }
}

impl<'r> Gathered<'r> {
    /// How many answers there are.
    pub(crate) fn len(&self) -> usize {
        self.answers.len()
    }

    /// Appends the answers, all of whose steps were run, to the connection's output.
    pub(crate) fn finish(self, turn: &mut Turn<'r>, shared: &Shared) {
        let before = self.output.len();
        for (protocol, answer) in self.answers {
            let reply = match answer {
                Answer::Ready(reply) => reply,
                Answer::Step(step) => turn.reply(step),
                Answer::Steps(steps, join) => joined(turn, steps, join),
            };
            if let Reply::Error(failure) = &reply {
                shared.counts.errors[failure.code()].fetch_add(1, Relaxed);
            }
            let left = self.room.saturating_sub(self.output.len() - before);
            reply.put(self.output, left, protocol);
        }
    }
}

/// One reply of those to several steps; if one failed, its error.
fn joined<'r>(turn: &mut Turn<'r>, steps: Range<usize>, join: Join) -> Reply<'r> {
    let mut replies = steps.map(|step| turn.reply(step));
    match join {
        Join::Array => Reply::Array(replies.collect()),
        Join::Status | Join::Sum => {
            let mut sum = 0;
            let failed = replies.find_map(|reply| match reply {
                Reply::Integer(one) => {
                    sum += one;
                    None
                }
                Reply::Error(_) => Some(reply),
                _ => None,
            });
            let done = if join == Join::Sum {
                Reply::Integer(sum)
            } else {
                OK
            };
            failed.unwrap_or(done)
        }
    }
}
