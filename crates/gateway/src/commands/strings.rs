//! Strings: setting, getting, counting; and keys as such.

use super::expiry::{ExpiryOption, Unit};
use super::request::{Command, DatabaseCommand, Moment, ReplyJoin, Request, integer, is};
use crate::failure::Failure;
use crate::number;
use crate::step::{ExpiryChange, Set, SetOnly, SetReply, Step, check_length};

type ParsedStringCommand<'r> = Result<Request<'r>, Failure>;
/// Keys, each with its value.
type Pairs<'r> = Vec<(&'r [u8], &'r [u8])>;

const WRITE: &[&str] = &["write", "denyoom"];
const FAST_WRITE: &[&str] = &["write", "denyoom", "fast"];
const REMOVAL: &[&str] = &["write", "fast"];
const READ: &[&str] = &["readonly"];
const FAST_READ: &[&str] = &["readonly", "fast"];
const ONE: (i64, i64, i64) = (1, 1, 1);
const ALL: (i64, i64, i64) = (1, -1, 1);
const PAIRS: (i64, i64, i64) = (1, -1, 2);

macro_rules! commands {
    ($($name:literal $arity:literal $flags:ident $keys:expr, $parse:expr, $summary:literal;)*) => {
        pub(super) const COMMANDS: &[Command] = &[$(Command {
            name: $name,
            arity: $arity,
            flags: $flags,
            keys: $keys,
            summary: $summary,
            is_open: false,
            parse: $parse,
        }),*];
    };
}

commands! {
    "get" 2 FAST_READ ONE, |a, _| one(a, Step::Get), "Returns the value of a key.";
    "set" -3 WRITE ONE, set, "Sets the value of a key, on conditions and with an expiry if asked for.";
    "setnx" 3 FAST_WRITE ONE, set_absent, "Sets the value of a key that is absent.";
    "setex" 4 WRITE ONE, |a, m| set_expiring(a, m, Unit::Seconds, "setex"), "Sets the value and the expiry of a key.";
    "psetex" 4 WRITE ONE, |a, m| set_expiring(a, m, Unit::Millis, "psetex"), "Sets the value and the expiry of a key, in milliseconds.";
    "getset" 3 FAST_WRITE ONE, get_set, "Sets the value of a key and returns the one before.";
    "getdel" 2 REMOVAL ONE, |a, _| one(a, Step::GetDelete), "Returns the value of a key and removes the key.";
    "getex" -2 REMOVAL ONE, get_expire, "Returns the value of a key and changes its expiry.";
    "mget" -2 FAST_READ ALL, |a, _| each(a, Step::Get, ReplyJoin::Array), "Returns the values of several keys.";
    "mset" -3 WRITE PAIRS, set_many, "Sets the values of several keys.";
    "msetnx" -3 WRITE PAIRS, set_many_absent, "Sets the values of several keys if all are absent.";
    "del" -2 REMOVAL ALL, |a, _| each(a, Step::Delete, ReplyJoin::Sum), "Removes keys.";
    "unlink" -2 REMOVAL ALL, |a, _| each(a, Step::Delete, ReplyJoin::Sum), "Removes keys, as DEL.";
    "exists" -2 FAST_READ ALL, |a, _| each(a, Step::Exists, ReplyJoin::Sum), "Counts the keys that are there.";
    "touch" -2 FAST_READ ALL, |a, _| each(a, Step::Exists, ReplyJoin::Sum), "Counts the keys that are there.";
    "type" 2 FAST_READ ONE, |a, _| one(a, Step::Type), "Returns the type of a key: string or none.";
    "strlen" 2 FAST_READ ONE, |a, _| one(a, Step::Length), "Returns the length of a value.";
    "append" 3 FAST_WRITE ONE, |a, _| one(a, Step::Append(a[2])), "Appends to a value.";
    "getrange" 4 READ ONE, get_range, "Returns a part of a value.";
    "substr" 4 READ ONE, get_range, "Returns a part of a value, as GETRANGE.";
    "setrange" 4 WRITE ONE, set_range, "Overwrites a part of a value.";
    "incr" 2 FAST_WRITE ONE, |a, _| one(a, Step::Add(1)), "Adds one to a number.";
    "decr" 2 FAST_WRITE ONE, |a, _| one(a, Step::Add(-1)), "Takes one from a number.";
    "incrby" 3 FAST_WRITE ONE, |a, _| one(a, Step::Add(integer(a[2])?)), "Adds to a number.";
    "decrby" 3 FAST_WRITE ONE, subtract, "Takes from a number.";
    "incrbyfloat" 3 FAST_WRITE ONE, add_float, "Adds to a number with a fraction.";
}

fn one<'r>(arguments: &[&'r [u8]], step: Step<'r>) -> ParsedStringCommand<'r> {
    Ok(Request::One(arguments[1], step))
}

