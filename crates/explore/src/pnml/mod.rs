//! PNML, the Petri Net Markup Language (ISO/IEC 15909-2), as far as place/transition nets go: the
//! format of the Model Checking Contest.
//!
//! Documents are not trusted: a document type declaration is refused, every count has a limit
//! ([`limits`]), and memory stays proportional to the document. Names, graphics and tool-specific
//! parts (such as NUPN) are skipped, but for those by which a tool says that an arc inhibits or
//! resets. Any other element, attribute or text that is not known is an error, for it could mean
//! something, and so is an element of another name space; every error names the line.
//!
//! What PIPE writes is read too, as far as it means a place/transition net: `<value>` for `<text>`,
//! markings and weights with the name of its one class of tokens (`Default,5`), and what it adds to
//! places, transitions and arcs. A capacity must be 0, which is none; an arc must not be tagged;
//! all transitions must have the same priority and be timed or not alike.

mod document;
mod error;
mod labels;
pub mod limits;
mod resolve;
mod text;

pub use error::{PnmlError, Problem, ReadError};

use crate::net::Net;
use std::io::Read;
use std::path::Path;

/// Reads the net in a file.
///
/// # Errors
/// [`ReadError`], of a document with the line that is wrong.
pub fn read(path: &Path) -> Result<Net, ReadError> {
    let file = std::fs::File::open(path)?;
    let mut bytes = Vec::new();
    // The limit holds for pipes and growing files too, whose length is not known beforehand.
    let mut limited = file.take(limits::BYTES + 1);
    limited.read_to_end(&mut bytes)?;
    Ok(parse(&bytes)?)
}

/// The net in a document.
///
/// # Errors
/// [`PnmlError`] with the line of the document that is wrong.
pub fn parse(bytes: &[u8]) -> Result<Net, PnmlError> {
    if bytes.len() as u64 > limits::BYTES {
        let problem = Problem::TooLong;
        return Err(PnmlError { line: 1, problem });
    }
    let text = text::decode(bytes)?;
    let document = document::read(&text)?;
    resolve::net(document)
}
