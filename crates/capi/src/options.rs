//! Options as text: `NAME=VALUE`, with spaces or line breaks between them.

use crate::error::Failure;
use farslot::HandleOptions;
use std::fmt::Display;
use std::str::FromStr;

/// Threads of a table at most.
const MOST_WORKERS: usize = 1024;

/// The options of a text, which may be null. A value with spaces stands between quotes, single or
/// double ones. No message says a value that may be a secret.
pub(crate) fn pairs(text: Option<&str>) -> Result<Vec<(&str, &str)>, Failure> {
    let mut rest = text.unwrap_or_default().trim_start();
    let mut pairs: Vec<(&str, &str)> = Vec::new();
    while !rest.is_empty() {
        let number = pairs.len() + 1;
        let bad = |problem: &str| Failure::bad(format!("option {number} of the text {problem}"));
        let is_name = |name: &&str| !name.is_empty() && !name.contains(char::is_whitespace);
        let given = rest.split_once('=').filter(|(name, _)| is_name(name));
        let (name, behind) = given.ok_or_else(|| bad("is not NAME=VALUE"))?;
        let quote = behind
            .chars()
            .next()
            .filter(|first| matches!(first, '\'' | '"'));
        let (value, after) = match quote {
            Some(quote) => {
                let ended = behind[1..].split_once(quote);
                ended.ok_or_else(|| bad("has a quote that does not end"))?
            }
            None => behind.split_at(behind.find(char::is_whitespace).unwrap_or(behind.len())),
        };
        rest = after.trim_start();
        if rest.len() == after.len() && !rest.is_empty() {
            return Err(bad("goes on behind its quotes"));
        }
        if pairs.iter().any(|(other, _)| *other == name) {
            return Err(Failure::bad(format!("the option {name} is given twice")));
        }
        pairs.push((name, value));
    }
    Ok(pairs)
}

fn bad(name: &str, value: &str, limit: impl Display) -> Failure {
    Failure::bad(format!("{name} = {value:?} is not possible: {limit}"))
}

fn unknown(name: &str, known: &str) -> Failure {
    Failure::bad(format!("there is no option {name:?}; known are {known}"))
}

/// What a value is that can be parsed.
fn parsed<T: FromStr>(name: &str, value: &str, limit: &str) -> Result<T, Failure> {
    value.parse().map_err(|_| bad(name, value, limit))
}

/// How a table is opened.
pub(crate) fn table_opening(text: Option<&str>) -> Result<HandleOptions, Failure> {
    let mut options = HandleOptions::default();
    for (name, value) in pairs(text)? {
        match name {
            "workers" => {
                let limit = format!("a number from 1 to {MOST_WORKERS}");
                let workers = parsed(name, value, &limit)?;
                options.workers = Some(workers)
                    .filter(|workers| (1..=MOST_WORKERS).contains(workers))
                    .ok_or_else(|| bad(name, value, limit))?;
            }
            _ => return Err(unknown(name, "workers")),
        }
    }
    Ok(options)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_options() {
        let text = " a=1\n b='two words'  c=\"it's\" d= ";
        let expected = [("a", "1"), ("b", "two words"), ("c", "it's"), ("d", "")];
        assert_eq!(pairs(Some(text)).unwrap(), expected);
        assert!(pairs(None).unwrap().is_empty() && pairs(Some("\n")).unwrap().is_empty());
        for (text, says) in [
            ("hunter2", "option 1 of the text is not NAME=VALUE"),
            ("a=1 hunter2 b=2", "option 2 of the text is not NAME=VALUE"),
            ("=1", "is not NAME=VALUE"),
            ("a='hunter2", "a quote that does not end"),
            ("a='hunter'2", "goes on behind its quotes"),
            ("a=1 a=2", "the option a is given twice"),
        ] {
            let said = format!("{:?}", pairs(Some(text)).unwrap_err());
            assert!(
                said.contains(says) && !said.contains("hunter"),
                "{text}: {said}"
            );
        }
    }

    #[test]
    fn tables_have_at_least_one_worker() {
        assert_eq!(table_opening(Some("workers=4")).unwrap().workers, 4);
        for text in ["workers=0", "workers=1025", "workers=-1", "capacity=1"] {
            assert!(table_opening(Some(text)).is_err(), "{text}");
        }
    }
}
