//! JSON of requests is carried as text.

use async_graphql_value::{ConstValue, Name, value};
use bytes::Bytes;
use plain_json::{RawJson, from_graphql};
use serde_json::json;

const SPECIAL: &str = r#"{"$serde_json::private::RawValue": "[1]"}"#;

fn raw(json: &str) -> RawJson {
    json.to_owned().into()
}

#[test]
fn text_of_a_binary_value_is_not_copied() {
    let body = Bytes::from(format!(r#"{{"a": {SPECIAL}}}"#));
    let text = body.slice(6..body.len() - 1);
    let carried = RawJson::from_graphql(ConstValue::Binary(text.clone())).unwrap();
    assert_eq!(carried.as_ptr(), text.as_ptr());
    assert_eq!((&*carried, carried.read().unwrap().to_string()), (SPECIAL, SPECIAL.replace(": ", ":")));
    assert!(RawJson::from_graphql(ConstValue::Binary(Bytes::from_static(b"\xff"))).is_err());
}

#[test]
fn texts_in_a_value_of_a_document_are_part_of_it() {
    let text = ConstValue::Binary(Bytes::from(SPECIAL));
    let literal = value!({ "a": [1, (text)], "b": null });
    let ConstValue::Object(mut fields) = literal else { panic!("not an object") };
    fields.insert(Name::new("c"), ConstValue::Enum(Name::new("OPEN")));
    let literal = ConstValue::Object(fields);
    let expected = json!({ "a": [1, { "$serde_json::private::RawValue": "[1]" }], "b": null, "c": "OPEN" });
    assert_eq!(from_graphql(literal.clone()).unwrap(), expected);
    assert_eq!(RawJson::from_graphql(literal).unwrap().read().unwrap(), expected);
    assert!(RawJson::from_graphql(ConstValue::Null).unwrap().is_null());
}

#[test]
fn members_are_parts_of_the_text() {
    let object = raw(r#" {"a": 1.50, "\u0062": {"$serde_json::private::RawValue": 1}, "a": [ ]}"#.trim());
    let members = object.members().unwrap().unwrap();
    let shown: Vec<_> = members.iter().map(|(key, value)| (key.as_str(), &**value)).collect();
    assert_eq!(shown, [("a", "1.50"), ("b", r#"{"$serde_json::private::RawValue": 1}"#), ("a", "[ ]")]);
    for other in ["1", "null", "[]", r#""{""#] {
        assert_eq!(raw(other).members().unwrap(), None, "{other}");
    }
}

#[test]
fn an_object_without_a_key_is_never_taken_for_one_that_may_have_it() {
    for (json, may) in [
        (r#"{"actor": 1}"#, true),
        (r#"{"\u0061ctor": 1}"#, true),
        (r#"{"a": "actor"}"#, true),
        (r#"{"a": 1}"#, false),
        (r#"["actor"]"#, false),
    ] {
        assert_eq!(raw(json).may_have_key("actor"), may, "{json}");
    }
    assert_eq!(raw(r#"{ "a" : "\u00e9" }"#).compact_len(), r#"{"a":"é"}"#.len());
}