/// The same step on each key.
fn each<'r>(arguments: &[&'r [u8]], step: Step<'r>, join: ReplyJoin) -> ParsedStringCommand<'r> {
    if let [_, key] = arguments
        && join == ReplyJoin::Sum
    {
        return Ok(Request::One(key, step));
    }
    let steps = arguments[1..].iter().map(|key| (*key, step.clone()));
    Ok(Request::Each(steps.collect(), join))
}

/// A value that is not longer than the gateway's tables hold.
fn value(value: &[u8]) -> Result<&[u8], Failure> {
    check_length(Some(value.len()))?;
    Ok(value)
}

fn set<'r>(arguments: &[&'r [u8]], moment: Moment) -> ParsedStringCommand<'r> {
    let mut set = Set::to(value(arguments[2])?);
    let mut given = ExpiryOption::default();
    let mut options = arguments[3..].iter();
    while let Some(option) = options.next() {
        let only = match option {
            option if is(option, "nx") => Some(SetOnly::IfAbsent),
            option if is(option, "xx") => Some(SetOnly::IfPresent),
            _ => None,
        };
        if let Some(only) = only {
            if set.only.is_some_and(|before| before != only) {
                return Err(Failure::Syntax);
            }
            set.only = Some(only);
        } else if is(option, "get") {
            set.reply = SetReply::Previous;
        } else {
            given.take(option, &mut options, "keepttl")?;
        }
    }
    set.expiry = given.expiry(moment, "set", [ExpiryChange::Never, ExpiryChange::Keep])?;
    one(arguments, Step::Set(set))
}

fn set_absent<'r>(arguments: &[&'r [u8]], _: Moment) -> ParsedStringCommand<'r> {
    let set = Set {
        only: Some(SetOnly::IfAbsent),
        reply: SetReply::Flag,
        ..Set::to(value(arguments[2])?)
    };
    one(arguments, Step::Set(set))
}

fn set_expiring<'r>(
    arguments: &[&'r [u8]],
    moment: Moment,
    unit: Unit,
    command: &'static str,
) -> ParsedStringCommand<'r> {
    let set = Set {
        expiry: ExpiryChange::At(unit.after(moment, integer(arguments[2])?, command)?),
        ..Set::to(value(arguments[3])?)
    };
    one(arguments, Step::Set(set))
}

fn get_set<'r>(arguments: &[&'r [u8]], _: Moment) -> ParsedStringCommand<'r> {
    let set = Set {
        reply: SetReply::Previous,
        ..Set::to(value(arguments[2])?)
    };
    one(arguments, Step::Set(set))
}

fn get_expire<'r>(arguments: &[&'r [u8]], moment: Moment) -> ParsedStringCommand<'r> {
    let mut options = arguments[2..].iter();
    let mut given = ExpiryOption::default();
    while let Some(option) = options.next() {
        given.take(option, &mut options, "persist")?;
    }
    let expiry = given.expiry(moment, "getex", [ExpiryChange::Keep, ExpiryChange::Never])?;
    one(arguments, Step::GetExpire(expiry))
}

/// Keys and values by turns.
fn pairs<'r>(arguments: &[&'r [u8]], command: &str) -> Result<Pairs<'r>, Failure> {
    let (pairs, rest) = arguments[1..].as_chunks::<2>();
    if !rest.is_empty() {
        return Err(Failure::Arity(command.into()));
    }
    let pairs = pairs.iter().map(|[key, of]| Ok((*key, value(of)?)));
    pairs.collect()
}

fn set_many<'r>(arguments: &[&'r [u8]], _: Moment) -> ParsedStringCommand<'r> {
    let pairs = pairs(arguments, "mset")?.into_iter();
    let steps = pairs.map(|(key, value)| (key, Step::Set(Set::to(value))));
    Ok(Request::Each(steps.collect(), ReplyJoin::Status))
}

fn set_many_absent<'r>(arguments: &[&'r [u8]], _: Moment) -> ParsedStringCommand<'r> {
    let pairs = pairs(arguments, "msetnx")?;
    Ok(Request::Keyspace(DatabaseCommand::SetAbsent(pairs)))
}

fn get_range<'r>(arguments: &[&'r [u8]], _: Moment) -> ParsedStringCommand<'r> {
    let (start, end) = (integer(arguments[2])?, integer(arguments[3])?);
    one(arguments, Step::GetRange(start, end))
}

fn set_range<'r>(arguments: &[&'r [u8]], _: Moment) -> ParsedStringCommand<'r> {
    let at = integer(arguments[2])?;
    let at = usize::try_from(at).map_err(|_| Failure::Offset)?;
    one(arguments, Step::SetRange(at, arguments[3]))
}

fn subtract<'r>(arguments: &[&'r [u8]], _: Moment) -> ParsedStringCommand<'r> {
    let by = integer(arguments[2])?;
    let by = by.checked_neg().ok_or(Failure::DecrementOverflow)?;
    one(arguments, Step::Add(by))
}

fn add_float<'r>(arguments: &[&'r [u8]], _: Moment) -> ParsedStringCommand<'r> {
    let by = number::float(arguments[2]).ok_or(Failure::NoFloat)?;
    one(arguments, Step::AddFloat(by))
}
