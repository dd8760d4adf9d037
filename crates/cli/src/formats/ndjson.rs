//! A JSON object on each line: `{"key":"...","value":"..."}`. What is not UTF-8 is in base64, in
//! fields of another name: `{"key_base64":"...","value":"..."}`.

use super::lines::read_line;
use super::record::{BadLine, Columns, EXPIRES, Record, moment};
use crate::bytes;
use farslot::Expiry;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::io::{self, BufRead, Write};

const KEY: &str = "key";
const VALUE: &str = "value";

/// Reads records from objects.
pub struct NdjsonReader<R> {
    input: R,
    line: Vec<u8>,
    number: u64,
    key: String,
    value: Option<String>,
    /// Whether a field may say when a record expires.
    expires: bool,
}

impl<R: BufRead> NdjsonReader<R> {
    /// A reader for these fields.
    pub fn new(input: R, columns: &Columns) -> Self {
        Self {
            input,
            line: Vec::new(),
            number: 0,
            key: columns.key.clone().unwrap_or_else(|| KEY.into()),
            value: columns.value.clone(),
            expires: columns.are_default(),
        }
    }

    /// The next record or bad line; nothing at the end. Empty lines are passed over.
    ///
    /// # Errors
    /// If the file cannot be read, or a line is too long.
    pub fn next(&mut self) -> io::Result<Option<Result<Record, BadLine>>> {
        loop {
            self.line.clear();
            self.number += 1;
            if !read_line(&mut self.input, &mut self.line, self.number)? {
                return Ok(None);
            }
            if !self.line.trim_ascii().is_empty() {
                let line = self.number;
                return Ok(Some(
                    self.record().map_err(|reason| BadLine { line, reason }),
                ));
            }
        }
    }

    fn record(&self) -> Result<Record, String> {
        let Fields(mut fields) =
            serde_json::from_slice(&self.line).map_err(|error| in_its_line(&error))?;
        let key = take(&mut fields, &self.key)?
            .ok_or_else(|| format!("it has no field {:?}", self.key))?;
        let expires = match self.expires {
            true => taken_moment(&mut fields)?,
            false => None,
        };
        let value = match &self.value {
            Some(name) => take(&mut fields, name)?,
            None => rest(fields)?,
        };
        let missing = || {
            format!(
                "it has no field {:?}",
                self.value.as_deref().unwrap_or(VALUE)
            )
        };
        Ok(Record {
            line: self.number,
            key,
            value: value.ok_or_else(missing)?,
            expires,
        })
    }
}

/// The fields of an object, in order, each once, their values as they were written.
struct Fields<'l>(Vec<(Cow<'l, str>, &'l RawValue)>);

impl<'de> Deserialize<'de> for Fields<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Collect;
        impl<'de> Visitor<'de> for Collect {
            type Value = Fields<'de>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut fields: Vec<(Cow<'de, str>, &'de RawValue)> = Vec::new();
                while let Some((name, value)) = map.next_entry::<String, &RawValue>()? {
                    if fields.iter().any(|(known, _)| *known == name) {
                        return Err(serde::de::Error::custom(format_args!(
                            "the field {name:?} stands twice"
                        )));
                    }
                    fields.push((name.into(), value));
                }
                Ok(Fields(fields))
            }
        }
        deserializer.deserialize_map(Collect)
    }
}

