//! Reads JSON into values. No key has a special meaning.

use std::fmt;

use chrono::{DateTime, Utc};
use serde::Serialize;
use serde::de::{Deserialize, DeserializeOwned, DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// Maximum depth of nested objects and lists. Common parsers allow 128, and the value is often stored inside other
/// JSON.
pub(super) const MAX_DEPTH: usize = 120;

/// A type whose JSON has known fields. A field with any JSON has the type [`AnyJson`], or is read by [`value`],
/// [`option`], [`map`] or [`optional_map`].
pub trait Typed: DeserializeOwned {}

impl Typed for AnyJson {}
impl Typed for f64 {}
impl Typed for DateTime<Utc> {}
impl<T: Typed> Typed for Option<T> {}

/// A type whose JSON has known fields, and which borrows parts of its text.
pub trait Borrowed<'a>: Deserialize<'a> {}

/// Any JSON, read as a value.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[serde(transparent)]
pub struct AnyJson(pub Value);

/// Reads a JSON text.
pub fn read(text: &str) -> serde_json::Result<Value> {
    serde_json::from_str(text).map(|AnyJson(value)| value)
}

/// Reads a JSON text with known fields.
pub fn parse<T: Typed>(text: &[u8]) -> serde_json::Result<T> {
    serde_json::from_slice(text)
}

/// Reads a JSON text with known fields. The result borrows parts of the text.
pub fn borrow<'a, T: Borrowed<'a>>(text: &'a [u8]) -> serde_json::Result<T> {
    serde_json::from_slice(text)
}

/// Reads a JSON text with a seed, which decides about the type of each part.
pub fn read_with<'a, S: DeserializeSeed<'a>>(text: &'a [u8], seed: S) -> serde_json::Result<S::Value> {
    let mut deserializer = serde_json::Deserializer::from_slice(text);
    let value = seed.deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(value)
}

/// Reads the known fields of a value.
pub fn fields<T: Typed>(value: Value) -> serde_json::Result<T> {
    serde_json::from_value(value)
}

/// Reads a field that contains any JSON.
pub fn value<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Value, D::Error> {
    AnyJson::deserialize(deserializer).map(|AnyJson(value)| value)
}

/// Reads an optional field that contains any JSON. Null counts as absent.
pub fn option<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Option::<AnyJson>::deserialize(deserializer).map(|data| data.map(|AnyJson(value)| value))
}

/// Reads a field that contains an object.
pub fn map<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Map<String, Value>, D::Error> {
    match value(deserializer)? {
        Value::Object(map) => Ok(map),
        _ => Err(D::Error::custom("expected an object")),
    }
}

/// Reads an optional field that contains an object. Null counts as absent.
pub fn optional_map<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Map<String, Value>>, D::Error> {
    match value(deserializer)? {
        Value::Null => Ok(None),
        Value::Object(map) => Ok(Some(map)),
        _ => Err(D::Error::custom("expected an object")),
    }
}

impl<'de> Deserialize<'de> for AnyJson {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Reader { levels: MAX_DEPTH }.deserialize(deserializer).map(Self)
    }
}

/// Reader of a value with at most `levels` levels of objects and lists.
#[derive(Clone, Copy)]
struct Reader {
    levels: usize,
}

impl Reader {
    fn within<E: Error>(self) -> Result<Self, E> {
        let levels = self.levels.checked_sub(1);
        let levels = levels.ok_or_else(|| E::custom(format!("more than {MAX_DEPTH} nested objects or lists")));
        levels.map(|levels| Self { levels })
    }
}

impl<'de> DeserializeSeed<'de> for Reader {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Reader {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_bool<E: Error>(self, flag: bool) -> Result<Value, E> {
        Ok(flag.into())
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Value, E> {
        let finite = Number::from_f64(number).map(Value::Number);
        finite.ok_or_else(|| E::custom("a number that is not finite"))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Value, E> {
        Ok(text.into())
    }

    fn visit_string<E: Error>(self, text: String) -> Result<Value, E> {
        Ok(text.into())
    }

    fn visit_none<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        self.deserialize(deserializer)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let (inner, mut list) = (self.within()?, Vec::new());
        while let Some(item) = items.next_element_seed(inner)? {
            list.push(item);
        }
        Ok(list.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let (inner, mut map) = (self.within()?, Map::new());
        while let Some(key) = members.next_key::<String>()? {
            map.insert(key, members.next_value_seed(inner)?);
        }
        Ok(map.into())
    }
}
