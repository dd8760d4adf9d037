//! NIC profiles as text: TOML with a key for each field, dotted where the field is part of another.

use super::profile::NicProfile;
use toml::{Table, Value};

/// Why a text is no profile, or a profile's numbers cannot be simulated.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProfileError {
    /// The text is not TOML.
    #[error("not TOML: {why}")]
    Syntax {
        /// What the parser says, with the line.
        why: String,
    },
    /// A field without a default is not there.
    #[error("`{field}` is missing")]
    Missing {
        /// The field.
        field: &'static str,
    },
    /// No field has that name.
    #[error("there is no field `{field}`")]
    Unknown {
        /// The name.
        field: String,
    },
    /// A field's value is of another type.
    #[error("`{field}` is a TOML {found}: it must be {expected}")]
    Type {
        /// The field.
        field: &'static str,
        /// The type that it has.
        found: &'static str,
        /// What it must be.
        expected: &'static str,
    },
    /// A field's value is out of range.
    #[error("`{field}` is {value}: it must be {limit}")]
    Range {
        /// The field.
        field: &'static str,
        /// Its value.
        value: String,
        /// What is possible.
        limit: String,
    },
}

/// A field of a profile as text.
#[derive(Clone, Copy, Debug)]
pub struct ProfileField {
    /// Its key: as in [`NicProfile`], with a dot between a part and its field.
    pub name: &'static str,
    /// What it says, and its unit.
    pub meaning: &'static str,
    /// Whether a file may leave it out; it has the value of [`NicProfile::connectx5_edr`] then.
    pub optional: bool,
    range: Range,
}

#[derive(Clone, Copy, Debug)]
enum Range {
    Text,
    Bool,
    /// From the first to the second, fractions allowed.
    Number(f64, f64),
    /// The same, whole numbers only.
    Count(f64, f64),
}

/// A cost in ns that may be nothing; a second is more than any NIC takes for anything.
const COST: Range = Range::Number(0.0, 1e9);
/// A cost in ns whose inverse is a rate: at least the picosecond in which the simulator counts.
const SERVICE: Range = Range::Number(1e-3, 1e9);
const BYTES: Range = Range::Count(0.0, 4_294_967_295.0);

const fn required(name: &'static str, meaning: &'static str, range: Range) -> ProfileField {
    ProfileField {
        name,
        meaning,
        optional: false,
        range,
    }
}

const fn optional(name: &'static str, meaning: &'static str, range: Range) -> ProfileField {
    ProfileField {
        optional: true,
        ..required(name, meaning, range)
    }
}

/// All fields, in the order in which they are written.
pub const PROFILE_FIELDS: [ProfileField; 29] = [
    required("name", "what reports call it", Range::Text),
    required(
        "read_latency_ns",
        "ns of an unloaded 0-byte READ, from its posting to its completion",
        COST,
    ),
    required(
        "latency_per_byte_ns",
        "ns that each byte of payload adds to that",
        COST,
    ),
    required(
        "requester_ns.per_message",
        "ns for which a verb occupies the NIC that sends it: the inverse of the peak message rate",
        SERVICE,
    ),
    optional(
        "requester_ns.per_byte",
        "ns that each byte sent adds to that",
        COST,
    ),
    required(
        "responder_ns.per_message",
        "ns for which a READ of 0 bytes occupies the NIC that answers it",
        SERVICE,
    ),
    required(
        "responder_ns.per_byte",
        "ns that each byte of payload adds to that",
        COST,
    ),
    required(
        "link_bytes_per_ns",
        "bytes per ns (GB/s) of the link, each way",
        Range::Number(1e-6, 1e6),
    ),
    required(
        "header_bytes",
        "bytes of a message on the link beside its payload",
        // The model divides by it.
        Range::Count(1.0, 65_536.0),
    ),
    optional("doorbell_ns", "ns of client CPU for a doorbell", COST),
    optional("post_ns", "ns of client CPU for posting a verb", COST),
    optional(
        "atomic_ns",
        "ns by which an atomic occupies the responder longer than a READ of 8 bytes",
        COST,
    ),
    optional(
        "send_queue_depth",
        "verbs that an endpoint may have posted and not seen complete",
        Range::Count(1.0, 16_777_216.0),
    ),
    optional(
        "max_outstanding_reads",
        "READs and atomics of a queue pair that may be under way",
        Range::Count(1.0, 16_777_216.0),
    ),
    optional(
        "gathers",
        "whether one request can read several pieces",
        Range::Bool,
    ),
    optional(
        "gather_piece_ns",
        "ns of responder occupancy for each piece after the first",
        COST,
    ),
    optional(
        "cache.capacity_bytes",
        "bytes of the NIC's cache of connections and translations",
        Range::Count(0.0, 9_007_199_254_740_992.0),
    ),
    optional(
        "cache.queue_pair_bytes",
        "bytes of a queue pair's state in it",
        BYTES,
    ),
    optional(
        "cache.translation_bytes",
        "bytes of a page's translation in it",
        BYTES,
    ),
    optional(
        "cache.region_bytes",
        "bytes of a region's protection entry in it",
        BYTES,
    ),
    optional(
        "cache.miss_latency_ns",
        "ns by which misses delay a verb, on each side",
        COST,
    ),
    optional(
        "cache.miss_occupancy_ns",
        "ns for which the miss of a queue pair occupies the NIC",
        COST,
    ),
    optional(
        "cache.line_miss_occupancy_ns",
        "ns for which the miss of a translation or a region's entry occupies the NIC",
        COST,
    ),
    optional(
        "processor.verb_ns",
        "ns of a client's processor for a verb in mapped memory, beside the cache lines that it loads",
        COST,
    ),
    optional(
        "processor.line_ns",
        "ns of it for each of these cache lines; 0 where a NIC moves the bytes",
        COST,
    ),
    optional(
        "processor.atomic_ns",
        "ns by which an atomic in mapped memory takes it longer than a READ of 8 bytes",
        COST,
    ),
    optional(
        "receiver_retry_ns",
        "ns after which a message that found the receive queue full is tried again",
        COST,
    ),
    optional(
        "receiver_retries",
        "tries of a message after the first",
        BYTES,
    ),
    optional(
        "handler_ns",
        "ns of the owner's CPU for a request, before its handler",
        COST,
    ),
];