/// Takes a field out, plain or as base64.
fn take(
    fields: &mut Vec<(Cow<'_, str>, &RawValue)>,
    name: &str,
) -> Result<Option<Vec<u8>>, String> {
    let encoded = bytes::base64_name(name);
    let place = |wanted: &str| fields.iter().position(|(known, _)| known == wanted);
    match (place(name), place(&encoded)) {
        (Some(_), Some(_)) => Err(format!("it has both {name:?} and {encoded:?}")),
        (Some(index), None) => content(fields.remove(index).1).map(Some),
        (None, Some(index)) => {
            let text = content(fields.remove(index).1)?;
            let text = String::from_utf8_lossy(&text);
            let decoded = bytes::from_base64(&text);
            decoded
                .map(Some)
                .map_err(|why| format!("{encoded:?} is {why}"))
        }
        (None, None) => Ok(None),
    }
}

/// Takes out when the record expires, where there is a value beside that and nothing else.
fn taken_moment(fields: &mut Vec<(Cow<'_, str>, &RawValue)>) -> Result<Option<Expiry>, String> {
    let is_value = |name: &str| name == VALUE || name == bytes::base64_name(VALUE);
    match &fields[..] {
        [(one, _), (other, _)] if one == EXPIRES && is_value(other) => {}
        [(one, _), (other, _)] if other == EXPIRES && is_value(one) => {}
        _ => return Ok(None),
    }
    let found = take(fields, EXPIRES)?.unwrap_or_default();
    moment(&String::from_utf8_lossy(&found))
}

/// All fields that are left: the content if there is one, an object if there are more.
fn rest(mut fields: Vec<(Cow<'_, str>, &RawValue)>) -> Result<Option<Vec<u8>>, String> {
    match fields.len() {
        0 => Ok(None),
        1 => match take(&mut fields, VALUE)? {
            None => content(fields[0].1).map(Some),
            value => Ok(value),
        },
        _ => {
            let mut object = Vec::from(b"{");
            for (index, (name, value)) in fields.iter().enumerate() {
                let name = serde_json::to_string(name).map_err(|error| error.to_string())?;
                let comma = if index == 0 { "" } else { "," };
                object.extend_from_slice(format!("{comma}{name}:{value}").as_bytes());
            }
            object.push(b'}');
            Ok(Some(object))
        }
    }
}

/// The bytes of a JSON value: of a string its text, of anything else how it was written. Of null
/// there are none.
fn content(value: &RawValue) -> Result<Vec<u8>, String> {
    if value.get().starts_with('"') {
        let text: String =
            serde_json::from_str(value.get()).map_err(|error| without_place(&error))?;
        return Ok(text.into_bytes());
    }
    if value.get() == "null" {
        return Err("null is no key and no value".into());
    }
    Ok(value.get().as_bytes().to_vec())
}

/// An error without the number of the line, which is that in the file, and said beside it.
fn in_its_line(error: &serde_json::Error) -> String {
    let problem = without_place(error);
    match error.column() {
        0 => problem,
        column => format!("{problem} at column {column}"),
    }
}

fn without_place(error: &serde_json::Error) -> String {
    let said = error.to_string();
    said.split(" at line ").next().unwrap_or_default().into()
}

/// Writes records as objects.
pub struct NdjsonWriter<W: Write> {
    output: io::BufWriter<W>,
    expires: bool,
}

impl<W: Write> NdjsonWriter<W> {
    /// A writer, which says when records expire, if `expires`.
    pub fn new(output: W, expires: bool) -> Self {
        let output = io::BufWriter::new(output);
        Self { output, expires }
    }

    /// Writes a record.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write(&mut self, key: &[u8], value: &[u8], expires: Option<Expiry>) -> io::Result<()> {
        let mut object = Map::new();
        bytes::insert(&mut object, KEY, key);
        bytes::insert(&mut object, VALUE, value);
        if let Some(expires) = expires.filter(|_| self.expires) {
            object.insert(EXPIRES.into(), expires.millis().into());
        }
        serde_json::to_writer(&mut self.output, &Value::Object(object))?;
        self.output.write_all(b"\n")
    }

    /// Writes what is still held back.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn finish(&mut self) -> io::Result<()> {
        self.output.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &[u8], columns: &Columns) -> Vec<Result<(String, String), BadLine>> {
        let mut reader = NdjsonReader::new(text, columns);
        let text = |bytes| String::from_utf8(bytes).unwrap();
        std::iter::from_fn(|| reader.next().unwrap())
            .map(|row| row.map(|record| (text(record.key), text(record.value))))
            .collect()
    }

    fn one(text: &str, key: Option<&str>, value: Option<&str>) -> Result<(String, String), String> {
        let columns = Columns {
            key: key.map(Into::into),
            value: value.map(Into::into),
            header: None,
        };
        let mut rows = read(text.as_bytes(), &columns);
        assert_eq!(rows.len(), 1);
        rows.remove(0).map_err(|bad| bad.reason)
    }

    fn pair(key: &str, value: &str) -> Result<(String, String), String> {
        Ok((key.into(), value.into()))
    }

    #[test]
    fn fields_are_found_and_the_rest_is_the_value() {
        assert_eq!(
            one(r#"{"value":"b","key":"a"}"#, None, None),
            pair("a", "b")
        );
        assert_eq!(
            one(r#"{"key":7,"value":[1, 2]}"#, None, None),
            pair("7", "[1, 2]")
        );
        assert_eq!(
            one(r#"{"key_base64":"YQ==","value_base64":"Yg=="}"#, None, None),
            pair("a", "b")
        );
        assert_eq!(
            one(
                r#"{"id":"x","n":12345678901234567890123}"#,
                Some("id"),
                None
            ),
            pair("x", "12345678901234567890123")
        );
        assert_eq!(
            one(r#"{"z":1.50,"id":"x","a":"\u00e9"}"#, Some("id"), None),
            pair("x", r#"{"z":1.50,"a":"\u00e9"}"#)
        );
        assert_eq!(
            one(r#"{"id":"x","a":1,"b":2}"#, Some("b"), Some("a")),
            pair("2", "1")
        );
    }

    #[test]
    fn moments_are_read_where_this_program_has_written_them() {
        let read = |text: &str| {
            let mut reader = NdjsonReader::new(text.as_bytes(), &Columns::default());
            reader.next().unwrap().unwrap()
        };
        let record = read(r#"{"key":"a","value_base64":"Yg==","expires_unix_ms":7}"#).unwrap();
        assert_eq!(
            (&*record.value, record.expires),
            (&b"b"[..], Some(Expiry::at_millis(7)))
        );
        let record = read(r#"{"key":"a","expires_unix_ms":7}"#).unwrap();
        assert_eq!((&*record.value, record.expires), (&b"7"[..], None));
        let record = read(r#"{"key":"a","value":1,"more":2,"expires_unix_ms":7}"#).unwrap();
        assert!(record.expires.is_none() && record.value.starts_with(b"{"));
        let bad = read(r#"{"key":"a","value":"b","expires_unix_ms":"soon"}"#).unwrap_err();
        assert!(bad.reason.contains("soon"), "{bad:?}");
    }

    #[test]
    fn bad_lines_are_named_and_the_rest_is_read() {
        for (text, part) in [
            ("[1]", "an object"),
            ("{\"key\":\"a\"}", "no field \"value\""),
            ("{\"value\":\"a\"}", "no field \"key\""),
            ("{\"key\":1,\"key\":2}", "twice"),
            ("{\"key\":1,\"key_base64\":\"\",\"value\":1}", "both"),
            ("{\"key\":1,\"value_base64\":\"?\"}", "no base64"),
            ("{\"key\":\"a\"", "EOF"),
            ("nonsense", "expected ident at column 2"),
        ] {
            let reason = one(text, None, None).unwrap_err();
            assert!(reason.contains(part), "{text}: {reason}");
        }
        let rows = read(
            b"\n{\"key\":\"\xff\",\"value\":1}\n{\"key\":1,\"value\":2}",
            &Columns::default(),
        );
        assert!(matches!(&rows[0], Err(bad) if bad.line == 2), "{rows:?}");
        assert_eq!(rows[1], Ok(("1".into(), "2".into())));
    }
}
