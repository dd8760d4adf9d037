//! Records as the formats read them.

/// Which parts of a line are the key and the value.
#[derive(Clone, Debug, Default)]
pub struct Columns {
    /// The key's column or field, by name or number from 1; by default the first, or `key`.
    pub key: Option<String>,
    /// The value's; by default all that is not the key.
    pub value: Option<String>,
    /// Whether the first line names the columns; by default it does if it must, or if it looks like
    /// it.
    pub header: Option<bool>,
}

/// What the first line of a file was taken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Header {
    /// The names of the columns: that was said, or it is `key,value`, as this program writes it.
    Sure,
    /// The names of the columns, by the looks of it.
    Guessed,
    /// A record.
    Record,
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
}

/// A line that holds no record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadLine {
    /// From 1.
    pub line: u64,
    /// What is wrong with it.
    pub reason: String,
}
