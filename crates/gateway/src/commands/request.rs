//! What requests mean, and what a command is.

use crate::failure::Failure;
use crate::number;
use crate::step::Step;

/// What a request asks for.
#[derive(Clone, Debug)]
pub(crate) enum Request<'r> {
    /// One key; its step's reply is the reply.
    One(&'r [u8], Step<'r>),
    /// Several keys.
    Each(Vec<(&'r [u8], Step<'r>)>, ReplyJoin),
    /// What concerns several keys together or a whole database.
    Keyspace(DatabaseCommand<'r>),
    /// What concerns the connection or the gateway, and no key.
    Session(Session<'r>),
    /// What begins or ends a transaction, or is a condition of one.
    Transaction(Transaction<'r>),
}

/// How the replies of several steps become one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ReplyJoin {
    /// Each of them.
    Array,
    /// Their sum.
    Sum,
    /// OK.
    Status,
}

/// A command on a whole database, or on several keys together.
#[derive(Clone, Debug)]
pub(crate) enum DatabaseCommand<'r> {
    /// Sets all of them, or none if one is there.
    SetAbsent(Vec<(&'r [u8], &'r [u8])>),
    Scan {
        cursor: u64,
        count: u64,
        pattern: Option<&'r [u8]>,
        /// Whether keys of type string are asked for: all that there are.
        strings: bool,
    },
    Keys(&'r [u8]),
    RandomKey,
    Size,
    Flush {
        all: bool,
    },
}

#[derive(Clone, Debug)]
pub(crate) enum Session<'r> {
    Ping(Option<&'r [u8]>),
    Echo(&'r [u8]),
    Hello {
        version: Option<i64>,
        secret: Option<(&'r [u8], &'r [u8])>,
        name: Option<&'r [u8]>,
    },
    Auth {
        user: Option<&'r [u8]>,
        secret: &'r [u8],
    },
    Select(i64),
    Quit,
    Reset,
    Info(Vec<&'r [u8]>),
    Time,
    CommandCount,
    CommandInfo(Option<Vec<&'r [u8]>>),
    CommandDocs(Vec<&'r [u8]>),
    ClientId,
    ClientName,
    ClientSetName(&'r [u8]),
    ClientSetInfo,
    WhoAmI,
    /// The latest ones, so many.
    SlowLogGet(usize),
    SlowLogLen,
    SlowLogReset,
}

/// What the parsing of arguments needs to know besides.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    /// Milliseconds since 1970.
    pub(crate) now: u64,
}

#[derive(Clone, Debug)]
pub(crate) enum Transaction<'r> {
    Multi,
    Exec,
    Discard,
    Watch(Vec<&'r [u8]>),
    Unwatch,
}

type Parse = for<'r> fn(&[&'r [u8]], Moment) -> Result<Request<'r>, Failure>;

/// A command.
pub(crate) struct Command {
    /// In small letters.
    pub(crate) name: &'static str,
    /// Arguments with the name: exactly so many, or at least if negative. As COMMAND tells it.
    pub(crate) arity: i64,
    pub(crate) flags: &'static [&'static str],
    /// The first key, the last one (from the end if negative), and the step between them.
    pub(crate) keys: (i64, i64, i64),
    pub(crate) summary: &'static str,
    /// Whether a client needs no secret for it.
    pub(crate) is_open: bool,
    pub(crate) parse: Parse,
}

/// Whether an argument is this word, in whatever letters.
pub(super) fn is(argument: &[u8], word: &str) -> bool {
    argument.eq_ignore_ascii_case(word.as_bytes())
}

pub(super) fn integer(argument: &[u8]) -> Result<i64, Failure> {
    number::integer(argument).ok_or(Failure::NoInteger)
}

pub(super) fn shown(argument: &[u8]) -> String {
    String::from_utf8_lossy(&argument[..argument.len().min(128)]).into_owned()
}
