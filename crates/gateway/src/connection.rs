//! A connection: what has arrived, what is to be sent, and the requests in between.

mod transactions;

use crate::commands::{self, DatabaseCommand, Moment, Request};
use crate::databases::Databases;
use crate::failure::Failure;
use crate::frame::{Progress, RequestLimits, RequestParser};
use crate::gathered::{Answer, ConnectionOutcome, Gathered, RequestAnswer};
use crate::keyspace;
use crate::record::LONGEST_VALUE;
use crate::reply::Reply;
use crate::session::{self, Choices};
use crate::shared::{GatewayState, Notice};
use crate::tick::{RoomRefusal, TickSteps};
use farslot_fabric::net::Socket;
use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

/// What clients may ask for.
const LIMITS: RequestLimits = RequestLimits {
    arguments: 1 << 16,
    bulk: LONGEST_VALUE,
    request: 16 << 20,
};
/// What those may that have not shown that they know the secret.
const UNAUTHENTICATED_LIMITS: RequestLimits = RequestLimits {
    arguments: 10,
    bulk: 1 << 10,
    request: 4 << 10,
};
/// Requests of a connection that one tick does.
const REQUESTS_A_TICK: usize = 32;
/// Bytes of requests and replies of a tick beyond which a connection's requests count as long.
const LONG: usize = 32 << 10;
/// Bytes of replies that are sent even if there are more requests.
const SEND_FROM: usize = 256 << 10;

/// A connection of a client.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) socket: Socket,
    input: Vec<u8>,
    parser: RequestParser,
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
    /// Whether it is in the line for a step of its handshake of TLS.
    pub(crate) is_shaking: bool,
    /// Whether it is among the unauthenticated clients.
    pub(crate) is_unauthenticated: bool,
    /// Since when no request of it was done and no reply was taken.
    pub(crate) since: Instant,
    /// Until when nothing is done, because a secret was wrong.
    pub(crate) rest_until: Option<Instant>,
    /// Whether it may have requests that were not done.
    pub(crate) is_ready: bool,
    /// Whether it is in the line for the next tick.
    pub(crate) is_queued: bool,
    /// Whether what it asks for takes long: others have their turns before it.
    pub(crate) is_long: bool,
    /// Bytes that were counted as held.
    pub(crate) counted: usize,
    /// What the kernel watches: whether there is input, whether there is room for output.
    pub(crate) watched: (bool, bool),
}

/// Why a request is not done now.
enum ExecutionStop {
    Failed(Failure),
    /// There is no room for it in this tick.
    Full,
    /// Steps before it are to be run first, or the connection rests.
    Later,
}

impl From<Failure> for ExecutionStop {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl From<RoomRefusal> for ExecutionStop {
    fn from(why: RoomRefusal) -> Self {
        match why {
            RoomRefusal::Now => Self::Full,
            RoomRefusal::Ever(failure) => Self::Failed(failure),
        }
    }
}

impl Connection {
    pub(crate) fn new(socket: Socket, choices: Choices) -> Self {
        Self {
            socket,
            choices,
            input: Vec::new(),
            parser: RequestParser::default(),
            output: Vec::new(),
            sent: 0,
            is_ending: false,
            is_last: false,
            is_blocked: false,
            is_shaking: false,
            is_unauthenticated: false,
            since: Instant::now(),
            rest_until: None,
            is_ready: false,
            is_queued: false,
            is_long: false,
            counted: 0,
            watched: (true, false),
        }
    }

    /// Bytes that it keeps.
    pub(crate) fn held(&self) -> usize {
        let buffers = self.input.capacity() + self.output.capacity();
        buffers + self.parser.held() + self.socket.held() + self.choices.held()
    }

    pub(crate) fn peer(&self) -> Option<SocketAddr> {
        self.choices.peer
    }

    /// Whether its client is authenticated: it knows the secret, and the handshake of TLS is done.
    pub(crate) fn is_admitted(&self) -> bool {
        self.choices.is_admitted && !self.socket.is_shaking_hands()
    }

    /// Bytes that have arrived and were not done.
    pub(crate) fn input_bytes(&self) -> usize {
        self.input.len()
    }

