//! Expiry: when keys end, and how long they have.

use super::request::{Command, Moment, Request, integer, is, shown};
use crate::failure::Failure;
use crate::step::{ExpireOnly, ExpiryChange, Step, TimeNotation};

const WRITE: &[&str] = &["write", "fast"];
const READ: &[&str] = &["readonly", "fast"];

macro_rules! commands {
    ($($name:literal $arity:literal $flags:ident, $parse:expr, $summary:literal;)*) => {
        pub(super) const COMMANDS: &[Command] = &[$(Command {
            name: $name,
            arity: $arity,
            flags: $flags,
            keys: (1, 1, 1),
            summary: $summary,
            is_open: false,
            parse: $parse,
        }),*];
    };
}

commands! {
    "expire" -3 WRITE, |a, m| expire(a, m, Unit::Seconds, false, "expire"), "Sets the seconds that a key has.";
    "pexpire" -3 WRITE, |a, m| expire(a, m, Unit::Millis, false, "pexpire"), "Sets the milliseconds that a key has.";
    "expireat" -3 WRITE, |a, m| expire(a, m, Unit::Seconds, true, "expireat"), "Sets the second at which a key ends.";
    "pexpireat" -3 WRITE, |a, m| expire(a, m, Unit::Millis, true, "pexpireat"), "Sets the millisecond at which a key ends.";
    "ttl" 2 READ, |a, _| time(a, false, false), "Returns the seconds that a key has.";
    "pttl" 2 READ, |a, _| time(a, true, false), "Returns the milliseconds that a key has.";
    "expiretime" 2 READ, |a, _| time(a, false, true), "Returns the second at which a key ends.";
    "pexpiretime" 2 READ, |a, _| time(a, true, true), "Returns the millisecond at which a key ends.";
    "persist" 2 WRITE, |a, _| Ok(Request::One(a[1], Step::Persist)), "Takes a key's expiry away.";
}

/// In what a time is given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Unit {
    Seconds,
    Millis,
}

impl Unit {
    /// So many milliseconds; fails if they are no number of 64 bits.
    fn millis(self, time: i64, command: &'static str) -> Result<i64, Failure> {
        let factor = match self {
            Self::Seconds => 1_000,
            Self::Millis => 1,
        };
        let millis = time.checked_mul(factor);
        millis.ok_or(Failure::ExpireTime(command))
    }

    /// The moment at a time since 1970, which must be positive.
    fn at(self, time: i64, command: &'static str) -> Result<u64, Failure> {
        if time <= 0 {
            return Err(Failure::ExpireTime(command));
        }
        moment_at(self.millis(time, command)?.unsigned_abs(), command)
    }

    /// The moment after a time from now, which must be positive.
    pub(super) fn after(
        self,
        moment: Moment,
        time: i64,
        command: &'static str,
    ) -> Result<u64, Failure> {
        moment_at(self.at(time, command)?.saturating_add(moment.now), command)
    }
}

/// A moment in milliseconds since 1970, unless the store has none so late.
fn moment_at(millis: u64, command: &'static str) -> Result<u64, Failure> {
    match millis <= farslot::Expiry::LATEST.millis() {
        true => Ok(millis),
        false => Err(Failure::ExpireTime(command)),
    }
}

/// What options have said of an expiry: of the same one given twice, the last counts. Different
/// ones exclude each other. Both as in Redis.
#[derive(Default)]
pub(super) struct ExpiryOption<'r> {
    option: Option<(&'r [u8], Option<&'r [u8]>)>,
}

impl<'r> ExpiryOption<'r> {
    /// Takes EX, PX, EXAT or PXAT with the time that is the next argument, or the word `besides`.
    pub(super) fn take<'a>(
        &mut self,
        option: &'r [u8],
        arguments: &mut impl Iterator<Item = &'a &'r [u8]>,
        besides: &str,
    ) -> Result<(), Failure>
    where
        'r: 'a,
    {
        if let Some((before, _)) = self.option
            && !before.eq_ignore_ascii_case(option)
        {
            return Err(Failure::Syntax);
        }
        let time = match is(option, besides) {
            true => None,
            false => Some(*arguments.next().ok_or(Failure::Syntax)?),
        };
        if time.is_some()
            && !["ex", "px", "exat", "pxat"]
                .iter()
                .any(|word| is(option, word))
        {
            return Err(Failure::Syntax);
        }
        self.option = Some((option, time));
        Ok(())
    }

    /// What it means: `without` where nothing was given, `besides` for that word.
    pub(super) fn expiry(
        self,
        moment: Moment,
        command: &'static str,
        [without, besides]: [ExpiryChange; 2],
    ) -> Result<ExpiryChange, Failure> {
        let Some((option, time)) = self.option else {
            return Ok(without);
        };
        let Some(time) = time else {
            return Ok(besides);
        };
        let time = integer(time)?;
        let unit = match is(option, "ex") || is(option, "exat") {
            true => Unit::Seconds,
            false => Unit::Millis,
        };
        Ok(ExpiryChange::At(
            match is(option, "ex") || is(option, "px") {
                true => unit.after(moment, time, command)?,
                false => unit.at(time, command)?,
            },
        ))
    }
}

/// A time of EXPIRE and its like may have passed: the key ends now.
fn expire<'r>(
    arguments: &[&'r [u8]],
    moment: Moment,
    unit: Unit,
    is_absolute: bool,
    command: &'static str,
) -> Result<Request<'r>, Failure> {
    let only = conditions(&arguments[3..])?;
    let time = unit.millis(integer(arguments[2])?, command)?;
    let from = if is_absolute { 0 } else { moment.now as i64 };
    let at = time.checked_add(from).ok_or(Failure::ExpireTime(command))?;
    // A record that never expires has the moment 0.
    let at = moment_at(at.max(1).unsigned_abs(), command)?;
    Ok(Request::One(arguments[1], Step::Expire { at, only }))
}

fn conditions(options: &[&[u8]]) -> Result<ExpireOnly, Failure> {
    let mut only = ExpireOnly::default();
    for option in options {
        let condition = match option {
            option if is(option, "nx") => &mut only.without,
            option if is(option, "xx") => &mut only.with,
            option if is(option, "gt") => &mut only.later,
            option if is(option, "lt") => &mut only.earlier,
            option => return Err(Failure::ExpireOption(shown(option))),
        };
        *condition = true;
    }
    if only.without && (only.with || only.later || only.earlier) {
        return Err(Failure::ExpireConditions);
    }
    if only.later && only.earlier {
        return Err(Failure::GreaterAndLess);
    }
    Ok(only)
}

fn time<'r>(arguments: &[&'r [u8]], millis: bool, absolute: bool) -> Result<Request<'r>, Failure> {
    let notation = TimeNotation { millis, absolute };
    Ok(Request::One(arguments[1], Step::TimeToLive(notation)))
}
