//! Fields of a workload, for forms. A workload has no schema: the type of a field is that of its default.

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
    fn a_workload_that_is_not_a_map_has_no_fields() {
        for workload in [json!(null), json!([1]), json!("a"), json!({})] {
            assert_eq!(fields(&workload), []);
        }
    }
}