    /// What the kernel shall watch: whether there is input, whether there is room for output.
    pub(crate) fn wants(&self) -> (bool, bool) {
        let is_open = !self.is_ending && !self.is_last;
        let takes_input = is_open && !self.is_blocked && self.rest_until.is_none();
        (takes_input, self.is_blocked || self.socket.has_unsent())
    }

    /// Whether everything is done.
    pub(crate) fn has_ended(&self) -> bool {
        (self.is_ending || self.is_last && !self.is_ready) && self.output.is_empty()
    }

    /// Takes what has arrived, as much as the buffer holds; fails at the connection's end.
    pub(crate) fn receive(&mut self, buffer: &mut [u8]) -> std::io::Result<()> {
        match self.socket.read(buffer) {
            Ok(bytes) => {
                self.is_last = bytes == 0;
                self.input.extend_from_slice(&buffer[..bytes]);
                self.is_long |= self.input.len() > LONG;
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
            match self.socket.write(&self.output[self.sent..]) {
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
        // What TLS has to say by itself goes when there is room.
        match self.socket.flush() {
            Err(error) if error.kind() != ErrorKind::WouldBlock => Err(error),
            _ => Ok(()),
        }
    }

    /// Takes whole requests into a tick, and runs those that are of no key. The connection
    /// [goes on](Connection::consume) behind those that were done.
    pub(crate) fn gather<'r>(
        &'r mut self,
        tick: &mut TickSteps<'r>,
        databases: &mut Databases,
        shared: &GatewayState,
    ) -> Gathered<'r> {
        let Self {
            input,
            parser,
            output,
            choices,
            is_ending,
            rest_until,
            ..
        } = self;
        let by = tick.admit();
        let input: &'r [u8] = input;
        let mut requests = Requests {
            by,
            input,
            at: 0,
            parser,
            choices: &mut *choices,
            shared,
            databases,
            has_steps: false,
            answers: Vec::new(),
            is_ending: false,
            execution: None,
        };
        let (mut has_more, mut waits) = (false, false);
        while !requests.is_ending {
            has_more = requests.answers.len() >= REQUESTS_A_TICK;
            waits = tick.is_full();
            if has_more || waits || !requests.next(tick, &mut waits, &mut has_more) {
                break;
            }
        }
        if let Some(rest) = requests.choices.rest.take() {
            *rest_until = Some(Instant::now() + rest);
        }
        *is_ending = requests.is_ending;
        let (bytes, answers) = (requests.at, requests.answers);
        Gathered {
            by,
            input,
            parser: requests.parser,
            choices,
            output,
            answers,
            done: ConnectionOutcome {
                bytes,
                has_more: has_more || waits,
                waits,
                is_cut: waits && !tick.is_full(),
                replied: 0,
                commands: 0,
            },
        }
    }

    /// Forgets input that was done.
    pub(crate) fn consume(&mut self, done: ConnectionOutcome) {
        if done.bytes > 0 {
            self.since = Instant::now();
        }
        self.input.drain(..done.bytes);
        if self.input.is_empty() {
            self.input.shrink_to(64 << 10);
        }
        self.is_ready = done.has_more && !self.is_ending;
        let was_long = self.is_long && done.commands == 0;
        self.is_long = was_long || done.is_cut || done.bytes + done.replied > LONG;
    }

    /// Whether replies are to be sent now: there are enough, or nothing more to do.
    pub(crate) fn is_to_send(&self) -> bool {
        !self.output.is_empty() && (!self.is_ready || self.output.len() >= SEND_FROM)
    }

    /// Ends it with an error, whatever it has sent.
    pub(crate) fn refuse(&mut self, failure: Failure) {
        Reply::Error(failure).put(&mut self.output, SEND_FROM, self.choices.protocol);
        self.input = Vec::new();
        self.parser = RequestParser::default();
        self.is_ending = true;
        self.is_ready = false;
    }
}

/// Pages can make a browser send requests to any address of its machine. Where a header would
/// stand, commands of the page's choice can follow: so the connection ends at the first line.
fn is_of_a_browser(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b"post") || name.eq_ignore_ascii_case(b"host:")
}

/// What is known of a transaction while its commands are executed.
#[derive(Default)]
struct Execution {
    /// Whether a command has been run that may have changed keys.
    has_run: bool,
}

/// The requests of one connection in a tick.
struct Requests<'t, 'r> {
    /// The connection's number in the tick.
    by: usize,
    input: &'r [u8],
    /// How far its requests were taken.
    at: usize,
    parser: &'r mut RequestParser,
    choices: &'t mut Choices,
    shared: &'t GatewayState,
    databases: &'t mut Databases,
    /// Whether it has steps that were not run.
    has_steps: bool,
    answers: Vec<RequestAnswer<'r>>,
    is_ending: bool,
    /// What is known of the transaction whose commands these are; nothing outside of EXEC.
    execution: Option<Execution>,
}

impl<'r> Requests<'_, 'r> {
    /// Takes the next request; whether another may follow in this tick.
    fn next(&mut self, tick: &mut TickSteps<'r>, waits: &mut bool, has_more: &mut bool) -> bool {
        if self.choices.is_revoked() {
            self.is_ending = true;
            self.push(None, Answer::Ready(Reply::Error(Failure::NotAdmitted)));
            return false;
        }
        let is_unauthenticated = !self.choices.is_admitted;
        let limits = match is_unauthenticated {
            true => &UNAUTHENTICATED_LIMITS,
            false => &LIMITS,
        };
        let input = &self.input[self.at..];
        let bytes = match self.parser.read(input, limits, is_unauthenticated) {
            Ok(Progress::Whole(bytes)) => bytes,
            Ok(Progress::Unfinished) => return false,
            Ok(Progress::Skipped(bytes)) => {
                self.at += bytes;
                return false;
            }
            Ok(Progress::Refused(bytes, why)) => {
                self.parser.reset();
                self.choices.abort();
                self.push(None, Answer::Ready(Reply::Error(why.into())));
                self.at += bytes;
                return true;
            }
            // It is read again when the steps before it were run: then the connection ends.
            Err(_) if self.has_steps => {
                self.parser.reset();
                *has_more = true;
                return false;
            }
            Err(error) => {
                self.is_ending = true;
                self.push(None, Answer::Ready(Reply::Error(error.into())));
                return false;
            }
        };
        let arguments = self.parser.arguments().iter();
        let arguments: Vec<&'r [u8]> = arguments.map(|place| &input[place.clone()]).collect();
        self.parser.reset();
        if arguments.is_empty() {
            self.at += bytes;
            return true;
        }
        if is_of_a_browser(arguments[0]) {
            self.shared.counts.http.fetch_add(1, Relaxed);
            self.shared.notices.tell(Notice::Http, self.choices.peer);
            self.is_ending = true;
            return false;
        }
        let found = commands::find(&arguments);
        let command = found.as_ref().ok().map(|(number, _)| *number);
        let taken = match found {
            Ok((_, command)) => self.take(tick, &arguments, command, &input[..bytes]),
            Err(failure) => Err(self.refused(&arguments, failure).into()),
        };
        let answer = match taken {
            Ok(answer) => answer,
            Err(ExecutionStop::Failed(failure)) => Answer::Ready(Reply::Error(failure)),
            Err(why) => {
                *has_more = true;
                *waits |= matches!(why, ExecutionStop::Full);
                return false;
            }
        };
        self.push(command, answer);
        self.at += bytes;
        self.is_ending = self.choices.has_quit;
        *has_more = self.choices.rest.is_some();
        !*has_more
    }

