//! Linear tables under faults: histories, clients that stop, what clients remember, and a cache
//! before a table. What no fabric may change about them is in the tests `suites`.

mod broken_insert;
mod cache_histories;
mod cluster_hints;
mod heap_clients;
mod linearizable;
mod multi_key_stopped;
mod record_locations;
mod stopped_clients;
