//! Transactions.

use super::request::{Command, Request, Transaction};
use crate::failure::Failure;

const FLAGS: &[&str] = &["noscript", "loading", "stale", "fast", "allow_busy"];
const EXEC: &[&str] = &["noscript", "loading", "stale", "skip_slowlog"];
const NONE: (i64, i64, i64) = (0, 0, 0);

macro_rules! commands {
    ($($name:literal $arity:literal $flags:ident $keys:expr, $request:expr, $summary:literal;)*) => {
        pub(super) const COMMANDS: &[Command] = &[$(Command {
            name: $name,
            arity: $arity,
            flags: $flags,
            keys: $keys,
            summary: $summary,
            is_open: false,
            parse: |arguments, _| transaction($request, arguments),
        }),*];
    };
}

commands! {
    "multi" 1 FLAGS NONE, |_| Transaction::Multi, "Starts a transaction: the commands that follow are queued.";
    "exec" 1 EXEC NONE, |_| Transaction::Exec, "Executes the commands of a transaction.";
    "discard" 1 FLAGS NONE, |_| Transaction::Discard, "Discards a transaction.";
    "watch" -2 FLAGS (1, -1, 1), |keys| Transaction::Watch(keys.to_vec()), "Has the next transaction fail if one of the keys changes before it.";
    "unwatch" 1 FLAGS NONE, |_| Transaction::Unwatch, "Forgets the keys that are watched.";
}

fn transaction<'r>(
    request: impl FnOnce(&[&'r [u8]]) -> Transaction<'r>,
    arguments: &[&'r [u8]],
) -> Result<Request<'r>, Failure> {
    Ok(Request::Transaction(request(&arguments[1..])))
}
