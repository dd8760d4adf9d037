//! The keys of paper 004's traces, or where those cannot be had of the same kind.

use crate::paper004::loop_ratio::random_integers;
use crate::{LabError, Progress, Result};
use md5::{Digest, Md5};
use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The program that prints the corpus, with the whole of it asked for, and the Debian package that
/// it is in.
const CORPUS: (&str, [&str; 2], &str) = ("bible", ["-f", "gen1:1-rev22:21"], "bible-kjv");
/// The tree of files whose contents are fingerprinted.
const TREE: &str = "/usr";
/// Longer files are left out, bytes: they would take most of the time for a hundredth of the keys.
const LONGEST: u64 = 1 << 20;

/// Keys that a trace must have: enough for a table of 1024 slots.
pub(crate) const LEAST: usize = (1024.0 * super::KEYS_PER_SLOT) as usize;
/// What a report says of [`fingerprints`].
pub(crate) const FINGERPRINTS: &str = "MD5 fingerprints of the files of up to 1 MiB under /usr";
/// What a report says of [`document_words`].
pub(crate) const DOCUMENT_WORDS: &str =
    "Document-word pairs of the King James Bible (Debian's bible-kjv), a verse a document";

/// RandomInteger: uniform 32-bit integers.
pub(crate) fn integers(count: usize, seed: u64) -> Vec<u32> {
    random_integers(seed).take(count).collect()
}

/// MD5 fingerprints of the files under `/usr` of up to a MiB, each content once, at most so many:
/// for the paper's MacOS trace, the fingerprints of a server's files, which is not to be had any
/// more.
///
/// # Errors
/// [`LabError::TooFewKeys`] if there are fewer than `least`.
pub(crate) fn fingerprints(
    least: usize,
    most: usize,
    progress: Progress<'_>,
) -> Result<Vec<[u64; 2]>> {
    let fingerprints = fingerprints_under(Path::new(TREE), most, progress);
    enough("files under /usr", fingerprints, least)
}

fn fingerprints_under(root: &Path, most: usize, progress: Progress<'_>) -> Vec<[u64; 2]> {
    let mut seen = HashSet::new();
    let mut keys = Vec::new();
    let mut directories = vec![root.to_owned()];
    while let Some(directory) = directories.pop() {
        progress(&format!("{} fingerprints", keys.len()));
        // What cannot be read is none of the tree's.
        let (files, deeper) = entries(&directory).unwrap_or_default();
        directories.extend(deeper);
        for content in files.iter().filter_map(|file| fs::read(file).ok()) {
            if keys.len() == most {
                return keys;
            }
            let fingerprint = fingerprint(&content);
            if seen.insert(fingerprint) {
                keys.push(fingerprint);
            }
        }
    }
    keys
}

/// The files of a directory that are not too long, and its directories; symbolic links are neither.
fn entries(directory: &Path) -> io::Result<(Vec<PathBuf>, Vec<PathBuf>)> {
    let (mut files, mut directories) = (Vec::new(), Vec::new());
    for entry in fs::read_dir(directory)?.flatten() {
        match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => directories.push(entry.path()),
            Ok(metadata) if metadata.is_file() && metadata.len() <= LONGEST => {
                files.push(entry.path());
            }
            _ => {}
        }
    }
    files.sort();
    directories.sort();
    Ok((files, directories))
}

fn fingerprint(content: &[u8]) -> [u64; 2] {
    let digest: [u8; 16] = Md5::digest(content).into();
    let bits = u128::from_be_bytes(digest);
    [(bits >> 64) as u64, bits as u64]
}

/// Document-word pairs, as the paper's DocWords: a verse of the King James Bible is a document. The
/// corpus is one that Debian ships; bags of words such as the paper's (the UCI repository's) no
/// package has.
///
/// # Errors
/// [`LabError::NoCorpus`] if the program that prints it is not there or fails;
/// [`LabError::TooFewKeys`].
pub(crate) fn document_words(least: usize, progress: Progress<'_>) -> Result<Vec<u64>> {
    let (program, arguments, package) = CORPUS;
    progress("document-word pairs");
    let no_corpus = |reason: String| LabError::NoCorpus {
        program,
        package,
        reason,
    };
    let mut command = Command::new(program);
    let command = command.args(arguments).stdin(Stdio::null());
    let output = command
        .output()
        .map_err(|error| no_corpus(error.to_string()))?;
    if !output.status.success() {
        return Err(no_corpus(output.status.to_string()));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    enough("document-word pairs", pairs_of(&text), least)
}

/// The pairs of a text of a document a line, each beginning with its name: the document's number in
/// the high half, the word's in the low one, and each pair once.
fn pairs_of(text: &str) -> Vec<u64> {
    let mut numbers = HashMap::new();
    let mut pairs = Vec::new();
    let mut seen = HashSet::new();
    for (document, line) in text.lines().enumerate() {
        let (_, words) = line.split_once(' ').unwrap_or_default();
        let words = words.split(|letter: char| !letter.is_alphanumeric());
        seen.clear();
        for word in words.filter(|word| !word.is_empty()) {
            let next = numbers.len() as u64;
            let number = *numbers.entry(word.to_lowercase()).or_insert(next);
            if seen.insert(number) {
                pairs.push((document as u64) << 32 | number);
            }
        }
    }
    pairs
}

fn enough<K>(of: &'static str, keys: Vec<K>, least: usize) -> Result<Vec<K>> {
    match keys.len() {
        found if found < least => Err(LabError::TooFewKeys { of, found, least }),
        _ => Ok(keys),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pair_is_a_document_and_a_word_of_it_once() {
        let text = "A1:1 The light, and the dark.\nA1:2 and LIGHT\nA1:3\n";
        let pair = |document: u64, word: u64| document << 32 | word;
        let expected = [(0, 0), (0, 1), (0, 2), (0, 3), (1, 2), (1, 1)];
        assert_eq!(pairs_of(text), expected.map(|(one, two)| pair(one, two)));
    }

    #[test]
    fn contents_are_fingerprinted_once_and_links_not_followed() {
        let root = std::env::temp_dir().join(format!("farslot-keys-{}", std::process::id()));
        let deeper = root.join("deeper");
        fs::create_dir_all(&deeper).unwrap();
        for (name, content) in [("a", "abc"), ("b", "abc"), ("deeper/c", "")] {
            fs::write(root.join(name), content).unwrap();
        }
        std::os::unix::fs::symlink(&root, deeper.join("up")).unwrap();
        let found = fingerprints_under(&root, 10, &|_| {});
        fs::remove_dir_all(&root).unwrap();
        // RFC 1321, appendix A.5.
        let abc = [0x9001_5098_3cd2_4fb0, 0xd696_3f7d_28e1_7f72];
        let none = [0xd41d_8cd9_8f00_b204, 0xe980_0998_ecf8_427e];
        assert_eq!(found, [abc, none]);
    }

    #[test]
    fn too_few_keys_are_named() {
        let error = enough("files", vec![1, 2], 3).unwrap_err();
        assert_eq!(
            error.to_string(),
            "2 files: at least 3 are needed for a table of 1024 slots"
        );
    }
}
