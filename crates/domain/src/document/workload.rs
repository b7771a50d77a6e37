//! Fields of a workload, for forms. A workload has no schema: the type of a field is that of its default.

use std::collections::HashMap;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;

/// Field of a workload.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WorkloadField<'a> {
    /// Key in the workload.
    pub name: &'a str,
    /// Default; null if the document gives none.
    pub default: &'a Value,
}

/// Type of a JSON value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueType {
    /// Text.
    String,
    /// Whole number.
    Integer,
    /// Number with a fraction.
    Number,
    /// True or false.
    Boolean,
    /// Map.
    Object,
    /// List.
    List,
    /// The type is not known, because the default is null.
    Unknown,
}

impl<'a> WorkloadField<'a> {
    /// Returns the type of the default.
    #[must_use]
    pub fn value_type(&self) -> ValueType {
        ValueType::of(self.default)
    }

    /// Returns whether a request should give a value, because the document has no default.
    #[must_use]
    pub fn is_required(&self) -> bool {
        self.default.is_null()
    }

    /// Returns the fields of the default, if it is a map.
    #[must_use]
    pub fn fields(&self) -> Vec<WorkloadField<'a>> {
        fields(self.default)
    }
}

/// Returns the fields of a workload, ordered by name. A workload that is not a map has none.
#[must_use]
pub fn fields(workload: &Value) -> Vec<WorkloadField<'_>> {
    workload.as_object().into_iter().flatten().map(|(name, default)| WorkloadField { name, default }).collect()
}

/// Returns the fields of a workload in the order of the document's text. A workload that is not a map has none.
#[must_use]
pub fn written_fields<'a>(workload: &'a Value, text: &str) -> Vec<WorkloadField<'a>> {
    let WrittenNames(names) = written_names(text);
    let places: HashMap<&str, usize> = names.iter().enumerate().map(|(place, name)| (name.as_str(), place)).collect();
    let mut fields = fields(workload);
    fields.sort_by_key(|field| places.get(field.name).copied().unwrap_or(usize::MAX));
    fields
}

/// Returns the names of the workload in a text; none if the text can't be read.
fn written_names(text: &str) -> WrittenNames {
    super::read::<WrittenDocument>(text).map(|document| document.workload).unwrap_or_default()
}

/// The part of a document that has an order.
#[derive(Debug, Deserialize)]
struct WrittenDocument {
    #[serde(default)]
    workload: WrittenNames,
}

/// Keys of a map in the order of its text.
#[derive(Debug, Default)]
struct WrittenNames(Vec<String>);

impl<'de> Deserialize<'de> for WrittenNames {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Names)
    }
}

/// Reader of the keys of a map.
struct Names;

impl<'de> Visitor<'de> for Names {
    type Value = WrittenNames;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<WrittenNames, A::Error> {
        let mut names = Vec::new();
        while let Some(name) = members.next_key::<String>()? {
            members.next_value::<IgnoredAny>()?;
            names.push(name);
        }
        Ok(WrittenNames(names))
    }
}

impl ValueType {
    fn of(value: &Value) -> Self {
        match value {
            Value::Null => Self::Unknown,
            Value::Bool(_) => Self::Boolean,
            Value::Number(number) if number.is_f64() => Self::Number,
            Value::Number(_) => Self::Integer,
            Value::String(_) => Self::String,
            Value::Array(_) => Self::List,
            Value::Object(_) => Self::Object,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_type_of_a_field_is_that_of_its_default() {
        let workload =
            json!({ "a": "x", "b": 3, "c": 0.5, "d": true, "e": { "f": -1, "g": null }, "h": [1], "i": null });
        let read = fields(&workload);
        let types: Vec<(&str, ValueType, bool)> =
            read.iter().map(|field| (field.name, field.value_type(), field.is_required())).collect();
        let expected = [
            ("a", ValueType::String, false),
            ("b", ValueType::Integer, false),
            ("c", ValueType::Number, false),
            ("d", ValueType::Boolean, false),
            ("e", ValueType::Object, false),
            ("h", ValueType::List, false),
            ("i", ValueType::Unknown, true),
        ];
        assert_eq!(types, expected);
        let nested: Vec<(&str, bool)> =
            read[4].fields().iter().map(|field| (field.name, field.is_required())).collect();
        assert_eq!((nested, read[4].default), (vec![("f", false), ("g", true)], &workload["e"]));
    }

    #[test]
    fn fields_have_the_order_of_the_text() {
        for (text, order) in [
            ("kind: playbook\nworkload:\n  z: { y: 1 }\n  10: a\n  2: b\n  on: c", ["z", "10", "2", "on"]),
            ("{\"workload\": {\"z\": {}, \"10\": 0, \"2\": 0, \"on\": [1]}, \"1\": 0}", ["z", "10", "2", "on"]),
            ("workload: [1]", ["10", "2", "on", "z"]),
            ("workload: {a: [1", ["10", "2", "on", "z"]),
        ] {
            let workload = json!({ "10": 0, "2": 0, "on": 0, "z": {} });
            let names: Vec<&str> = written_fields(&workload, text).iter().map(|field| field.name).collect();
            assert_eq!(names, order, "{text}");
        }
    }

    #[test]
    fn a_workload_that_is_not_a_map_has_no_fields() {
        for workload in [json!(null), json!([1]), json!("a"), json!({})] {
            assert_eq!(fields(&workload), []);
        }
    }
}
