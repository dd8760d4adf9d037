//! What a connection has chosen, and the commands that concern it or the gateway.

use crate::commands::{self, Command, Session};
use crate::databases::{DATABASES, Databases};
use crate::failure::Failure;
use crate::record::Bytes;
use crate::reply::{OK, Protocol, Reply};
use crate::revocable::Revocable;
use crate::shared::{GatewayState, Notice};
use crate::slow_log;
use crate::transaction::Queue;
use crate::users::{User, proved};
use crate::watch::WatchList;
use farslot::admission::DEFAULT_GRANT;
use farslot::admission::Secret;
use farslot::metrics::RecentLog;
use std::net::SocketAddr;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

/// The version of Redis whose commands are spoken, as far as they are.
const REDIS_VERSION: &str = "7.0.0";

/// Bytes of the longest name of a client.
const LONGEST_NAME: usize = 1 << 10;
/// How long a connection rests after a wrong secret, for each that its address has given lately.
const A_GUESS: Duration = Duration::from_millis(100);
/// For no more than so many.
const MOST_RESTS: u32 = 20;
/// Bytes of what INFO says at the most.
const LONGEST_INFO: usize = 4 << 10;

/// The choices of one connection.
#[derive(Debug)]
pub(crate) struct Choices {
    pub(crate) id: u64,
    pub(crate) database: u8,
    pub(crate) protocol: Protocol,
    /// Whether it has shown that it knows the secret, or there is none.
    pub(crate) is_admitted: bool,
    /// Who it is; nothing if it is `default`, who may do everything.
    pub(crate) user: Option<Arc<Revocable<User>>>,
    /// The secret that it has given as `default`.
    secret: Option<Arc<Revocable<Secret>>>,
    pub(crate) name: Vec<u8>,
    /// Whether the client has asked to end the connection.
    pub(crate) has_quit: bool,
    pub(crate) peer: Option<SocketAddr>,
    /// Whether it has waited before its first secret was looked at, or had not to.
    has_waited: bool,
    /// How long nothing more is done, because a secret was wrong.
    pub(crate) rest: Option<Duration>,
    /// The commands since MULTI, in a transaction.
    pub(crate) queue: Option<Queue>,
    pub(crate) watched: WatchList,
}

impl Choices {
    pub(crate) fn new(shared: &GatewayState, id: u64, peer: Option<SocketAddr>) -> Self {
        Self {
            id,
            database: 0,
            protocol: Protocol::Resp2,
            is_admitted: !shared.needs_secret,
            secret: None,
            user: None,
            name: Vec::new(),
            has_quit: false,
            peer,
            has_waited: false,
            rest: None,
            queue: None,
            watched: WatchList::none(Arc::clone(&shared.watches)),
        }
    }

    /// Bytes that it keeps for transactions.
    pub(crate) fn held(&self) -> usize {
        self.queue.as_ref().map_or(0, Queue::held) + self.watched.held()
    }

    /// Has EXEC do nothing, if this is in a transaction.
    pub(crate) fn abort(&mut self) {
        if let Some(queue) = &mut self.queue {
            queue.abort();
        }
    }

    /// Forgets the transaction and the watched keys.
    pub(crate) fn discard(&mut self) {
        self.queue = None;
        self.watched.clear();
    }

