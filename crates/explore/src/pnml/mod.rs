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
use flate2::bufread::MultiGzDecoder;
use std::io::{BufReader, Read};
use std::path::Path;

/// What a file that gzip has written begins with.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// Reads the net in a file, which gzip may have compressed: its first bytes tell.
///
/// # Errors
/// [`ReadError`], of a document with the line that is wrong.
pub fn read(path: &Path) -> Result<Net, ReadError> {
    // The limit holds for pipes and growing files too, whose length is not known beforehand.
    let mut file = std::fs::File::open(path)?.take(limits::BYTES + 1);
    let mut bytes = Vec::new();
    let mut start = file.by_ref().take(GZIP.len() as u64);
    start.read_to_end(&mut bytes)?;
    let read = match bytes == GZIP {
        true => unpack(GZIP.chain(&mut file), &mut bytes),
        false => file
            .read_to_end(&mut bytes)
            .map_err(ReadError::Io)
            .map(drop),
    };
    // Also of what is compressed: what it unpacks to may be nothing, without end.
    if file.limit() == 0 {
        return Err(PnmlError::too_long().into());
    }
    read?;
    Ok(parse(&bytes)?)
}

/// Unpacks a compressed document, up to one byte more than it may have.
fn unpack(file: impl Read, bytes: &mut Vec<u8>) -> Result<(), ReadError> {
    bytes.clear();
    let unpacked = MultiGzDecoder::new(BufReader::new(file));
    let read = unpacked.take(limits::BYTES + 1).read_to_end(bytes);
    read.map(drop).map_err(|error| match error.raw_os_error() {
        Some(_) => ReadError::Io(error),
        None => ReadError::Gzip(error),
    })
}

/// The net in a document.
///
/// # Errors
/// [`PnmlError`] with the line of the document that is wrong.
pub fn parse(bytes: &[u8]) -> Result<Net, PnmlError> {
    if bytes.len() as u64 > limits::BYTES {
        return Err(PnmlError::too_long());
    }
    let text = text::decode(bytes)?;
    let document = document::read(&text)?;
    resolve::net(document)
}
