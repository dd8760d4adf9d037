//! Sealed tables: what lookups read, how long building takes, and builders and readers under
//! faults. What no fabric may change about them is in the tests `suites`.

mod build_time;
mod faults;
mod reads;
