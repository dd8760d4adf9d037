//! Names that people give to tables and grants, and that others see on terminals and in files'
//! names.

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

/// What is wrong with a name, if anything is. Its length is not looked at.
#[must_use]
pub fn name_fault(name: &str) -> Option<&'static str> {
    if [".", ".."].contains(&name) {
        return Some("it stands for a directory");
    }
    if name.starts_with(' ') || name.ends_with(' ') {
        return Some("it begins or ends with a space");
    }
    let is_hidden = |character| !is_visible(character);
    name.contains(is_hidden)
        .then_some("it has characters that nobody sees")
}

#[cfg(test)]
mod tests {
    use super::*;

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
            assert_eq!(name_fault(name), None, "{name:?}");
        }
        for name in [
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
            assert!(name_fault(name).is_some(), "{name:?}");
        }
    }
}
