//! Values are read as they were written. No key has a special meaning.

use std::fmt;

use plain_json::{AnyJson, Typed, map, option, parse, read, value};
use proptest::prelude::*;
use serde::Deserialize;
use serde_json::{Map, Value};

/// Maximum depth of nested objects and lists.
const MAX_DEPTH: usize = 120;

/// Keys with a special meaning in some decoder, and unusual keys.
const KEYS: [&str; 12] = [
    "$serde_json::private::RawValue",
    "$serde_json::private::Number",
    "$serde_json::private::",
    "$__toml_private_datetime",
    "$var",
    "$ref",
    "$",
    "__proto__",
    "",
    "\u{0}",
    "\u{1F600}é\u{202E}",
    "plain",
];

fn any_value() -> impl Strategy<Value = Literal> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
        Just(Value::from("[1,2]")),
        Just(Value::from("{\"a\":")),
    ];
    let key = prop_oneof![proptest::sample::select(&KEYS[..]).prop_map(str::to_owned), any::<String>()];
    leaf.prop_recursive(6, 64, 6, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            proptest::collection::vec((key.clone(), inner), 0..5)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
    .prop_map(Literal)
}

/// A value whose debug form can be pasted into `json!(…)`.
#[derive(Clone)]
struct Literal(Value);

impl fmt::Debug for Literal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let literal = |value: &Value| Self(value.clone());
        match &self.0 {
            Value::Number(number) if number.is_u64() => write!(f, "{number}u64"),
            Value::Number(number) if number.is_i64() => write!(f, "{number}i64"),
            Value::Null | Value::Bool(_) | Value::Number(_) => write!(f, "{}", self.0),
            Value::String(text) => write!(f, "{text:?}"),
            Value::Array(items) => f.debug_list().entries(items.iter().map(literal)).finish(),
            Value::Object(map) => f.debug_map().entries(map.iter().map(|(key, it)| (key, literal(it)))).finish(),
        }
    }
}

impl Typed for Fields {}

#[derive(Debug, PartialEq, Deserialize)]
struct Fields {
    #[serde(deserialize_with = "value")]
    any: Value,
    #[serde(default, deserialize_with = "option")]
    perhaps: Option<Value>,
    #[serde(deserialize_with = "map")]
    map: Map<String, Value>,
}

proptest! {
    #[test]
    fn written_values_are_read_unchanged(Literal(value) in any_value()) {
        prop_assert_eq!(&read(&value.to_string()).unwrap(), &value);
        let AnyJson(from_value) = AnyJson::deserialize(&value).unwrap();
        prop_assert_eq!(from_value, value);
    }

    #[test]
    fn values_in_known_fields_are_read_unchanged(Literal(any) in any_value(), Literal(member) in any_value()) {
        let map = Map::from_iter([(KEYS[0].to_owned(), member.clone())]);
        let text = serde_json::json!({ "any": any, "perhaps": member, "map": map }).to_string();
        let perhaps = Some(member).filter(|value| !value.is_null());
        prop_assert_eq!(parse::<Fields>(text.as_bytes()).unwrap(), Fields { any, perhaps, map });
    }
}

#[test]
fn raw_value_key_has_no_special_meaning() {
    for text in [r#"{"$serde_json::private::RawValue":"[1]"}"#, r#"{"$serde_json::private::RawValue":1,"a":2}"#] {
        assert_eq!(read(text).unwrap().to_string(), text);
    }
    // The reason for this crate: serde_json reads this object as its inner value.
    let raw = serde_json::from_str::<Value>(r#"{"$serde_json::private::RawValue":"[1]"}"#).unwrap();
    assert_eq!(raw, serde_json::json!([1]));
}

#[test]
fn depth_is_bounded_for_text_and_values() {
    let nested = |levels| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    let deepest = read(&nested(MAX_DEPTH)).unwrap();
    assert!(read(&nested(MAX_DEPTH + 1)).is_err());
    assert!(AnyJson::deserialize(serde_json::json!([deepest])).is_err());
}

#[test]
fn yaml_documents_are_read_as_data() {
    let AnyJson(read) = serde_saphyr::from_str(r#"{"$serde_json::private::RawValue": "[1]"}"#).unwrap();
    assert_eq!(read.to_string(), r#"{"$serde_json::private::RawValue":"[1]"}"#);
    assert!(serde_saphyr::from_str::<AnyJson>("a: .inf").is_err());
}