    fn push(&mut self, command: Option<usize>, answer: Answer<'r>) {
        self.answers.push(RequestAnswer {
            answer,
            protocol: self.choices.protocol,
            command,
            from: self.at,
        });
    }

    /// Takes a request of these bytes into the tick.
    fn take(
        &mut self,
        tick: &mut TickSteps<'r>,
        arguments: &[&'r [u8]],
        command: &commands::Command,
        bytes: &'r [u8],
    ) -> Result<Answer<'r>, ExecutionStop> {
        if !self.choices.is_admitted && !command.is_open {
            return Err(Failure::NotAdmitted.into());
        }
        let now = tick.now;
        let database = self.choices.database;
        let request = (command.parse)(arguments, Moment { now });
        if self.is_queued(&request) {
            return self.enqueue(tick, command, &request, bytes);
        }
        let request = request?;
        if let Some(user) = &self.choices.user {
            user.check_request(command, database, &request)?;
        }
        Ok(match request {
            Request::One(key, step) => {
                tick.begin(self.by, 1)?;
                self.has_steps = true;
                Answer::Step(tick.push(database, key, step))
            }
            Request::Each(steps, join) => {
                tick.begin(self.by, steps.len())?;
                self.has_steps = true;
                let first = tick.len();
                for (key, step) in steps {
                    tick.push(database, key, step);
                }
                Answer::Steps(first..tick.len(), join)
            }
            Request::Keyspace(of) => self.run_on_keyspace(tick, database, &of, arguments)?,
            Request::Session(of) => {
                // Steps of a transaction are not cut.
                let may_be_cut = self.has_steps && self.execution.is_none();
                let is_later = may_be_cut && session::is_choice(&of);
                if is_later || self.choices.waits_before(&of, self.shared) {
                    return Err(ExecutionStop::Later);
                }
                let (reply, besides) = session::weight(&of);
                tick.take_besides(self.by, reply, besides)?;
                Answer::Ready(self.choices.run(of, self.shared, self.databases)?)
            }
            Request::Transaction(of) => self.transaction(tick, of)?,
        })
    }

