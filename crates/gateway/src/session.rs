//! What a connection has chosen, and the commands that concern it or the gateway.

use crate::commands::{self, COMMANDS, Command, Session};
use crate::databases::{DATABASES, Databases};
use crate::failure::Failure;
use crate::record::Bytes;
use crate::reply::{OK, Protocol, Reply};
use crate::shared::Shared;
use std::sync::atomic::Ordering::Relaxed;

/// The version of Redis whose commands are spoken, as far as they are.
const REDIS_VERSION: &str = "7.0.0";

/// Bytes of the longest name of a client.
const LONGEST_NAME: usize = 1 << 10;

/// The choices of one connection.
#[derive(Debug)]
pub(crate) struct Choices {
    pub(crate) id: u64,
    pub(crate) database: u8,
    pub(crate) protocol: Protocol,
    /// Whether it has shown that it knows the secret, or there is none.
    pub(crate) is_admitted: bool,
    pub(crate) name: Vec<u8>,
    /// Whether the client has asked to end the connection.
    pub(crate) has_quit: bool,
}

impl Choices {
    pub(crate) fn new(shared: &Shared, id: u64) -> Self {
        Self {
            id,
            database: 0,
            protocol: Protocol::Resp2,
            is_admitted: shared.secret.is_none(),
            name: Vec::new(),
            has_quit: false,
        }
    }

    /// Does what a command of the connection asks for.
    pub(crate) fn run<'r>(
        &mut self,
        command: Session<'r>,
        shared: &Shared,
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
            Session::Info(sections) => Reply::Verbatim(crate::info::info(
                &sections,
                REDIS_VERSION,
                shared,
                databases,
            )?),
            Session::Time => time(),
            Session::CommandCount => Reply::Integer(COMMANDS.len() as i64),
            Session::CommandInfo(None) => Reply::Array(commands::all().map(described).collect()),
            Session::CommandInfo(Some(names)) => {
                let described = |name| named(name).map_or(Reply::Null, described);
                Reply::Array(names.into_iter().map(described).collect())
            }
            Session::CommandDocs(names) if names.is_empty() => docs(commands::all()),
            Session::CommandDocs(names) => docs(names.into_iter().filter_map(named)),
            Session::ClientId => Reply::Integer(self.id as i64),
            Session::ClientName if self.name.is_empty() => Reply::Null,
            Session::ClientName => Reply::Bulk(Bytes::copied(&self.name)),
            Session::ClientSetName(name) => {
                self.set_name(name)?;
                OK
            }
            Session::ClientSetInfo => OK,
        })
    }

    /// There is one user, `default`, and one secret.
    fn admit(
        &mut self,
        user: Option<&[u8]>,
        secret: &[u8],
        shared: &Shared,
    ) -> Result<(), Failure> {
        let is_default = user.is_none_or(|user| user == b"default");
        let is_right = match &shared.secret {
            None if user.is_none() => return Err(Failure::NoSecret),
            // As Redis's default user without a password.
            None => is_default,
            Some(right) => right.is(secret) && is_default,
        };
        if !is_right {
            shared.counts.refused.fetch_add(1, Relaxed);
            return Err(Failure::WrongSecret);
        }
        self.is_admitted = true;
        Ok(())
    }

    fn set_name(&mut self, name: &[u8]) -> Result<(), Failure> {
        let is_plain = name.iter().all(|byte| (b'!'..=b'~').contains(byte));
        if !is_plain || name.len() > LONGEST_NAME {
            return Err(Failure::ClientName);
        }
        self.name = name.to_vec();
        Ok(())
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

/// Seconds since 1970, and the microseconds of the next one.
fn time() -> Reply<'static> {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let since = since.unwrap_or_default();
    let parts = [since.as_secs(), u64::from(since.subsec_micros())];
    Reply::Array(parts.map(|part| Reply::text(part.to_string())).into())
}

fn named(name: &[u8]) -> Option<&'static Command> {
    let name = name.to_ascii_lowercase();
    let known = COMMANDS.get(std::str::from_utf8(&name).ok()?);
    known.map(|(_, command)| *command)
}

/// A command as COMMAND INFO tells it.
fn described(command: &'static Command) -> Reply<'static> {
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

fn docs(commands: impl Iterator<Item = &'static Command>) -> Reply<'static> {
    let docs = commands.map(|command| {
        let summary = ("summary", Reply::text(command.summary));
        (command.name, Reply::Map(vec![summary]))
    });
    Reply::Map(docs.collect())
}
