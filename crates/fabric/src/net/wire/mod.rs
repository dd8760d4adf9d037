//! The frames, as pure functions between words and values: no I/O, and no panic on any input.
//! [`tcp`](crate::tcp) has the diagrams.

mod failure;
mod header;
mod request;
#[cfg(test)]
mod tests;

pub use crate::error::Malformed;
pub use failure::{FAILURE_WORDS, decode_failure, encode_failure};
pub use header::{FrameKind, Header, LARGEST_COUNT, VERSION, words_of};
pub use request::{
    READ_WORDS, Request, Span, WRITE_WORDS, WirePieces, decode_reads, decode_request, decode_start,
    is_call, put_call, put_compare_swap, put_fence, put_fetch_add, put_read, put_read_many,
    put_write, put_write_imm, read_many_words, request_words,
};
