//! The paper's future work (paper 004, section 6): several hash functions, and buckets of several
//! slots, with failures that are known before anything moves.
//!
//! # What carries over, and what does not
//!
//! With two hash functions and buckets of one slot, a subgraph has room exactly if it has fewer
//! edges than vertices. With k slots a bucket, or hyperedges of more than two vertices, *fewer
//! records than slots* ([`ComponentSpare`]) is still necessary and no longer sufficient: a dense
//! part of a subgraph may be full, and its records have nowhere else to go, while vacant slots are
//! in parts that lead into it and not out of it. (Two buckets of two slots, four records between
//! the two, and a fifth record between one of them and a third bucket: one of the six slots is
//! vacant, and yet a sixth record between the first two has no place.) Near the threshold nearly
//! all failures are of that kind; [`crate::counting::spare_bound_error`] measures how many.
//!
//! # What is exact
//!
//! A set of buckets is *closed* if all its slots are occupied and every candidate of every record
//! in it is in it. By Hall's theorem an insertion fails exactly if all its candidates are in closed
//! sets: the buckets that can be reached from the candidates, by going from a record to its other
//! candidates, either include one with a vacant slot, and then the path to it is a sequence of
//! moves, or are a closed set. While nothing is removed, closed sets stay closed: no record can
//! enter or leave. So each is searched once, read-only, by the first insertion that it lets fail,
//! and remembered; later ones are refused at once, and searches go around it. What that costs in
//! all is a read of each bucket; what it takes to remember is a number a bucket (four bytes, and
//! four more for the sets at most). A removal from a closed set opens it, with those found later
//! that lead into it.
//!
//! A failure that is not remembered yet costs the search, and still moves nothing.

mod spare;
mod table;

pub use spare::ComponentSpare;
pub use table::{MOST_WAYS, SeveralCuckoo, ShapeError};
