//! Patterns of KEYS and SCAN: `*`, `?`, `[a-z]`, `[^a]`, and `\` before what shall be itself.
//!
//! What stands between two `*` is a *piece*, each part of which matches one byte. A piece is found
//! by a bit for each of its parts, which says whether the parts up to that one match the bytes up
//! to here (shift-and): so a key takes time by its own length and a 64th of the pattern's, and who
//! chooses both makes nobody wait.

/// Bytes of the longest pattern: it takes 2 KiB for each piece and each 64 parts.
pub(crate) const LONGEST: usize = 1 << 10;

/// A pattern, made ready for many keys.
pub(crate) struct Glob {
    /// What stands before, between and behind its stars; nothing if no text matches.
    pieces: Option<Vec<Piece>>,
}

/// Parts that follow each other.
struct Piece {
    parts: usize,
    /// For each byte, which parts it matches: so many words.
    matching: Vec<u64>,
    words: usize,
}

impl Glob {
    pub(crate) fn new(pattern: &[u8]) -> Self {
        let mut pieces = Vec::new();
        let mut parts = Vec::new();
        let mut at = 0;
        while let Some(byte) = pattern.get(at) {
            if *byte == b'*' {
                pieces.push(Piece::of(&std::mem::take(&mut parts)));
                at += 1;
                continue;
            }
            let (mut matching, mut end) = ([false; 256], None);
            for byte in 0..=u8::MAX {
                if let Some(behind) = one(pattern, at, byte) {
                    (matching[usize::from(byte)], end) = (true, Some(behind));
                }
            }
            let Some(end) = end else {
                return Self { pieces: None };
            };
            parts.push(matching);
            at = end;
        }
        pieces.push(Piece::of(&parts));
        let pieces = Some(pieces);
        Self { pieces }
    }

    /// Whether all of `text` matches.
    pub(crate) fn matches(&self, text: &[u8]) -> bool {
        let Some(pieces) = &self.pieces else {
            return false;
        };
        let [first, between @ .., last] = &pieces[..] else {
            // Without a star.
            return pieces.iter().all(|all| all.matches(text));
        };
        let ends = text
            .split_at_checked(first.parts)
            .and_then(|(start, rest)| {
                let behind = rest.len().checked_sub(last.parts)?;
                Some((start, rest.split_at(behind)))
            });
        let Some((start, (mut rest, end))) = ends else {
            return false;
        };
        let mut found = first.matches(start) && last.matches(end);
        for piece in between {
            // Where one is found first, the others have the most room behind it.
            let behind = piece.find(rest).filter(|_| found);
            found = behind.is_some();
            rest = &rest[behind.unwrap_or(0)..];
        }
        found
    }
}

impl Piece {
    /// One of parts, each by which bytes it matches.
    fn of(parts: &[[bool; 256]]) -> Self {
        let words = parts.len().div_ceil(64);
        let mut matching = vec![0; words << 8];
        for (number, part) in parts.iter().enumerate() {
            for byte in (0..part.len()).filter(|byte| part[*byte]) {
                matching[byte * words + number / 64] |= 1 << (number % 64);
            }
        }
        let parts = parts.len();
        Self {
            parts,
            matching,
            words,
        }
    }

    /// Which parts a byte matches.
    fn matching(&self, byte: u8) -> &[u64] {
        &self.matching[usize::from(byte) * self.words..][..self.words]
    }

    /// Whether the parts match these bytes, one each.
    fn matches(&self, text: &[u8]) -> bool {
        let is_it =
            |(part, byte): (usize, &u8)| self.matching(*byte)[part / 64] >> (part % 64) & 1 == 1;
        text.len() == self.parts && text.iter().enumerate().all(is_it)
    }

    /// The byte behind the first place at which the parts match.
    fn find(&self, text: &[u8]) -> Option<usize> {
        let Some(last) = self.parts.checked_sub(1) else {
            return Some(0);
        };
        let mut so_far = vec![0_u64; self.words];
        for (at, byte) in text.iter().enumerate() {
            // The first part may begin anywhere.
            let mut carried = 1;
            for (word, matching) in so_far.iter_mut().zip(self.matching(*byte)) {
                let next = *word >> 63;
                *word = (*word << 1 | carried) & matching;
                carried = next;
            }
            if so_far[last / 64] >> (last % 64) & 1 == 1 {
                return Some(at + 1);
            }
        }
        None
    }
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
            let found = Glob::new(pattern.as_bytes()).matches(text.as_bytes());
            assert_eq!(found, expected, "{pattern} {text}");
        }
    }

    /// As the words say, part by part.
    fn is_matched(pattern: &[u8], text: &[u8]) -> bool {
        match (pattern, text) {
            ([], _) => text.is_empty(),
            ([b'*', rest @ ..], _) => {
                is_matched(rest, text) || !text.is_empty() && is_matched(pattern, &text[1..])
            }
            (_, []) => false,
            (_, [byte, behind @ ..]) => {
                one(pattern, 0, *byte).is_some_and(|next| is_matched(&pattern[next..], behind))
            }
        }
    }

    /// Patterns nearly as long as they may be, which no place of the longest key rules out.
    #[test]
    fn long_patterns_are_found_at_the_end_of_long_keys() {
        let (absent, found) = ([b'a'; 64 << 10], "a".repeat(65_535) + "b");
        for pattern in ["a*".repeat(500) + "b", format!("*{}b*", "a".repeat(1_000))] {
            let glob = Glob::new(pattern.as_bytes());
            assert!(!glob.matches(&absent) && glob.matches(found.as_bytes()));
        }
    }

    proptest! {
        #[test]
        fn patterns_mean_what_their_parts_say(
            pattern in r"[ab?*\\\[\]^-]{0,12}",
            text in "[ab-]{0,12}",
        ) {
            let found = Glob::new(pattern.as_bytes()).matches(text.as_bytes());
            prop_assert_eq!(found, is_matched(pattern.as_bytes(), text.as_bytes()));
        }

        #[test]
        fn a_piece_is_found_however_long_it_is(
            before in "[ab]{0,100}", piece in "[ab]{0,200}", behind in "[ab]{0,100}",
        ) {
            let text = format!("{before}{piece}{behind}");
            for pattern in [format!("*{piece}*"), format!("{before}*{behind}"), text.clone()] {
                prop_assert!(Glob::new(pattern.as_bytes()).matches(text.as_bytes()));
            }
            let absent = format!("*{piece}c*");
            prop_assert!(!Glob::new(absent.as_bytes()).matches(text.as_bytes()));
        }

        #[test]
        fn a_text_matches_itself_and_any_pattern_ends(pattern: Vec<u8>, text in "[a-z]{0,20}") {
            Glob::new(&pattern).matches(text.as_bytes());
            prop_assert!(Glob::new(text.as_bytes()).matches(text.as_bytes()));
        }
    }
}
