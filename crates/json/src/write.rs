//! Writes the values of responses. A binary value contains JSON text and is copied unchanged.

use async_graphql_value::indexmap::IndexMap;
use async_graphql_value::{ConstValue as Value, Name};
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

/// Key of a value that is not written. No GraphQL name is equal to it.
pub const UNWRITTEN: &str = "\0";

/// Returns the written fields of an object.
fn written(fields: &IndexMap<Name, Value>) -> impl Iterator<Item = (&str, &Value)> {
    fields.iter().map(|(name, value)| (name.as_str(), value)).filter(|(name, _)| *name != UNWRITTEN)
}

/// Value of a response that serialises as JSON.
#[derive(Debug)]
pub struct Written<'a>(pub &'a Value);

impl Serialize for Written<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Binary(text) => match serde_json::from_slice::<&RawValue>(text) {
                Ok(text) => text.serialize(serializer),
                Err(error) => Err(serde::ser::Error::custom(error)),
            },
            Value::List(items) => serializer.collect_seq(items.iter().map(Written)),
            Value::Object(fields) => {
                serializer.collect_map(written(fields).map(|(name, value)| (name, Written(value))))
            }
            plain => plain.serialize(serializer),
        }
    }
}

/// Appends a value as JSON. Unlike [`Written`], it does not check the JSON text of binary values.
pub fn append(value: &Value, text: &mut Vec<u8>) -> serde_json::Result<()> {
    match value {
        Value::Binary(json) => text.extend_from_slice(json),
        Value::List(items) => {
            text.push(b'[');
            for (index, item) in items.iter().enumerate() {
                separate(text, index);
                append(item, text)?;
            }
            text.push(b']');
        }
        Value::Object(fields) => {
            text.push(b'{');
            for (index, (name, value)) in written(fields).enumerate() {
                separate(text, index);
                serde_json::to_writer(&mut *text, name)?;
                text.push(b':');
                append(value, text)?;
            }
            text.push(b'}');
        }
        plain => serde_json::to_writer(text, plain)?,
    }
    Ok(())
}

fn separate(text: &mut Vec<u8>, index: usize) {
    if index > 0 {
        text.push(b',');
    }
}

/// Writes the data of a response.
pub fn data<S: Serializer>(data: &Option<Value>, serializer: S) -> Result<S::Ok, S::Error> {
    data.as_ref().map(Written).serialize(serializer)
}
