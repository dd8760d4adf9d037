//! Numbers on the command line: `1_000_000`, `10M`, `64KiB`, `10ms`.

use bytesize::ByteSize;
use farslot::Expiry;
use std::time::Duration;

/// A number of at least 1, which may be written as `1_000_000` or as `1M`: with k, M, G or T for
/// thousands.
///
/// # Errors
/// Says what is no such number.
pub fn count(text: &str) -> Result<u64, String> {
    match any_count(text)? {
        0 => Err("it must be at least 1".into()),
        count => Ok(count),
    }
}

/// A number that may be 0, written as for [`count`].
///
/// # Errors
/// Says what is no such number.
pub fn any_count(text: &str) -> Result<u64, String> {
    let bad = || format!("{text:?} is no number such as 10000000, 10_000_000 or 10M");
    let powers = [
        ('k', 1_000),
        ('M', 1_000_000),
        ('G', 1_000_000_000),
        ('T', 1_000_000_000_000),
    ];
    let power = powers
        .into_iter()
        .find_map(|(letter, factor)| Some((text.strip_suffix(letter)?, factor)));
    let (digits, factor) = power.unwrap_or((text, 1_u64));
    if !digits.starts_with(|first: char| first.is_ascii_digit()) {
        return Err(bad());
    }
    let number: u64 = digits.replace('_', "").parse().map_err(|_| bad())?;
    number.checked_mul(factor).ok_or_else(bad)
}

/// The same for numbers of things in this process's memory.
///
/// # Errors
/// Says what is no such number.
pub fn small_count(text: &str) -> Result<usize, String> {
    let number = count(text)?;
    usize::try_from(number).map_err(|_| format!("over the limit of {}", usize::MAX))
}

/// A number of clients, which may be 0, written as for [`count`].
///
/// # Errors
/// Says what is no such number.
pub fn clients(text: &str) -> Result<u32, String> {
    let number = any_count(text)?;
    u32::try_from(number).map_err(|_| format!("over the limit of {}", u32::MAX))
}

/// A number of bytes, such as `64` or `4KiB`, of a field or of one READ.
///
/// # Errors
/// Says what is no such number, or that it is over 2^32 - 1.
pub fn field_bytes(text: &str) -> Result<u32, String> {
    let size: ByteSize = text
        .replace('_', "")
        .parse()
        .map_err(|_| format!("{text:?} is no size such as 64 or 4KiB"))?;
    u32::try_from(size.as_u64()).map_err(|_| format!("over the limit of {}", u32::MAX))
}

/// A time as `500us`, `1.5s` or `1h 30m`: at most 100,000 days.
///
/// # Errors
/// Says what is no such time, or that it is over the limit.
pub fn time(text: &str) -> Result<Duration, String> {
    let time = match humantime::parse_duration(text) {
        Ok(time) => time,
        Err(humantime::DurationError::NumberOverflow) => Duration::MAX,
        Err(_) => return Err("no time such as 500us, 10ms, 1s, 5m, 1h30m or 1d".into()),
    };
    if time > Expiry::LONGEST {
        let days = Expiry::LONGEST.as_secs() / 86_400;
        return Err(format!("{text} is over the limit of {days}d"));
    }
    Ok(time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_and_sizes_are_read() {
        for (text, number) in [
            ("7", 7),
            ("10M", 10_000_000),
            ("1_000_000", 1_000_000),
            ("2k", 2_000),
            ("3T", 3_000_000_000_000),
        ] {
            assert_eq!(count(text), Ok(number));
        }
        for bad in ["", "M", "10m", "-1", "_1", "1.5M", "99999999T", "1 000"] {
            assert!(count(bad).is_err(), "{bad}");
        }
        assert!(count("0").unwrap_err().contains("at least 1"));
        assert_eq!(any_count("0"), Ok(0));
        assert_eq!(field_bytes("4KiB"), Ok(4096));
        assert_eq!(field_bytes("0"), Ok(0));
        assert!(field_bytes("4GiB").unwrap_err().contains("limit"));
        assert!(field_bytes("much").is_err());
    }

    #[test]
    fn times_have_units() {
        assert_eq!(time("500us"), Ok(Duration::from_micros(500)));
        assert_eq!(time("10ms"), Ok(Duration::from_millis(10)));
        assert_eq!(time("1.5s"), Ok(Duration::from_millis(1_500)));
        assert_eq!(time("5m"), Ok(Duration::from_secs(300)));
        assert_eq!(time("1h"), Ok(Duration::from_secs(3_600)));
        assert_eq!(time("2d"), Ok(Duration::from_secs(172_800)));
        assert_eq!(time("100000d"), Ok(Expiry::LONGEST));
        for long in ["100001d", "999999999999d", "99999999999999999999999s"] {
            let said = time(long).unwrap_err();
            assert!(said.contains(long) && said.contains("100000d"), "{said}");
        }
        assert_eq!(time("1h 30m"), Ok(Duration::from_secs(5_400)));
        for wrong in ["", "s", "10", "-1s", "1e3s", "1.2.3s", "5 x"] {
            assert!(time(wrong).is_err(), "{wrong}");
        }
    }
}
