//! What concerns the connection, the gateway, or a whole database.

use super::request::{Command, DatabaseCommand, Moment, Request, Session, integer, is, shown};
use crate::failure::Failure;
use crate::{glob, number};

type ParsedServerCommand<'r> = Result<Request<'r>, Failure>;

const OPEN: &[&str] = &["noscript", "loading", "stale", "fast", "no_auth"];
const FAST: &[&str] = &["loading", "stale", "fast"];
const ADMIN: &[&str] = &["loading", "stale"];
const READ: &[&str] = &["readonly"];
const WRITE: &[&str] = &["write"];

macro_rules! commands {
    ($($name:literal $arity:literal $flags:ident $is_open:literal, $parse:expr, $summary:literal;)*) => {
        pub(super) const COMMANDS: &[Command] = &[$(Command {
            name: $name,
            arity: $arity,
            flags: $flags,
            keys: (0, 0, 0),
            summary: $summary,
            is_open: $is_open,
            parse: $parse,
        }),*];
    };
}

commands! {
    "ping" -1 FAST false, ping, "Answers PONG, or with the argument.";
    "echo" 2 FAST false, |a, _| session(Session::Echo(a[1])), "Answers with the argument.";
    "hello" -1 OPEN true, hello, "Chooses the protocol, and says who answers.";
    "auth" -2 OPEN true, auth, "Shows that the client knows the secret.";
    "select" 2 FAST false, |a, _| session(Session::Select(integer(a[1])?)), "Chooses the database of this connection.";
    "quit" -1 OPEN true, |_, _| session(Session::Quit), "Ends the connection.";
    "reset" 1 OPEN true, |_, _| session(Session::Reset), "Makes this connection as a new one.";
    "info" -1 ADMIN false, |a, _| session(Session::Info(a[1..].to_vec())), "Says what the gateway does.";
    "time" 1 FAST false, |_, _| session(Session::Time), "Returns the time since 1970.";
    "command" -1 ADMIN false, command, "Lists the commands.";
    "client" -2 ADMIN false, client, "Names this connection, and tells its number.";
    "acl" -2 ADMIN false, acl, "Says which user this connection is of.";
    "slowlog" -2 ADMIN false, slow_log, "Tells of requests that have taken long.";
    "scan" -2 READ false, scan, "Returns some keys, and where to go on.";
    "keys" 2 READ false, |a, _| keyspace(DatabaseCommand::Keys(pattern_of(a[1])?)), "Returns all keys that match a pattern.";
    "randomkey" 1 READ false, |_, _| keyspace(DatabaseCommand::RandomKey), "Returns some key.";
    "dbsize" 1 READ false, |_, _| keyspace(DatabaseCommand::Size), "Counts the keys.";
    "flushdb" -1 WRITE false, |a, _| flush(a, false), "Removes all keys of a database.";
    "flushall" -1 WRITE false, |a, _| flush(a, true), "Removes all keys of all databases.";
}

fn session(session: Session<'_>) -> ParsedServerCommand<'_> {
    Ok(Request::Session(session))
}

fn keyspace(command: DatabaseCommand<'_>) -> ParsedServerCommand<'_> {
    Ok(Request::Keyspace(command))
}

fn ping<'r>(arguments: &[&'r [u8]], _: Moment) -> ParsedServerCommand<'r> {
    if arguments.len() > 2 {
        return Err(Failure::Arity("ping".into()));
    }
    session(Session::Ping(arguments.get(1).copied()))
}

fn hello<'r>(arguments: &[&'r [u8]], _: Moment) -> ParsedServerCommand<'r> {
    let version = match arguments.get(1) {
        None => None,
        Some(text) => Some(number::integer(text).ok_or(Failure::NoProtocolVersion)?),
    };
    if version.is_some_and(|version| !(2..=3).contains(&version)) {
        return Err(Failure::ProtocolVersion);
    }
    let (mut secret, mut name) = (None, None);
    let mut options = arguments.iter().skip(2);
    while let Some(option) = options.next() {
        let mut next = || {
            options
                .next()
                .ok_or_else(|| Failure::HelloOption(shown(option)))
        };
        if is(option, "auth") {
            secret = Some((*next()?, *next()?));
        } else if is(option, "setname") {
            name = Some(*next()?);
        } else {
            return Err(Failure::HelloOption(shown(option)));
        }
    }
    session(Session::Hello {
        version,
        secret,
        name,
    })
}

fn auth<'r>(arguments: &[&'r [u8]], _: Moment) -> ParsedServerCommand<'r> {
    session(match arguments {
        [_, secret] => Session::Auth { user: None, secret },
        [_, user, secret] => Session::Auth {
            user: Some(user),
            secret,
        },
        _ => return Err(Failure::Syntax),
    })
}