impl NicProfile {
    /// Reads a profile from TOML. Fields that may be left out have the values of
    /// [`NicProfile::connectx5_edr`]; [`PROFILE_FIELDS`] says which.
    ///
    /// # Errors
    /// [`ProfileError`] names the field and what is possible.
    pub fn parse(text: &str) -> Result<Self, ProfileError> {
        let given: Table = text.parse().map_err(syntax)?;
        if let Some(field) = unknown_field("", &given) {
            return Err(ProfileError::Unknown { field });
        }
        let missing = |field: &&ProfileField| !field.optional && find(&given, field.name).is_none();
        if let Some(field) = PROFILE_FIELDS.iter().find(missing) {
            return Err(ProfileError::Missing { field: field.name });
        }
        let mut table = Self::connectx5_edr().table()?;
        overlay(&mut table, given);
        check(&table)?;
        table.try_into().map_err(syntax)
    }

    /// Writes the profile as TOML that [`NicProfile::parse`] reads. Above each field stand its
    /// meaning and what `note` says of it.
    ///
    /// # Errors
    /// As [`NicProfile::validate`].
    pub fn to_toml(&self, note: impl Fn(&str) -> Option<String>) -> Result<String, ProfileError> {
        let table = self.table()?;
        check(&table)?;
        let mut text = String::new();
        for field in &PROFILE_FIELDS {
            let Some(value) = find(&table, field.name) else {
                continue;
            };
            text += &format!("# {}.\n", field.meaning);
            for line in note(field.name).iter().flat_map(|note| note.lines()) {
                text += &format!("# {line}\n");
            }
            text += &format!("{} = {value}\n\n", field.name);
        }
        text.truncate(text.trim_end().len());
        text.push('\n');
        Ok(text)
    }

    /// Checks that the profile can be simulated and priced: every number finite and in the range of
    /// its field.
    ///
    /// # Errors
    /// [`ProfileError::Range`] for the first field that is not.
    pub fn validate(&self) -> Result<(), ProfileError> {
        check(&self.table()?)
    }

    fn table(&self) -> Result<Table, ProfileError> {
        Table::try_from(self).map_err(|error| ProfileError::Syntax {
            why: error.to_string(),
        })
    }
}

fn syntax(error: toml::de::Error) -> ProfileError {
    ProfileError::Syntax {
        why: error.to_string().trim_end().to_owned(),
    }
}

/// The first name in a table that is no field's.
fn unknown_field(prefix: &str, table: &Table) -> Option<String> {
    table.iter().find_map(|(key, value)| {
        let name = format!("{prefix}{key}");
        let part = format!("{name}.");
        match value {
            Value::Table(parts) if PROFILE_FIELDS.iter().any(|f| f.name.starts_with(&part)) => {
                unknown_field(&part, parts)
            }
            _ if PROFILE_FIELDS.iter().any(|field| field.name == name) => None,
            _ => Some(name),
        }
    })
}

/// The value at a dotted name.
fn find<'t>(table: &'t Table, name: &str) -> Option<&'t Value> {
    match name.split_once('.') {
        None => table.get(name),
        Some((part, rest)) => find(table.get(part)?.as_table()?, rest),
    }
}

/// Puts what is given over what is there.
fn overlay(table: &mut Table, given: Table) {
    for (key, value) in given {
        match (table.get_mut(&key), value) {
            (Some(Value::Table(base)), Value::Table(parts)) => overlay(base, parts),
            (_, value) => {
                table.insert(key, value);
            }
        }
    }
}

fn check(table: &Table) -> Result<(), ProfileError> {
    PROFILE_FIELDS.iter().try_for_each(|field| {
        let value = find(table, field.name).ok_or(ProfileError::Missing { field: field.name })?;
        field.check(value)
    })
}

impl ProfileField {
    fn check(&self, value: &Value) -> Result<(), ProfileError> {
        let (number, least, most) = match (self.range, value) {
            (Range::Text, Value::String(text)) if text.is_empty() => {
                return Err(self.out_of_range(value, "at least one character".into()));
            }
            (Range::Text, Value::String(_)) | (Range::Bool, Value::Boolean(_)) => return Ok(()),
            (Range::Number(least, most), Value::Float(number)) => (*number, least, most),
            (Range::Number(least, most) | Range::Count(least, most), Value::Integer(number)) => {
                (*number as f64, least, most)
            }
            _ => {
                return Err(ProfileError::Type {
                    field: self.name,
                    found: value.type_str(),
                    expected: match self.range {
                        Range::Text => "a string",
                        Range::Bool => "true or false",
                        Range::Number(..) => "a number",
                        Range::Count(..) => "a whole number",
                    },
                });
            }
        };
        // Not a number is in no range.
        if (least..=most).contains(&number) {
            return Ok(());
        }
        Err(self.out_of_range(value, format!("from {least} to {most}")))
    }

    fn out_of_range(&self, value: &Value, limit: String) -> ProfileError {
        ProfileError::Range {
            field: self.name,
            value: value.to_string(),
            limit,
        }
    }
}

#[cfg(test)]
#[path = "profile_text_tests.rs"]
mod tests;
