//! The options for a cache of answers in the client.

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
    #[arg(long, value_name = "TIME", requires = "cache", value_parser = time)]
    stale_for: Option<Duration>,
}

impl CacheArgs {
    /// The cache that is asked for.
    pub fn cache(&self) -> Option<Cache> {
        let (size, bound) = self.cache.zip(self.stale_for)?;
        Some(Cache::new(size.as_u64()).stale_for(bound))
    }
}

/// A time with its unit.
fn time(text: &str) -> Result<Duration, String> {
    let digits = text
        .find(|letter: char| !letter.is_ascii_digit() && letter != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let seconds = match unit {
        "us" | "\u{b5}s" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        _ => return Err("no time such as 500us, 10ms or 1s".into()),
    };
    let number: f64 = number.parse().map_err(|_| "no number".to_string())?;
    Duration::try_from_secs_f64(number * seconds).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::time;
    use std::time::Duration;

    #[test]
    fn times_have_units() {
        assert_eq!(time("500us"), Ok(Duration::from_micros(500)));
        assert_eq!(time("10ms"), Ok(Duration::from_millis(10)));
        assert_eq!(time("1.5s"), Ok(Duration::from_millis(1_500)));
        for wrong in [
            "",
            "s",
            "10",
            "5 ms",
            "-1s",
            "1e3s",
            "1m",
            "1.2.3s",
            "99999999999999999999999s",
        ] {
            assert!(time(wrong).is_err(), "{wrong}");
        }
    }
}