    /// Does what a command of the connection asks for.
    pub(crate) fn run<'r>(
        &mut self,
        command: Session<'r>,
        shared: &GatewayState,
        databases: &mut Databases,
    ) -> Result<Reply<'r>, Failure> {
        Ok(match command {
            Session::Ping(None) => Reply::Status("PONG"),
            Session::Ping(Some(text)) | Session::Echo(text) => Reply::Bulk(Bytes::Given(text)),
            Session::Hello {
                version,
                secret,
                name,
            } => {
                if let Some((user, secret)) = secret {
                    self.admit(Some(user), secret, shared)?;
                }
                if !self.is_admitted {
                    return Err(Failure::HelloWithoutSecret);
                }
                if let Some(name) = name {
                    self.set_name(name)?;
                }
                match version {
                    Some(2) => self.protocol = Protocol::Resp2,
                    Some(_) => self.protocol = Protocol::Resp3,
                    None => {}
                }
                self.hello()
            }
            Session::Auth { user, secret } => {
                self.admit(user, secret, shared)?;
                OK
            }
            Session::Select(number) => {
                let number = u8::try_from(number).ok();
                let number = number.filter(|number| *number < DATABASES);
                self.database = number.ok_or(Failure::NoDatabase)?;
                OK
            }
            Session::Quit => {
                self.has_quit = true;
                OK
            }
            Session::Reset => {
                let new = Self::new(shared, self.id, self.peer);
                let has_waited = self.has_waited;
                *self = Self { has_waited, ..new };
                Reply::Status("RESET")
            }
            Session::Info(sections) => Reply::Verbatim(crate::info::info(
                &sections,
                REDIS_VERSION,
                shared,
                databases,
                |database| {
                    self.user
                        .as_ref()
                        .is_none_or(|user| user.opens_all_of(database))
                },
            )?),
            Session::Time => time(),
            Session::CommandCount => Reply::Integer(DESCRIBED.len() as i64),
            Session::CommandInfo(None) => Reply::Array(DESCRIBED.iter().map(info).collect()),
            Session::CommandInfo(Some(names)) => {
                let described = |name| named(name).map_or(Reply::Null, info);
                Reply::Array(names.into_iter().map(described).collect())
            }
            Session::CommandDocs(names) if names.is_empty() => self.docs(DESCRIBED.iter()),
            Session::CommandDocs(names) => self.docs(names.into_iter().filter_map(named)),
            Session::ClientId => Reply::Integer(self.id as i64),
            Session::ClientName if self.name.is_empty() => Reply::Null,
            Session::ClientName => Reply::Bulk(Bytes::copied(&self.name)),
            Session::ClientSetName(name) => {
                self.set_name(name)?;
                OK
            }
            Session::ClientSetInfo => OK,
            Session::SlowLogGet(count) => shared.slow_log.latest(count),
            Session::SlowLogLen => Reply::Integer(shared.slow_log.len() as i64),
            Session::SlowLogReset => {
                shared.slow_log.reset();
                OK
            }
            Session::WhoAmI => {
                let user = self.user.as_ref().map(|user| user.name());
                Reply::text(user.unwrap_or(DEFAULT_GRANT))
            }
        })
    }

    /// Has it be another user from now on, if the secret is that user's.
    fn admit(
        &mut self,
        user: Option<&[u8]>,
        secret: &[u8],
        shared: &GatewayState,
    ) -> Result<(), Failure> {
        let other = user.filter(|user| *user != DEFAULT_GRANT.as_bytes());
        let proved = match (other, shared.needs_secret) {
            (Some(name), _) => proved(&shared.users, name, secret).map(|user| (Some(user), None)),
            (None, false) if user.is_none() => return Err(Failure::NoSecret),
            // As Redis's default user without a password.
            (None, false) => Some((None, None)),
            (None, true) => {
                let known = shared.secrets.find(|right| right.is(secret));
                known.map(|secret| (None, Some(secret)))
            }
        };
        let Some((user, secret)) = proved else {
            shared.counts.refused.fetch_add(1, Relaxed);
            let address = self.peer.map(|peer| peer.ip());
            let wrong = address.map_or(1, |address| shared.guessers.note(address));
            self.rest = Some(rest_after(wrong));
            // One address that guesses on and on shall not have all the lines.
            if wrong.is_power_of_two() {
                shared.notices.tell(Notice::WrongSecret(wrong), self.peer);
            }
            return Err(Failure::WrongSecret);
        };
        if let Some(user) = &user {
            user.check()?;
        }
        (self.user, self.secret) = (user, secret);
        self.is_admitted = true;
        Ok(())
    }

    /// Whether what it was admitted by was revoked.
    pub(crate) fn is_revoked(&self) -> bool {
        self.user.as_ref().is_some_and(|user| user.is_revoked())
            || self
                .secret
                .as_ref()
                .is_some_and(|secret| secret.is_revoked())
    }

    /// Whether it waits before a secret of its is looked at: wrong ones have come from its address
    /// lately, perhaps by other connections, so that it may guess no sooner for being a new one.
    pub(crate) fn waits_before(&mut self, session: &Session<'_>, shared: &GatewayState) -> bool {
        let gives_secret = matches!(
            session,
            Session::Auth { .. }
                | Session::Hello {
                    secret: Some(_),
                    ..
                }
        );
        // Where there is no secret, nobody has given one to be admitted.
        let has_given = self.is_admitted && shared.needs_secret;
        if has_given || !gives_secret || std::mem::replace(&mut self.has_waited, true) {
            return false;
        }
        let address = self.peer.map(|peer| peer.ip());
        let wrong = address.map_or(0, |address| shared.guessers.wrong_secrets_of(address));
        self.rest = (wrong > 0).then(|| rest_after(wrong));
        wrong > 0
    }

    fn set_name(&mut self, name: &[u8]) -> Result<(), Failure> {
        let is_plain = name.iter().all(|byte| (b'!'..=b'~').contains(byte));
        if !is_plain || name.len() > LONGEST_NAME {
            return Err(Failure::ClientName);
        }
        self.name = name.to_vec();
        Ok(())
    }

    /// The documentation of commands, each with its name.
    fn docs(&self, commands: impl Iterator<Item = &'static Described>) -> Reply<'static> {
        let docs = commands.map(|of| (of.name, Reply::Encoded(&of.docs[self.protocol as usize])));
        Reply::Map(docs.collect())
    }

    fn hello(&self) -> Reply<'static> {
        Reply::Map(vec![
            ("server", Reply::text("farslot")),
            ("version", Reply::text(REDIS_VERSION)),
            ("proto", Reply::Integer(self.protocol.version())),
            ("id", Reply::Integer(self.id as i64)),
            ("mode", Reply::text("standalone")),
            ("role", Reply::text("master")),
            ("modules", Reply::Array(Vec::new())),
        ])
    }
}

