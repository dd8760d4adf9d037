//! `farslot scan`: writes the records of an ordered table in a range of keys.

use crate::bytes;
use crate::formats::{Format, Writer};
use farslot::KeyRange;
use farslot_terminal::context::Context;
use farslot_terminal::failure::{Failure, Result};
use std::ffi::OsString;
use std::io;

/// The options of `farslot scan`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The table, an ordered one
    table: String,
    /// The first key [default: the table's first]
    #[arg(long, value_name = "KEY", allow_negative_numbers = true)]
    from: Option<OsString>,
    /// The key at which it ends, which is not written [default: none]
    #[arg(long, value_name = "KEY", allow_negative_numbers = true)]
    to: Option<OsString>,
    /// All keys that begin so, in place of a range
    #[arg(
        long,
        value_name = "KEY",
        allow_negative_numbers = true,
        conflicts_with_all = ["from", "to"]
    )]
    prefix: Option<OsString>,
    /// The most records
    #[arg(long)]
    limit: Option<u64>,
    /// Begin with the last key of the range, and go down
    #[arg(long)]
    reverse: bool,
    /// The format
    #[arg(long, short, default_value = "csv")]
    format: Format,
    /// The keys of the range, or the prefix, are hexadecimal digits
    #[arg(long)]
    hex: bool,
}

/// Records that are read in one transaction: what is written of a longer range was there at several
/// moments, one after the other.
const A_TRANSACTION: u64 = 1_000;

/// Writes the records of a range in the order of their keys.
///
/// # Errors
/// A table that has no order; what the fabric says.
pub fn run(args: Args, context: &Context) -> Result<()> {
    if context.json && args.format != Format::Ndjson {
        return Err(Failure::Usage("with --json, say --format ndjson".into()));
    }
    let key = |key: Option<OsString>| {
        key.map(|key| bytes::of_argument(key, args.hex).map_err(Failure::Usage))
            .transpose()
    };
    let (mut from, mut to) = match key(args.prefix)? {
        Some(prefix) => {
            let end = behind(&prefix);
            (prefix, end)
        }
        None => (key(args.from)?.unwrap_or_default(), key(args.to)?),
    };
    context.shared_address()?;
    let store = context.store()?;
    let mut left = args.limit.unwrap_or(u64::MAX);
    let mut writer = None;
    loop {
        let most = left.min(A_TRANSACTION) as usize;
        let range = KeyRange {
            from: &from,
            to: to.as_deref(),
            is_reversed: args.reverse,
        };
        let pairs = store.transaction(|t| t.scan(&args.table, range, most))?;
        // Not before: nothing is written of a table that cannot be scanned.
        let writer = match &mut writer {
            Some(writer) => writer,
            None => writer.insert(Writer::new(args.format, io::stdout().lock(), false)?),
        };
        for (key, value) in &pairs {
            writer.write(key, value, None)?;
        }
        left -= pairs.len() as u64;
        let is_last = pairs.len() < most;
        if let Some((last, _)) = pairs.into_iter().next_back() {
            (from, to) = range.rest(last);
        }
        if is_last || left == 0 {
            return Ok(writer.finish()?);
        }
    }
}

/// The first key behind all that begin so; nothing if there is none.
fn behind(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte != u8::MAX)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end)
}

#[cfg(test)]
mod tests {
    use super::behind;

    #[test]
    fn the_keys_of_a_prefix_end_before_the_next() {
        assert_eq!(behind(b"ab"), Some(b"ac".to_vec()));
        assert_eq!(behind(b"a\xff\xff"), Some(b"b".to_vec()));
        assert_eq!(behind(b"\xff"), None);
        assert_eq!(behind(b""), None);
    }
}