    /// Runs the steps before a request that runs by itself.
    fn run_steps(&mut self, tick: &mut TickSteps<'r>) -> Result<(), ExecutionStop> {
        if !self.has_steps {
            return Ok(());
        }
        let watches = &self.shared.watches;
        let are_run = if let Some(execution) = &mut self.execution {
            let are_run = tick.run_transaction(self.databases, watches);
            execution.has_run |= are_run;
            are_run
        } else {
            tick.run(self.databases, watches);
            // If they are cut, they come before it in the next tick too.
            !tick.has_cut(self.by)
        };
        if !are_run {
            return Err(ExecutionStop::Full);
        }
        self.has_steps = false;
        Ok(())
    }

    /// Runs what concerns a whole database, behind everything that came before it.
    fn run_on_keyspace(
        &mut self,
        tick: &mut TickSteps<'r>,
        database: u8,
        of: &DatabaseCommand<'r>,
        arguments: &[&'r [u8]],
    ) -> Result<Answer<'r>, ExecutionStop> {
        let is_first = tick.is_empty() || self.execution.is_some();
        self.run_steps(tick)?;
        let room = tick.take_rest();
        let watches = &self.shared.watches;
        let waits = Instant::now();
        // EXEC holds the lock already. What takes back what it has put lets nobody come between:
        // what another has put since may be just like it.
        let takes_back = matches!(of, DatabaseCommand::SetAbsent(_));
        let locks = self.execution.is_none();
        let exclusive = (locks && takes_back).then(|| watches.exclusive());
        let shared = (locks && !takes_back).then(|| watches.shared());
        tick.note_apart(waits.elapsed());
        let since = Instant::now();
        let done = keyspace::run(self.databases, database, of, tick.now, room, watches);
        drop((exclusive, shared));
        let took = since.elapsed();
        tick.note_apart(took);
        if let Some(execution) = &mut self.execution {
            execution.has_run = true;
        }
        let used = match &done {
            Ok(Reply::Array(parts)) => parts.iter().map(Reply::bytes).sum(),
            Ok(reply) => reply.bytes(),
            Err(_) => 0,
        };
        tick.give_back(self.by, room, used);
        match done {
            Err(Failure::LongReply { .. }) if !is_first => Err(ExecutionStop::Full),
            done => {
                if self.shared.slow_log.is_slow(took) {
                    let Choices { peer, name, .. } = &*self.choices;
                    self.shared.slow_log.add(took, arguments, *peer, name);
                }
                Ok(Answer::Apart(done?))
            }
        }
    }
}
