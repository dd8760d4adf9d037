//! Commands by their names.

use super::request::Command;
use super::{expiry, server, strings, transactions};
use crate::failure::Failure;
use foldhash::fast::RandomState;
use std::collections::HashMap;
use std::sync::LazyLock;

/// A command, and its number among [`all`].
type Numbered = (usize, &'static Command);

/// All commands, by name.
static COMMANDS: LazyLock<HashMap<&'static str, Numbered, RandomState>> = LazyLock::new(|| {
    let numbered = all().enumerate();
    numbered.map(|of| (of.1.name, of)).collect()
});

/// All commands, in the order of their lists.
pub(crate) fn all() -> impl Iterator<Item = &'static Command> {
    let lists = [
        strings::COMMANDS,
        expiry::COMMANDS,
        transactions::COMMANDS,
        server::COMMANDS,
    ];
    lists.into_iter().flatten()
}

/// Bytes of the longest name.
const LONGEST_NAME: usize = 16;

/// The command with a name, in whatever letters.
pub(crate) fn named(name: &[u8]) -> Option<Numbered> {
    let mut small = [0; LONGEST_NAME];
    let small = small.get_mut(..name.len())?;
    small.copy_from_slice(name);
    small.make_ascii_lowercase();
    COMMANDS.get(std::str::from_utf8(small).ok()?).copied()
}

/// The command that a request names, if its number of arguments can be.
pub(crate) fn find(arguments: &[&[u8]]) -> Result<Numbered, Failure> {
    let (number, command) = named(arguments[0]).ok_or_else(|| unknown(arguments))?;
    let given = arguments.len() as i64;
    if given == command.arity || command.arity < 0 && given >= -command.arity {
        return Ok((number, command));
    }
    Err(Failure::Arity(command.name.into()))
}

/// In Redis's words, with as much of the arguments as it tells.
fn unknown(arguments: &[&[u8]]) -> Failure {
    const MOST: usize = 128;
    let text = |bytes: &[u8], most: usize| {
        String::from_utf8_lossy(&bytes[..bytes.len().min(most)]).into_owned()
    };
    let mut quoted = String::new();
    for argument in &arguments[1..] {
        if quoted.len() >= MOST {
            break;
        }
        quoted += &format!("'{}' ", text(argument, MOST - quoted.len()));
    }
    Failure::UnknownCommand {
        name: text(arguments[0], MOST),
        arguments: quoted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::request::{Moment, Request};
    use crate::step::{ExpiryChange, Step};

    fn parse<'r>(words: &[&'r str]) -> Result<Request<'r>, Failure> {
        let arguments: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        (find(&arguments)?.1.parse)(&arguments, Moment { now: 1_000_000 })
    }

    #[test]
    fn every_command_is_found_by_its_name() {
        for command in all() {
            assert!(command.name.len() <= LONGEST_NAME, "{}", command.name);
            let (_, found) = COMMANDS[command.name];
            assert!(
                std::ptr::eq(found, command),
                "{} is there twice",
                command.name
            );
            assert_eq!(command.name, command.name.to_ascii_lowercase());
            // With as few arguments as it takes it is understood or refused.
            let fewest = command.arity.unsigned_abs() as usize;
            let mut arguments = vec![&b"1"[..]; fewest];
            arguments[0] = command.name.as_bytes();
            let _ = (find(&arguments).unwrap().1.parse)(&arguments, Moment { now: 0 });
        }
    }

    #[test]
    fn unknown_commands_are_told_in_rediss_words() {
        assert_eq!(
            parse(&["FOO", "a", "b c"]).unwrap_err().to_string(),
            "ERR unknown command 'FOO', with args beginning with: 'a' 'b c' "
        );
        assert_eq!(
            parse(&["get"]).unwrap_err().to_string(),
            "ERR wrong number of arguments for 'get' command"
        );
        let long = "x".repeat(1_000);
        let message = parse(&[&long, &long, &long]).unwrap_err().to_string();
        assert!(message.len() < 350, "{message}");
    }

    #[test]
    fn options_of_set_exclude_each_other() {
        let refused = |words: &[&str]| parse(words).unwrap_err().to_string();
        for words in [
            &["set", "k", "v", "nx", "xx"][..],
            &["set", "k", "v", "ex", "1", "px", "1"],
            &["set", "k", "v", "ex", "1", "keepttl"],
            &["set", "k", "v", "ex"],
            &["set", "k", "v", "what"],
            &["getex", "k", "persist", "ex", "1"],
        ] {
            assert_eq!(refused(words), "ERR syntax error", "{words:?}");
        }
        // As in Redis 7, the last of two that are the same counts.
        for (words, millis) in [
            (&["set", "k", "v", "EX", "100", "ex", "200"][..], 200_000),
            (&["set", "k", "v", "px", "0", "px", "7"], 7),
            (&["getex", "k", "ex", "10", "ex", "20"], 20_000),
        ] {
            let expiry = match parse(words) {
                Ok(Request::One(_, Step::Set(set))) => set.expiry,
                Ok(Request::One(_, Step::GetExpire(expiry))) => expiry,
                other => panic!("{words:?}: {other:?}"),
            };
            assert_eq!(expiry, ExpiryChange::At(1_000_000 + millis), "{words:?}");
        }
        assert!(parse(&["getex", "k", "persist", "persist"]).is_ok());
        assert!(parse(&["set", "k", "v", "keepttl", "keepttl"]).is_ok());
        for seconds in ["0", "-1", "9223372036854775807"] {
            let message = "ERR invalid expire time in 'set' command";
            assert_eq!(refused(&["set", "k", "v", "ex", seconds]), message);
        }
        assert!(refused(&["set", "k", "v", "ex", "1.5"]).contains("not an integer"));
        assert!(parse(&["SET", "k", "v", "Get", "nX", "pX", "5"]).is_ok());
    }
}
