//! Names that people give to tables and grants, and that others see on terminals and in files'
//! names.

use crate::{Result, StoreError};
use farslot_fabric::tcp::admission::handshake::LONGEST_NAME as LONGEST_GRANT;

/// Bytes of the longest name of a table.
const LONGEST_NAME: usize = 128;

/// Characters that count as letters or marks and have no ink.
const BLANK: [char; 6] = [
    '\u{34f}', '\u{115f}', '\u{1160}', '\u{2800}', '\u{3164}', '\u{ffa0}',
];

/// Whether a character shows on a terminal as itself. Control characters do not, nor those that
/// change the direction of text or join it, nor spaces but for the common one.
#[must_use]
pub fn is_visible(character: char) -> bool {
    if matches!(character, '"' | '\'' | '\\') {
        return true;
    }
    // Behind a letter, accents that combine with it are left as they are.
    let behind: String = ['a', character].into_iter().collect();
    behind.escape_debug().nth(1) == Some(character) && !BLANK.contains(&character)
}

/// The most names that an error lists.
const MOST_LISTED: usize = 32;

/// Names of tables as a text for an error, where there may be thousands.
pub(crate) fn listed(names: &[&str]) -> String {
    match names {
        [] => "none".into(),
        _ if names.len() <= MOST_LISTED => names.join(", "),
        _ => {
            let (first, others) = names.split_at(MOST_LISTED);
            format!("{} and {} others", first.join(", "), others.len())
        }
    }
}

/// Refuses a name that no table can have.
///
/// # Errors
/// [`StoreError::BadName`].
pub(crate) fn check_name(name: &str) -> Result<()> {
    let bad = |reason| StoreError::BadName {
        name: name.into(),
        reason,
    };
    fault_of(name, LONGEST_NAME).map_or(Ok(()), |fault| Err(bad(format!("it {fault}"))))
}

/// Refuses a name that no grant can have: one of more than 64 bytes, or one that no table could
/// have either.
///
/// # Errors
/// [`StoreError::BadGrant`].
///
/// ```
/// assert!(farslot::admission::check_grant_name("reporting").is_ok());
/// assert!(farslot::admission::check_grant_name("report\ning").is_err());
/// ```
pub fn check_grant_name(name: &str) -> Result<()> {
    let bad = |reason| StoreError::BadGrant {
        name: name.into(),
        reason,
    };
    fault_of(name, LONGEST_GRANT).map_or(Ok(()), |fault| Err(bad(format!("its name {fault}"))))
}

/// What is wrong with a name of at most so many bytes, if anything is.
fn fault_of(name: &str, longest: usize) -> Option<String> {
    let bytes = name.len();
    if bytes > longest {
        return Some(format!("has {bytes} bytes, over the limit of {longest}"));
    }
    let is_hidden = |character| !is_visible(character);
    let fault = match name {
        "" => "is empty",
        "." | ".." => "stands for a directory",
        name if name.starts_with(' ') || name.ends_with(' ') => "begins or ends with a space",
        name if name.contains(is_hidden) => "has characters that nobody sees",
        _ => return None,
    };
    Some(fault.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_list_no_more_names_than_a_reader_takes_in() {
        assert_eq!(listed(&[]), "none");
        assert_eq!(listed(&["a", "b"]), "a, b");
        assert_eq!(listed(&["a"; 32]).len(), 31 * 3 + 1);
        assert!(listed(&["a"; 4096]).ends_with("a, a and 4064 others"));
    }

    #[test]
    fn names_can_be_seen_and_told_from_others() {
        for name in [
            "users",
            "a/b",
            "a b",
            "...",
            ".hidden",
            "gr\u{fc}n",
            "gru\u{308}n",
            "\u{8868}",
            "it's \"one\"\\",
            "\u{1f33f}",
        ] {
            assert_eq!(check_name(name), Ok(()));
            assert_eq!(check_grant_name(name), Ok(()));
        }
        for name in [
            "",
            &"x".repeat(129),
            ".",
            "..",
            " a",
            "a ",
            "a\nb",
            "a\u{1b}[31m",
            "a\u{7f}",
            "a\u{85}",
            "a\u{200b}",
            "a\u{202e}b",
            "a\u{2066}b",
            "\u{feff}a",
            "a\u{a0}b",
            "a\u{2028}b",
            "a\u{3164}",
            "a\u{e0041}",
        ] {
            assert!(check_name(name).is_err(), "{name:?}");
            assert!(check_grant_name(name).is_err(), "{name:?}");
        }
        // A grant's name has to fit into a frame of the handshake.
        let long = "x".repeat(65);
        assert!(check_name(&long).is_ok() && check_grant_name(&long).is_err());
    }
}
