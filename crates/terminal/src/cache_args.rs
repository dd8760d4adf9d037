//! The options for a cache of answers in the client.

use crate::number;
use bytesize::ByteSize;
use farslot::Cache;
use std::time::Duration;

/// A cache of answers in each client thread.
#[derive(clap::Args, Clone, Copy, Debug)]
pub struct CacheArgs {
    /// Memory in which each client thread of Farslot keeps answers, its record locations included
    /// [default: no cache]
    #[arg(long, value_name = "SIZE", requires = "stale_for")]
    cache: Option<ByteSize>,
    /// How old an answer of the cache may be, in which time what others write is not seen: 500us,
    /// 10ms, 1s
    #[arg(long, value_name = "TIME", requires = "cache", value_parser = number::time)]
    stale_for: Option<Duration>,
}

impl CacheArgs {
    /// The cache that is asked for.
    pub fn cache(&self) -> Option<Cache> {
        let (size, bound) = self.cache.zip(self.stale_for)?;
        Some(Cache::new(size.as_u64()).stale_for(bound))
    }
}
