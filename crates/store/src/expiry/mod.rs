//! Records with a time to live.
//!
//! ```text
//! value as it is stored | moment, 8 bytes: milliseconds since 1970, little-endian; 0 for never | value |
//! ```
//! Of a table that is [expiring](crate::TableOptions::expiring), every value begins with the moment
//! at which its record expires. From that moment on the key is absent, whoever asks: clients compare
//! the moment with their own clock (`session`). So the clocks of machines that share such a table
//! should agree as well as its times to live are to be exact.
//!
//! A record that has expired takes memory until it is removed, by a client that puts another in its
//! place or by a [`Sweeper`] (`sweeper`). Whoever removes one names all of its bytes, the moment
//! included: a record that was put meanwhile stays.
//!
//! The index knows nothing of this. Its record of a value that lives for a while is a longer value.

mod moment;
mod session;
mod sweeper;
mod thread;

pub(crate) use moment::Clock;
pub use moment::Expiry;
pub(crate) use session::Expiring;
pub use thread::Sweeper;