/// How long a connection rests whose address has given so many wrong secrets lately.
fn rest_after(wrong_secrets: u32) -> Duration {
    A_GUESS * wrong_secrets.min(MOST_RESTS)
}

/// Seconds since 1970, and the microseconds of the next one.
fn time() -> Reply<'static> {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let since = since.unwrap_or_default();
    let parts = [since.as_secs(), u64::from(since.subsec_micros())];
    Reply::Array(parts.map(|part| Reply::text(part.to_string())).into())
}

/// What COMMAND says of a command, as bytes of the protocol: clients ask for tens of thousands in
/// one request.
struct Described {
    name: &'static str,
    info: Vec<u8>,
    /// In either protocol.
    docs: [Vec<u8>; 2],
}

/// All of them, by their numbers.
static DESCRIBED: LazyLock<Vec<Described>> = LazyLock::new(|| {
    let described = commands::all().map(|command| Described {
        name: command.name,
        info: described(command).encoded(Protocol::Resp2),
        docs: [Protocol::Resp2, Protocol::Resp3].map(|protocol| docs(command).encoded(protocol)),
    });
    described.collect()
});

/// Bytes that COMMAND says of a command at the most.
static LONGEST_DESCRIPTION: LazyLock<usize> = LazyLock::new(|| {
    let bytes = |of: &Described| of.info.len().max(of.docs[0].len().max(of.docs[1].len()));
    let longest = DESCRIBED.iter().map(bytes).max();
    // A name with its head is written before documentation.
    longest.unwrap_or(0) + 32
});

fn named(name: &[u8]) -> Option<&'static Described> {
    let (number, _) = commands::named(name)?;
    Some(&DESCRIBED[number])
}

const fn info(of: &'static Described) -> Reply<'static> {
    Reply::Encoded(of.info.as_slice())
}

/// Bytes of a reply to it at the most, and bytes that it takes until then.
pub(crate) fn weight(session: &Session<'_>) -> (usize, usize) {
    let described = |count: usize| {
        let part = size_of::<(&str, Reply<'_>)>();
        (count * *LONGEST_DESCRIPTION, count * part)
    };
    match session {
        Session::Ping(Some(text)) | Session::Echo(text) => (text.len(), 0),
        Session::CommandInfo(Some(names)) => described(names.len()),
        Session::CommandDocs(names) => described(names.len().max(DESCRIBED.len())),
        Session::CommandInfo(None) => described(DESCRIBED.len()),
        Session::SlowLogGet(count) => {
            let bytes = (slow_log::LONGEST + LONGEST_NAME) * (*count).min(RecentLog::<()>::MOST);
            (bytes, bytes)
        }
        Session::Info(_) => (LONGEST_INFO, LONGEST_INFO),
        _ => (LONGEST_NAME, 0),
    }
}

/// Whether it changes what later requests of the connection mean.
pub(crate) const fn is_choice(session: &Session<'_>) -> bool {
    matches!(
        session,
        Session::Hello { .. }
            | Session::Auth { .. }
            | Session::Select(_)
            | Session::ClientSetName(_)
            | Session::Quit
            | Session::Reset
    )
}

/// A command as COMMAND INFO tells it.
fn described(command: &Command) -> Reply<'static> {
    let (first, last, step) = command.keys;
    let flags = command.flags.iter().map(|flag| Reply::Status(flag));
    let none = || Reply::Array(Vec::new());
    Reply::Array(vec![
        Reply::text(command.name),
        Reply::Integer(command.arity),
        Reply::Array(flags.collect()),
        Reply::Integer(first),
        Reply::Integer(last),
        Reply::Integer(step),
        // Categories of access rights, tips, key specifications, subcommands.
        none(),
        none(),
        none(),
        none(),
    ])
}

/// A command as COMMAND DOCS tells it, behind its name.
fn docs(command: &Command) -> Reply<'static> {
    Reply::Map(vec![("summary", Reply::text(command.summary))])
}
