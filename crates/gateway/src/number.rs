//! Numbers as text, as Redis reads and writes them.

/// A whole number of 64 bits in its only form: no sign but `-`, no leading zeros, no spaces.
pub(crate) fn integer(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    match digits {
        [b'0'] if !negative => return Some(0),
        [b'1'..=b'9', ..] if digits.len() <= 19 => {}
        _ => return None,
    }
    let mut number = 0_i64;
    for digit in digits {
        let digit = i64::from(digit.checked_sub(b'0').filter(|digit| *digit <= 9)?);
        // Towards its sign, as the lowest number has no opposite.
        let digit = if negative { -digit } else { digit };
        number = number.checked_mul(10)?.checked_add(digit)?;
    }
    Some(number)
}

/// Bytes of the longest sum: that of a number with 309 digits before the point and a fraction.
pub(crate) const LONGEST: usize = 340;

/// Digits behind the point that sums keep.
const FRACTION: u32 = 17;
/// Numbers below this are added as decimals.
const MOST_WHOLE: i128 = 10_i128.pow(19);

/// A number with a fraction, as [`add`] takes it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Number {
    /// So many times 10^-17, exactly.
    Decimal(i128),
    /// One that is too large for that, or has more digits.
    Binary(f64),
}

/// Reads `-12.5`, `3e2` and the like; neither spaces nor what is not a number.
pub(crate) fn float(text: &[u8]) -> Option<Number> {
    let text = std::str::from_utf8(text).ok()?;
    if let Some(decimal) = decimal(text) {
        return Some(Number::Decimal(decimal));
    }
    let number = text.parse::<f64>().ok()?;
    (!number.is_nan()).then_some(Number::Binary(number))
}

/// Digits with or without a point and an exponent, if they are a multiple of 10^-17, and not too
/// large.
fn decimal(text: &str) -> Option<i128> {
    let (negative, number) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let (digits, exponent) = match number.split_once(['e', 'E']) {
        Some((digits, exponent)) => (digits, exponent.parse::<i16>().ok()?),
        None => (number, 0),
    };
    let (integer, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let all: Vec<u8> = [integer, fraction].concat().into_bytes();
    if all.is_empty() || all.len() > 36 || !all.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let mantissa: i128 = std::str::from_utf8(&all).ok()?.parse().ok()?;
    let shift = FRACTION as i32 - fraction.len() as i32 + i32::from(exponent);
    let power = 10_i128.checked_pow(shift.unsigned_abs())?;
    let scaled = match shift {
        0.. => mantissa.checked_mul(power)?,
        _ if mantissa % power == 0 => mantissa / power,
        _ => return None,
    };
    let is_small = scaled / 10_i128.pow(FRACTION) < MOST_WHOLE;
    is_small.then_some(if negative { -scaled } else { scaled })
}

/// The sum as text, or nothing if it is no finite number. Decimals are added as decimals: 0.1 and
/// 0.2 make 0.3, as in Redis, whose numbers have 64 bits of mantissa.
pub(crate) fn add(one: Number, other: Number) -> Option<String> {
    if let (Number::Decimal(one), Number::Decimal(other)) = (one, other) {
        let sum = one + other;
        let scale = 10_i128.pow(FRACTION);
        if (sum / scale).abs() < MOST_WHOLE {
            let (integer, fraction) = (
                sum.unsigned_abs() / scale as u128,
                sum.unsigned_abs() % scale as u128,
            );
            let sign = if sum < 0 { "-" } else { "" };
            let digits = format!("{fraction:017}");
            let digits = digits.trim_end_matches('0');
            let point = if digits.is_empty() { "" } else { "." };
            return Some(format!("{sign}{integer}{point}{digits}"));
        }
    }
    let binary = |number| match number {
        Number::Decimal(decimal) => decimal as f64 / 10_f64.powi(FRACTION as i32),
        Number::Binary(number) => number,
    };
    let sum = binary(one) + binary(other);
    let digits = sum.is_finite().then(|| format!("{sum:.17}"))?;
    Some(digits.trim_end_matches('0').trim_end_matches('.').into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn integers_have_one_form(number: i64, text in "[-+ 0-9]{0,21}") {
            prop_assert_eq!(integer(number.to_string().as_bytes()), Some(number));
            let read = integer(text.as_bytes());
            let expected = text.parse::<i64>().ok().filter(|read| read.to_string() == text);
            prop_assert_eq!(read, expected);
        }

        #[test]
        fn sums_of_decimals_are_exact(one in -10_000_000_i64..10_000_000, other in -10_000_000_i64..10_000_000) {
            let text = |n: i64| format!("{}{}.{:03}", if n < 0 { "-" } else { "" }, n.abs() / 1000, n.abs() % 1000);
            let sum = add(float(text(one).as_bytes()).unwrap(), float(text(other).as_bytes()).unwrap());
            let trimmed = text(one + other);
            let trimmed = trimmed.trim_end_matches('0').trim_end_matches('.');
            prop_assert_eq!(sum.unwrap(), trimmed);
        }

        #[test]
        fn any_text_is_a_number_or_not(text: Vec<u8>) {
            if let Some(number) = float(&text) {
                let _ = add(number, number);
            }
        }
    }

    #[test]
    fn sums_are_those_of_redis() {
        let sum = |one: &str, other: &str| add(float(one.as_bytes())?, float(other.as_bytes())?);
        assert_eq!(sum("10.50", "0.1").as_deref(), Some("10.6"));
        assert_eq!(sum("0.1", "0.2").as_deref(), Some("0.3"));
        assert_eq!(sum("5.0e3", "2.0e2").as_deref(), Some("5200"));
        assert_eq!(sum("3", "-5").as_deref(), Some("-2"));
        assert_eq!(sum("+1", ".5").as_deref(), Some("1.5"));
        assert_eq!(sum("5.", "-1e-3").as_deref(), Some("4.999"));
        assert_eq!(
            sum("9223372036854775807", "1").as_deref(),
            Some("9223372036854775808")
        );
        assert_eq!(sum("1e30", "1e30").map(|sum| sum.len()), Some(31));
        assert_eq!(sum("1e308", "1e308"), None);
        assert_eq!(sum("inf", "1"), None);
        assert_eq!(float(b" 1"), None);
        assert_eq!(float(b"nan"), None);
        assert_eq!(float(b""), None);
    }
}
