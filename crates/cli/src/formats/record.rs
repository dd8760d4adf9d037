//! Records as the formats read them.

use farslot::Expiry;

/// Which parts of a line are the key and the value.
#[derive(Clone, Debug, Default)]
pub struct Columns {
    /// The key's column or field, by name or number from 1; by default the first, or `key`.
    pub key: Option<String>,
    /// The value's; by default all that is not the key.
    pub value: Option<String>,
    /// Whether the first line names the columns; by default that is found out, and an error where
    /// it cannot be.
    pub header: Option<bool>,
}

impl Columns {
    /// Whether none is chosen.
    pub const fn are_default(&self) -> bool {
        self.key.is_none() && self.value.is_none()
    }
}

/// What the first line of a file was taken for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Header {
    /// The names of the columns: that was said, or it is `key,value`, as this program writes it.
    Sure,
    /// The names of the columns, for this reason.
    Guessed(String),
    /// A record: that was said, or for this reason.
    Record(String),
}

impl Header {
    /// Whether it names the columns.
    pub const fn is_named(&self) -> bool {
        !matches!(self, Self::Record(_))
    }
}

/// A record, and the line that it starts on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// From 1.
    pub line: u64,
    /// The key.
    pub key: Vec<u8>,
    /// The value.
    pub value: Vec<u8>,
    /// When it expires, where the file says so.
    pub expires: Option<Expiry>,
}

/// What the column or field is called that says when a record expires: milliseconds of Unix time.
/// It is read where the others are `key` and `value`, as this program writes them.
pub const EXPIRES: &str = "expires_unix_ms";

/// Reads such a moment: that of a record that stays is empty.
///
/// # Errors
/// What is wrong with it.
pub fn moment(text: &str) -> Result<Option<Expiry>, String> {
    match text.trim() {
        "" => Ok(None),
        number => match number.parse() {
            Ok(millis @ 1..) if millis <= Expiry::LATEST.millis() => {
                Ok(Some(Expiry::at_millis(millis)))
            }
            Ok(millis @ 1..) => Err(format!(
                "{EXPIRES} is {millis}, over the limit of {}",
                Expiry::LATEST.millis()
            )),
            _ => Err(format!(
                "{EXPIRES} is {text:?}, and no milliseconds of Unix time"
            )),
        },
    }
}

/// A line that holds no record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadLine {
    /// From 1.
    pub line: u64,
    /// What is wrong with it.
    pub reason: String,
}
