//! What all ranks of a job must have alike: values by name, as text.

use xxhash_rust::xxh3::xxh3_64;

/// Characters that are sent of a value; of a longer one also a digest of all.
const SHOWN: usize = 200;

/// Lines: a name and a value in turn.
pub(crate) fn encoded(terms: &[(&str, &str)]) -> Vec<u8> {
    let mut text = String::new();
    for (name, value) in terms {
        text.extend([name, "\n", &comparable(value), "\n"]);
    }
    text.into_bytes()
}

/// A value without ends of lines, and not long.
fn comparable(value: &str) -> String {
    let shown: String = value.chars().take(SHOWN).collect();
    let shown = shown.escape_debug();
    if value.chars().count() <= SHOWN {
        return shown.to_string();
    }
    format!("{shown}... (digest {:016x})", xxh3_64(value.as_bytes()))
}

pub(crate) fn decoded(part: &[u8]) -> Vec<(String, String)> {
    let text = String::from_utf8_lossy(part);
    let lines: Vec<&str> = text.lines().collect();
    let pairs = lines.chunks_exact(2);
    pairs.map(|pair| (pair[0].into(), pair[1].into())).collect()
}

/// The first name by which two have not the same, and what they have.
pub(crate) fn difference(
    ours: &[(String, String)],
    peer: &[(String, String)],
) -> Option<(String, String, String)> {
    let of = |terms: &[(String, String)], name: &str| {
        let found = terms.iter().find(|(known, _)| known == name);
        found.map_or_else(|| "not known".to_owned(), |(_, value)| value.clone())
    };
    let mut names = ours.iter().chain(peer).map(|(name, _)| name);
    let name = names.find(|name| of(ours, name) != of(peer, name))?;
    Some((name.clone(), of(ours, name), of(peer, name)))
}
