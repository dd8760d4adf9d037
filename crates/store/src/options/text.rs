//! Options as pairs of texts, for serde: a name, and a value that is read as what the option is.

use crate::StoreError;
use crate::error::bad_option;
use bytesize::ByteSize;
use serde::de::value::{MapDeserializer, StrDeserializer};
use serde::de::{Deserializer, Error, IntoDeserializer, Visitor};
use serde::forward_to_deserialize_any;
use std::fmt::{self, Display};

/// Reads a struct of options, each of which may be given once.
pub(super) struct Pairs<I>(pub(super) I);

impl<'o, I: Iterator<Item = (&'o str, &'o str)>> Deserializer<'o> for Pairs<I> {
    type Error = BadPair;

    fn deserialize_struct<V: Visitor<'o>>(
        self,
        _: &'static str,
        names: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, BadPair> {
        let texts = self.0.map(|(name, value)| {
            let option = names.iter().find(|known| **known == name);
            let option = option.copied().unwrap_or(UNNAMED);
            (name, Text { option, value })
        });
        visitor.visit_map(MapDeserializer::new(texts))
    }

    fn deserialize_any<V: Visitor<'o>>(self, _: V) -> Result<V::Value, BadPair> {
        Err(BadPair::custom("pairs are options of a struct"))
    }

    forward_to_deserialize_any! {
        <W: Visitor<'o>>
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit
        unit_struct newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

/// A value, and the option that it is of.
struct Text<'o> {
    option: &'static str,
    value: &'o str,
}

impl Text<'_> {
    fn refused(&self, limit: impl Into<String>) -> BadPair {
        BadPair {
            option: self.option,
            value: format!("{:?}", self.value),
            limit: limit.into(),
        }
    }

    /// A number, with a unit or without.
    fn number(&self, bits: u32) -> Result<u64, BadPair> {
        let text = self.value.replace('_', "");
        // One with a unit that is too large is read as the largest.
        let sized = || text.parse::<ByteSize>().ok().map(|sized| sized.as_u64());
        let sized = || sized().filter(|number| *number < u64::MAX);
        let number = text.parse().ok().or_else(sized);
        let number = number.filter(|number| *number <= u64::MAX >> (u64::BITS - bits));
        let limit = || format!("a number, such as 1_000 or 4KiB, of at most {bits} bits");
        number.ok_or_else(|| self.refused(limit()))
    }
}

impl<'o> IntoDeserializer<'o, BadPair> for Text<'o> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl<'o> Deserializer<'o> for Text<'o> {
    type Error = BadPair;

    fn deserialize_any<V: Visitor<'o>>(self, visitor: V) -> Result<V::Value, BadPair> {
        visitor.visit_borrowed_str(self.value)
    }

    fn deserialize_option<V: Visitor<'o>>(self, visitor: V) -> Result<V::Value, BadPair> {
        visitor.visit_some(self)
    }

    fn deserialize_bool<V: Visitor<'o>>(self, visitor: V) -> Result<V::Value, BadPair> {
        let flag = self.value.parse();
        visitor.visit_bool(flag.map_err(|_| self.refused("true, false"))?)
    }

    fn deserialize_u32<V: Visitor<'o>>(self, visitor: V) -> Result<V::Value, BadPair> {
        visitor.visit_u64(self.number(u32::BITS)?)
    }

    fn deserialize_u64<V: Visitor<'o>>(self, visitor: V) -> Result<V::Value, BadPair> {
        visitor.visit_u64(self.number(u64::BITS)?)
    }

    fn deserialize_f64<V: Visitor<'o>>(self, visitor: V) -> Result<V::Value, BadPair> {
        let number = self.value.parse();
        visitor.visit_f64(number.map_err(|_| self.refused("a number, such as 0.75"))?)
    }

    fn deserialize_enum<V: Visitor<'o>>(
        self,
        _: &'static str,
        names: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, BadPair> {
        let value: StrDeserializer<'_, BadPair> = self.value.into_deserializer();
        let known = visitor.visit_enum(value);
        known.map_err(|_| self.refused(names.join(", ")))
    }

    forward_to_deserialize_any! {
        <W: Visitor<'o>>
        i8 i16 i32 i64 i128 u8 u16 u128 f32 char str string bytes byte_buf unit unit_struct newtype_struct
        seq tuple tuple_struct map struct identifier ignored_any
    }
}

/// Why a pair is refused.
#[derive(Debug)]
pub(super) struct BadPair {
    option: &'static str,
    value: String,
    limit: String,
}

/// The option of a name that there is not.
const UNNAMED: &str = "option";

impl From<BadPair> for StoreError {
    fn from(bad: BadPair) -> Self {
        bad_option(bad.option, bad.value, bad.limit)
    }
}

impl Display for BadPair {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{} = {}: {}", self.option, self.value, self.limit)
    }
}

impl std::error::Error for BadPair {}

impl BadPair {
    /// Of a name rather than its value.
    fn named(name: &str, limit: String) -> Self {
        Self {
            option: UNNAMED,
            value: name.into(),
            limit,
        }
    }
}

impl Error for BadPair {
    fn custom<T: Display>(message: T) -> Self {
        Self::named("given", message.to_string())
    }

    fn unknown_field(name: &str, known: &'static [&'static str]) -> Self {
        Self::named(name, format!("one of {}", known.join(", ")))
    }

    fn duplicate_field(name: &'static str) -> Self {
        Self::named(name, "once".into())
    }
}
