//! The values of responses are written with the texts that they contain.

use async_graphql_value::{ConstValue as Value, Name};
use plain_json::{UNWRITTEN, Written, append};

#[test]
fn binary_values_are_copied_as_json() {
    let inner = Value::from_json(serde_json::json!({ "a": [1, "ß", null], "b": { "c": true } })).unwrap();
    let text = serde_json::to_string(&inner).unwrap();
    let both = [("list", Value::List(vec![Value::Binary(text.clone().into()), inner.clone()]))];
    let both = Value::Object(both.map(|(name, value)| (Name::new(name), value)).into());
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
