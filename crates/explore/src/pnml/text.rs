//! From bytes to text, and from places in the text to lines.

use super::error::{PnmlError, Problem};
use std::borrow::Cow;

/// How much of a document its XML declaration may take.
const DECLARATION: usize = 200;

/// The document as text. UTF-8, or ISO-8859-1 where the XML declaration says so.
pub(super) fn decode(bytes: &[u8]) -> Result<Cow<'_, str>, PnmlError> {
    let bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(Cow::Borrowed(text)),
        Err(_) if declares_latin1(bytes) => Ok(Cow::Owned(
            bytes.iter().map(|&byte| char::from(byte)).collect(),
        )),
        Err(error) => Err(PnmlError {
            line: line_of(bytes, error.valid_up_to()),
            problem: Problem::Encoding,
        }),
    }
}

fn declares_latin1(bytes: &[u8]) -> bool {
    let start = &bytes[..bytes.len().min(DECLARATION)];
    let start = String::from_utf8_lossy(start).to_ascii_lowercase();
    let declaration = start.split("?>").next().unwrap_or_default();
    // In quotes: ISO-8859-15 is another one.
    let named = ["'iso-8859-1'", "\"iso-8859-1\""];
    declaration.starts_with("<?xml") && named.iter().any(|name| declaration.contains(name))
}

fn line_of(bytes: &[u8], offset: usize) -> u64 {
    let before = &bytes[..offset.min(bytes.len())];
    1 + before.iter().filter(|&&byte| byte == b'\n').count() as u64
}

/// Counts lines as reading goes on, so that each byte is looked at once.
#[derive(Debug)]
pub(super) struct Lines<'a> {
    bytes: &'a [u8],
    offset: usize,
    line: u64,
}

impl<'a> Lines<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self {
            bytes: text.as_bytes(),
            offset: 0,
            line: 1,
        }
    }

    /// The line of an offset, which must not lie before the last one asked for.
    pub(super) fn at(&mut self, offset: u64) -> u64 {
        let offset = usize::try_from(offset).unwrap_or(usize::MAX);
        let offset = offset.clamp(self.offset, self.bytes.len());
        self.line += line_of(&self.bytes[self.offset..offset], usize::MAX) - 1;
        self.offset = offset;
        self.line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latin1_is_read_where_it_is_declared() {
        let declared = b"<?xml version='1.0' encoding='ISO-8859-1'?>\n<!-- \xE9 -->";
        assert!(decode(declared).unwrap().contains('é'));
        let undeclared = b"<?xml version='1.0'?>\n\n<!-- \xE9 -->";
        let error = decode(undeclared).unwrap_err();
        assert_eq!((error.line, error.problem), (3, Problem::Encoding));
    }

    #[test]
    fn lines_are_counted_forwards() {
        let mut lines = Lines::new("a\nb\n\nc");
        assert_eq!(
            [0, 1, 2, 3, 4, 5, 99].map(|offset| lines.at(offset)),
            [1, 1, 2, 2, 3, 4, 4]
        );
    }
}
