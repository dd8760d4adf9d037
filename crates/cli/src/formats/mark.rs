//! The mark at a file's start that tells its encoding.

use farslot_terminal::failure::{Failure, Result};
use std::io::{Chain, Cursor, Read};

/// A file behind its mark.
pub type Unmarked<R> = Chain<Cursor<Vec<u8>>, R>;

/// Marks, the longer ones first where one begins with another.
const MARKS: [(&[u8], &str); 5] = [
    (b"\xEF\xBB\xBF", "UTF-8"),
    (b"\xFF\xFE\0\0", "UTF-32"),
    (b"\0\0\xFE\xFF", "UTF-32"),
    (b"\xFF\xFE", "UTF-16"),
    (b"\xFE\xFF", "UTF-16"),
];

/// Passes over the mark of UTF-8.
///
/// # Errors
/// If the file is in another encoding that has a mark, or cannot be read.
pub fn unmarked<R: Read>(mut input: R) -> Result<Unmarked<R>> {
    let mut first = Vec::new();
    let mut start = input.by_ref().take(4);
    let read = start.read_to_end(&mut first);
    read.map_err(Failure::io("reading"))?;
    let found = MARKS.iter().find(|(mark, _)| first.starts_with(mark));
    match found {
        Some((mark, "UTF-8")) => drop(first.drain(..mark.len())),
        Some((_, encoding)) => {
            return Err(Failure::Failed(format!(
                "line 1: the file is in {encoding}, by the mark at its start, and is read as UTF-8 \
                 or bytes: iconv -f {encoding} -t UTF-8"
            )));
        }
        None => {}
    }
    Ok(Cursor::new(first).chain(input))
}
