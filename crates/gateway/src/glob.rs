//! Patterns of KEYS and SCAN: `*`, `?`, `[a-z]`, `[^a]`, and `\` before what shall be itself.

/// Whether all of `text` matches. The last `*` alone is ever returned to, so that the time is at
/// most the product of the lengths.
pub(crate) fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at, mut place) = (0, 0);
    let mut star = None;
    while place < text.len() {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at + 1, place));
                at += 1;
                continue;
            }
            Some(_) => {
                if let Some(next) = one(pattern, at, text[place]) {
                    (at, place) = (next, place + 1);
                    continue;
                }
            }
            None => {}
        }
        let Some((behind, from)) = star else {
            return false;
        };
        star = Some((behind, from + 1));
        (at, place) = (behind, from + 1);
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

/// Where the pattern goes on behind the part that this byte matches, if it does.
fn one(pattern: &[u8], at: usize, byte: u8) -> Option<usize> {
    match pattern[at] {
        b'?' => Some(at + 1),
        b'[' => set(pattern, at + 1, byte),
        b'\\' if at + 1 < pattern.len() => (pattern[at + 1] == byte).then_some(at + 2),
        itself => (itself == byte).then_some(at + 1),
    }
}

/// A set of bytes that begins at `at`; one that is not closed ends with the pattern.
fn set(pattern: &[u8], mut at: usize, byte: u8) -> Option<usize> {
    let inverted = pattern.get(at) == Some(&b'^');
    at += usize::from(inverted);
    let mut found = false;
    loop {
        match pattern[at..] {
            [] => return (found != inverted).then_some(at),
            [b']', ..] => return (found != inverted).then_some(at + 1),
            [b'\\', escaped, ..] => {
                found |= escaped == byte;
                at += 2;
            }
            [from, b'-', to, ..] => {
                found |= (from.min(to)..=from.max(to)).contains(&byte);
                at += 3;
            }
            [itself, ..] => {
                found |= itself == byte;
                at += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn patterns_match_as_in_redis() {
        let all = [
            ("*", "", true),
            ("h?llo", "hello", true),
            ("h?llo", "hllo", false),
            ("h*llo", "heeeello", true),
            ("h[ae]llo", "hallo", true),
            ("h[ae]llo", "hillo", false),
            ("h[^e]llo", "hallo", true),
            ("h[^e]llo", "hello", false),
            ("h[a-c]llo", "hbllo", true),
            ("h[c-a]llo", "hbllo", true),
            ("a\\*", "a*", true),
            ("a\\*", "ab", false),
            ("a*b*c", "axbxbxc", true),
            ("a*b*c", "axbxbx", false),
            ("[a", "a", true),
            ("a\\", "a\\", true),
            ("**a", "ba", true),
            ("", "a", false),
        ];
        for (pattern, text, expected) in all {
            let found = matches(pattern.as_bytes(), text.as_bytes());
            assert_eq!(found, expected, "{pattern} {text}");
        }
    }

    #[test]
    fn many_stars_take_no_long_time() {
        let pattern = "a*".repeat(200) + "b";
        assert!(!matches(pattern.as_bytes(), &[b'a'; 5_000]));
    }

    proptest! {
        #[test]
        fn a_text_matches_itself_and_any_pattern_ends(pattern: Vec<u8>, text in "[a-z]{0,20}") {
            matches(&pattern, text.as_bytes());
            prop_assert!(matches(text.as_bytes(), text.as_bytes()));
            let within = format!("*{text}*");
            prop_assert!(matches(within.as_bytes(), text.as_bytes()));
        }
    }
}
