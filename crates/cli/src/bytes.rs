//! Keys and values on the command line and in JSON, where not every byte can stand for itself.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use farslot::is_visible;
use serde_json::{Map, Value};
use std::ffi::OsString;
use std::fmt::Write;
use std::os::unix::ffi::OsStringExt;

/// The bytes of an argument: as they are, or as pairs of hexadecimal digits.
///
/// # Errors
/// Says what is no hexadecimal digit.
pub fn of_argument(argument: OsString, hex: bool) -> Result<Vec<u8>, String> {
    let bytes = argument.into_vec();
    if hex { from_hex(&bytes) } else { Ok(bytes) }
}

/// Reads pairs of hexadecimal digits.
///
/// # Errors
/// Says what is wrong with them.
pub fn from_hex(text: &[u8]) -> Result<Vec<u8>, String> {
    let shown = || String::from_utf8_lossy(text);
    if !text.len().is_multiple_of(2) {
        return Err(format!(
            "{:?} has {} hexadecimal digits, which is no whole number of bytes",
            shown(),
            text.len()
        ));
    }
    let digit = |byte: u8| {
        char::from(byte)
            .to_digit(16)
            .ok_or_else(|| format!("{:?} is not hexadecimal", shown()))
    };
    text.chunks_exact(2)
        .map(|pair| Ok((digit(pair[0])? * 16 + digit(pair[1])?) as u8))
        .collect()
}

/// Writes bytes as pairs of hexadecimal digits.
#[must_use]
pub fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Adds `name: "text"` to a JSON object, or `name_base64` where the bytes are not UTF-8.
pub fn insert(object: &mut Map<String, Value>, name: &str, bytes: &[u8]) {
    match std::str::from_utf8(bytes) {
        Ok(text) => object.insert(name.into(), text.into()),
        Err(_) => object.insert(base64_name(name), STANDARD.encode(bytes).into()),
    };
}

/// The field that holds the base64 of what does not fit into the field `name`.
#[must_use]
pub fn base64_name(name: &str) -> String {
    format!("{name}_base64")
}

/// Decodes base64.
///
/// # Errors
/// Says what is wrong with it.
pub fn from_base64(text: &str) -> Result<Vec<u8>, String> {
    STANDARD
        .decode(text)
        .map_err(|error| format!("no base64: {error}"))
}

/// Bytes for a message: text, with what is not printable escaped, cut to a length to be read.
#[must_use]
pub fn shown(bytes: &[u8]) -> String {
    const MOST: usize = 80;
    let text = bytes[..bytes.len().min(MOST)].escape_ascii();
    let rest = if bytes.len() > MOST { "..." } else { "" };
    match std::str::from_utf8(bytes) {
        Ok(utf8) if bytes.len() <= MOST && utf8.chars().all(is_visible) => utf8.into(),
        _ => format!("{text}{rest}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn bad_hexadecimal_is_named() {
        assert!(from_hex(b"0g").unwrap_err().contains("0g"));
        assert!(from_hex(b"0").is_err());
        assert_eq!(from_hex(b""), Ok(vec![]));
    }

    proptest! {
        #[test]
        fn hexadecimal_round_trips(bytes: Vec<u8>) {
            prop_assert_eq!(from_hex(to_hex(&bytes).as_bytes()), Ok(bytes));
        }

        #[test]
        fn json_holds_any_bytes(bytes: Vec<u8>) {
            let mut object = Map::new();
            insert(&mut object, "key", &bytes);
            let back = match (object.get("key"), object.get("key_base64")) {
                (Some(Value::String(text)), None) => text.clone().into_bytes(),
                (None, Some(Value::String(text))) => from_base64(text).unwrap(),
                _ => unreachable!("one of the two"),
            };
            prop_assert_eq!(back, bytes);
        }

        #[test]
        fn anything_can_be_shown(bytes: Vec<u8>) {
            prop_assert!(shown(&bytes).chars().all(is_visible));
        }
    }
}
