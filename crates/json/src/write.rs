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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn binary_values_are_copied_as_json() {
        let inner = Value::from_json(serde_json::json!({ "a": [1, "ß", null], "b": { "c": true } })).unwrap();
        let text = serde_json::to_string(&inner).unwrap();
        let both = [("list", Value::List(vec![Value::Binary(text.clone().into()), inner.clone()]))];
        let both = Value::Object(both.map(|(name, value)| (async_graphql_value::Name::new(name), value)).into());
        let written = format!(r#"{{"list":[{text},{text}]}}"#);
        assert_eq!(serde_json::to_string(&Written(&both)).unwrap(), written);
        let mut appended = Vec::new();
        append(&both, &mut appended).unwrap();
        assert_eq!(String::from_utf8(appended).unwrap(), written);
        assert!(serde_json::to_string(&Written(&Value::Binary("{".into()))).is_err());
    }

    #[test]
    fn values_with_the_unwritten_key_are_omitted() {
        let object = |fields: &[(&str, Value)]| {
            Value::Object(fields.iter().map(|(name, value)| (Name::new(name), value.clone())).collect())
        };
        let empty = object(&[(UNWRITTEN, "Query".into())]);
        let value = object(&[("a", empty.clone()), (UNWRITTEN, 1.into()), ("b", Value::List(vec![empty]))]);
        let expected = r#"{"a":{},"b":[{}]}"#;
        assert_eq!(serde_json::to_string(&Written(&value)).unwrap(), expected);
        let mut appended = Vec::new();
        append(&value, &mut appended).unwrap();
        assert_eq!(String::from_utf8(appended).unwrap(), expected);
    }
}