fn command<'r>(arguments: &[&'r [u8]], _: Moment) -> ParsedServerCommand<'r> {
    let Some(subcommand) = arguments.get(1) else {
        return session(Session::CommandInfo(None));
    };
    let names = arguments[2..].to_vec();
    session(match subcommand {
        _ if is(subcommand, "count") && names.is_empty() => Session::CommandCount,
        _ if is(subcommand, "count") => {
            return Err(Failure::Arity("command|count".into()));
        }
        _ if is(subcommand, "info") && names.is_empty() => Session::CommandInfo(None),
        _ if is(subcommand, "info") => Session::CommandInfo(Some(names)),
        _ if is(subcommand, "docs") => Session::CommandDocs(names),
        _ => return Err(unknown("COMMAND", subcommand)),
    })
}

fn client<'r>(arguments: &[&'r [u8]], _: Moment) -> ParsedServerCommand<'r> {
    let given = arguments.len();
    let known = [("id", 2), ("getname", 2), ("setname", 3), ("setinfo", 4)];
    let found = known.into_iter().find(|(name, _)| is(arguments[1], name));
    let Some((name, arity)) = found else {
        return Err(unknown("CLIENT", arguments[1]));
    };
    if given != arity {
        return Err(Failure::Arity(format!("client|{name}")));
    }
    session(match name {
        "id" => Session::ClientId,
        "getname" => Session::ClientName,
        "setname" => Session::ClientSetName(arguments[2]),
        _ => Session::ClientSetInfo,
    })
}

fn acl<'r>(arguments: &[&'r [u8]], _: Moment) -> ParsedServerCommand<'r> {
    match arguments {
        [_, subcommand] if is(subcommand, "whoami") => session(Session::WhoAmI),
        [_, subcommand, ..] if is(subcommand, "whoami") => Err(Failure::Arity("acl|whoami".into())),
        _ => Err(unknown("ACL", arguments[1])),
    }
}

fn slow_log<'r>(arguments: &[&'r [u8]], _: Moment) -> ParsedServerCommand<'r> {
    /// How many are told of if no number is given, as in Redis.
    const LATEST: usize = 10;
    let subcommand = arguments[1];
    let arity = |name: &str| Err(Failure::Arity(format!("slowlog|{name}")));
    session(match arguments.len() {
        2 if is(subcommand, "get") => Session::SlowLogGet(LATEST),
        3 if is(subcommand, "get") => Session::SlowLogGet(match integer(arguments[2])? {
            -1 => usize::MAX,
            count => usize::try_from(count).map_err(|_| Failure::SlowLogCount)?,
        }),
        2 if is(subcommand, "len") => Session::SlowLogLen,
        2 if is(subcommand, "reset") => Session::SlowLogReset,
        _ if is(subcommand, "get") => return arity("get"),
        _ if is(subcommand, "len") => return arity("len"),
        _ if is(subcommand, "reset") => return arity("reset"),
        _ => return Err(unknown("SLOWLOG", subcommand)),
    })
}

fn unknown(command: &'static str, name: &[u8]) -> Failure {
    let name = shown(name);
    Failure::UnknownSubcommand { command, name }
}

/// A pattern that is not too long.
fn pattern_of(pattern: &[u8]) -> Result<&[u8], Failure> {
    let (bytes, limit) = (pattern.len(), glob::LONGEST);
    match bytes <= limit {
        true => Ok(pattern),
        false => Err(Failure::LongPattern { bytes, limit }),
    }
}

fn scan<'r>(arguments: &[&'r [u8]], _: Moment) -> ParsedServerCommand<'r> {
    let cursor = std::str::from_utf8(arguments[1]).ok();
    let cursor = cursor.and_then(|cursor| cursor.parse().ok());
    let cursor = cursor.ok_or(Failure::Cursor)?;
    let (mut count, mut pattern, mut strings) = (10, None, true);
    let (options, rest) = arguments[2..].as_chunks::<2>();
    if !rest.is_empty() {
        return Err(Failure::Syntax);
    }
    for [option, of] in options {
        if is(option, "count") {
            let wanted = u64::try_from(integer(of)?).unwrap_or(0);
            if wanted == 0 {
                return Err(Failure::Syntax);
            }
            count = wanted;
        } else if is(option, "match") {
            pattern = Some(pattern_of(of)?);
        } else if is(option, "type") {
            strings = is(of, "string");
        } else {
            return Err(Failure::Syntax);
        }
    }
    keyspace(DatabaseCommand::Scan {
        cursor,
        count,
        pattern,
        strings,
    })
}

fn flush<'r>(arguments: &[&'r [u8]], all: bool) -> ParsedServerCommand<'r> {
    match arguments {
        [_] => keyspace(DatabaseCommand::Flush { all }),
        [_, how] if is(how, "sync") || is(how, "async") => keyspace(DatabaseCommand::Flush { all }),
        _ => Err(Failure::Syntax),
    }
}
