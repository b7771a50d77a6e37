//! JSON of requests that is carried as text.

use std::fmt;
use std::ops::Deref;

use async_graphql_value::ConstValue;
use bytes::Bytes;
use bytestring::ByteString;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::check::{Unstorable, storable};
use crate::{read, read_with, write};

/// JSON text of a request, as it arrived. It was checked with [`crate::check`], and is parsed only by code that needs
/// its content.
///
/// It shares the memory of the whole request, so it must not be kept longer than the request's statements run.
#[derive(Clone, PartialEq, Eq)]
pub struct RawJson(ByteString);

impl RawJson {
    /// Returns the text of a value of the executor. A binary value contains JSON text, which is not copied.
    pub fn from_graphql(value: ConstValue) -> serde_json::Result<Self> {
        let text = match value {
            ConstValue::Binary(text) => text,
            other => {
                let mut text = Vec::new();
                write::append(&other, &mut text)?;
                text.into()
            }
        };
        ByteString::try_from(text).map(Self).map_err(serde::de::Error::custom)
    }

    /// Returns the text as bytes that share its memory.
    #[must_use]
    pub fn to_bytes(&self) -> Bytes {
        self.0.as_bytes().clone()
    }

    /// Returns whether the text is `null`.
    #[must_use]
    pub fn is_null(&self) -> bool {
        &*self.0 == "null"
    }

    /// Returns whether the text is an object.
    #[must_use]
    pub fn is_object(&self) -> bool {
        self.0.starts_with('{')
    }

    /// Returns whether the text is an object that may have a key. It is not parsed, so the key may also be in an inner
    /// object, or be a part of a string.
    #[must_use]
    pub fn may_have_key(&self, key: &str) -> bool {
        // An escape can be a letter of a key.
        self.is_object() && (self.0.contains(key) || self.0.contains("\\u"))
    }

    /// Parses the text and returns its value.
    pub fn read(&self) -> serde_json::Result<Value> {
        read(&self.0)
    }

    /// Returns the members of an object, without parsing their values; `None` for other JSON. A key can be repeated: the
    /// last one counts.
    pub fn members(&self) -> serde_json::Result<Option<Vec<(String, Self)>>> {
        if !self.is_object() {
            return Ok(None);
        }
        read_with(self.0.as_bytes(), Members(&self.0)).map(Some)
    }

    /// Returns an error if the JSON has more than `levels` nested objects and lists, or contains a NUL character.
    pub fn check_storable(&self, levels: usize) -> Result<(), Unstorable> {
        storable(self.0.as_bytes(), levels)
    }

    /// Returns the number of bytes of the JSON without space between its tokens and without needless escapes.
    #[must_use]
    pub fn compact_len(&self) -> usize {
        self.read().map_or(self.len(), |value| value.to_string().len())
    }
}

/// Converts a value of the executor. Binary values in it contain JSON text.
pub fn from_graphql(value: ConstValue) -> serde_json::Result<Value> {
    Ok(match value {
        ConstValue::Null => Value::Null,
        ConstValue::Number(number) => Value::Number(number),
        ConstValue::String(text) => Value::String(text),
        ConstValue::Boolean(flag) => Value::Bool(flag),
        ConstValue::Binary(text) => RawJson::from_graphql(ConstValue::Binary(text))?.read()?,
        ConstValue::Enum(name) => Value::String(name.to_string()),
        ConstValue::List(items) => Value::Array(items.into_iter().map(from_graphql).collect::<Result<_, _>>()?),
        ConstValue::Object(fields) => {
            let members = fields.into_iter().map(|(name, value)| Ok((name.to_string(), from_graphql(value)?)));
            Value::Object(members.collect::<serde_json::Result<Map<_, _>>>()?)
        }
    })
}

/// Reads the members of an object as parts of its text.
struct Members<'t>(&'t ByteString);

impl<'de> DeserializeSeed<'de> for Members<'_> {
    type Value = Vec<(String, RawJson)>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Members<'_> {
    type Value = Vec<(String, RawJson)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self::Value, A::Error> {
        let mut found = Vec::new();
        while let Some((key, value)) = members.next_entry::<String, &'de RawValue>()? {
            found.push((key, RawJson(self.0.slice_ref(value.get()))));
        }
        Ok(found)
    }
}

impl Deref for RawJson {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for RawJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<&Value> for RawJson {
    fn from(value: &Value) -> Self {
        Self(value.to_string().into())
    }
}

impl From<String> for RawJson {
    /// The text must be JSON.
    fn from(json: String) -> Self {
        Self(json.into())
    }
}
