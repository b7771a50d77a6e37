//! Labels of executions and source subscriptions: names with values, by which operators find them.
//!
//! The first event of a log has them in its meta, so the log is their source. Those of an execution come from the
//! request, from the parts of the workload that the document names in `metadata.searchable`, from
//! `spec.dispatch.labels` of the source subscription, from `metadata.labels` of the document, and from the parent. Those
//! of a source subscription come from `metadata.labels` of its document. An execution whose first event names none, as
//! NoETL's server writes it, has those of its document.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Maximum number of labels of an execution or a source subscription.
pub const MAX_LABELS: usize = 20;
/// Maximum length of a name in bytes.
const MAX_NAME_BYTES: usize = 63;
/// Maximum length of a value in bytes.
const MAX_VALUE_BYTES: usize = 128;

/// Name and value of a label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Label {
    /// The name ([`is_label_name`]).
    pub name: String,
    /// The value ([`is_label_value`]).
    pub value: String,
}

/// Labels of an execution or a source subscription, ordered by name: at most [`MAX_LABELS`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Labels(BTreeMap<String, String>);

impl Labels {
    /// Name of the field in the meta of a started or registered event.
    pub const META_KEY: &str = "labels";

    /// Returns the labels of a map whose values are texts, numbers, or true and false. What is not a label is left out:
    /// a document or another program may have written it.
    #[must_use]
    pub fn read(map: &Value) -> Self {
        let pairs = map.as_object().into_iter().flatten();
        pairs.filter_map(|(name, value)| Some(Label { name: name.clone(), value: text_of(value)? })).collect()
    }

    /// Returns the labels that `metadata.searchable` of a document takes from a workload. Each value of the map names a
    /// part of the workload, such as `{{ workload.order.id }}`. A part that is absent, null, a map, a list or too long
    /// gives no label.
    #[must_use]
    pub fn searched(searchable: &Value, workload: &Map<String, Value>) -> Self {
        let pairs = searchable.as_object().into_iter().flatten();
        let label = |(name, path): (&String, &Value)| {
            let value = text_of(part_of(workload, path.as_str()?)?)?;
            Some(Label { name: name.clone(), value })
        };
        pairs.filter_map(label).collect()
    }

    /// Returns the labels with those of `others` whose names they lack, up to [`MAX_LABELS`].
    #[must_use]
    pub fn or(mut self, others: Self) -> Self {
        for (name, value) in others.0 {
            if self.0.len() >= MAX_LABELS {
                break;
            }
            self.0.entry(name).or_insert(value);
        }
        self
    }

    /// Returns the labels without those whose names a map has.
    #[must_use]
    pub fn without(mut self, names: &Value) -> Self {
        self.0.retain(|name, _| names.get(name.as_str()).is_none());
        self
    }

    /// Returns whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the value of the label with this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Returns the names and values, ordered by name.
    pub fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Returns the stored form, a map; `None` if there are no labels.
    #[must_use]
    pub fn to_stored(&self) -> Option<Value> {
        let pairs = self.0.iter().map(|(name, value)| (name.clone(), value.clone().into()));
        (!self.is_empty()).then(|| Value::Object(pairs.collect()))
    }
}

/// Collects the first [`MAX_LABELS`] well-formed labels. The first one with a name counts.
impl FromIterator<Label> for Labels {
    fn from_iter<I: IntoIterator<Item = Label>>(labels: I) -> Self {
        let valid = |label: &Label| is_label_name(&label.name) && is_label_value(&label.value);
        let valid = labels.into_iter().filter(valid);
        valid.fold(Self::default(), |all, Label { name, value }| all.or(Self(BTreeMap::from([(name, value)]))))
    }
}

/// Condition on a label.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LabelCondition {
    /// Name of the label.
    pub name: String,
    /// Values, of which the label must have one; `None`: any value.
    pub values: Option<Vec<String>>,
}

impl LabelCondition {
    /// Returns whether labels meet the condition.
    #[must_use]
    pub fn matches(&self, labels: &Labels) -> bool {
        let value = labels.get(&self.name);
        value.is_some_and(|value| self.values.as_ref().is_none_or(|wanted| wanted.iter().any(|one| one == value)))
    }
}

/// Returns whether a text is the name of a label: 1 to 63 characters, of which the first one is a letter from a to z or a
/// digit, and the others are these, `.`, `_`, `/` and `-`.
#[must_use]
pub fn is_label_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    name.len() <= MAX_NAME_BYTES
        && name.bytes().next().is_some_and(is_plain)
        && name.bytes().all(|byte| is_plain(byte) || b"._/-".contains(&byte))
}

/// Returns whether a text is the value of a label: 1 to 128 bytes without control characters.
#[must_use]
pub fn is_label_value(value: &str) -> bool {
    (1..=MAX_VALUE_BYTES).contains(&value.len()) && !value.chars().any(char::is_control)
}

/// Returns the text of a value that is not a map, a list or null.
fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(flag) => Some(flag.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// Returns the part of a workload that a text such as `{{ workload.order.id }}` names.
fn part_of<'a>(workload: &'a Map<String, Value>, path: &str) -> Option<&'a Value> {
    let path = path.trim().strip_prefix("{{")?.strip_suffix("}}")?.trim();
    let mut names = path.strip_prefix("workload.")?.split('.');
    let first = workload.get(names.next()?)?;
    names.try_fold(first, |part, name| part.get(name))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_and_values_are_bounded() {
        for name in ["a", "0", "order_id", "app.kubernetes.io/name", "a-b", &"x".repeat(63)] {
            assert!(is_label_name(name), "{name:?}");
        }
        for name in ["", "A", "_a", "/a", "a=b", "a b", "ä", "a\n", &"x".repeat(64)] {
            assert!(!is_label_name(name), "{name:?}");
        }
        for value in ["1", " ", "Größe = 5", "\"", &"x".repeat(128)] {
            assert!(is_label_value(value), "{value:?}");
        }
        for value in ["", "a\nb", "\0", "\u{85}", &"x".repeat(129)] {
            assert!(!is_label_value(value), "{value:?}");
        }
    }

    #[test]
    fn what_is_not_a_label_is_left_out() {
        let long = "x".repeat(129);
        let map = json!({ "a": "b", "n": 17, "f": 1.5, "flag": true, "Upper": "x", "none": null, "map": {},
            "long": long });
        let expected = json!({ "a": "b", "f": "1.5", "flag": "true", "n": "17" });
        assert_eq!(Labels::read(&map).to_stored(), Some(expected));
        for other in [json!(null), json!("a"), json!(["a"]), json!({})] {
            assert_eq!(Labels::read(&other).to_stored(), None, "{other}");
        }
        let many: Map<String, Value> = (10..60).map(|n| (format!("n{n}"), n.into())).collect();
        let read = Labels::read(&many.into());
        assert_eq!((read.pairs().count(), read.get("n10"), read.get("n30")), (MAX_LABELS, Some("10"), None));
    }

    #[test]
    fn first_labels_take_precedence_and_no_more_than_the_maximum_are_kept() {
        let labels = |map: Value| Labels::read(&map);
        let merged = labels(json!({ "a": "1" })).or(labels(json!({ "a": "2", "b": "2" })));
        assert_eq!(merged, labels(json!({ "a": "1", "b": "2" })));
        let full: Labels = (0..MAX_LABELS).map(|n| Label { name: format!("n{n}"), value: "v".into() }).collect();
        assert_eq!(full.clone().or(labels(json!({ "a": "1" }))), full);
    }

    #[test]
    fn parts_of_the_workload_are_named_by_paths() {
        let workload = json!({ "order": { "id": 17, "lines": [1] }, "rush": true, "note": "", "a.b": 1 });
        let Value::Object(workload) = workload else { panic!("no map") };
        for (path, value) in [
            ("{{ workload.order.id }}", Some("17")),
            ("{{workload.rush}}", Some("true")),
            ("{{ workload.order }}", None),
            ("{{ workload.order.lines }}", None),
            ("{{ workload.order.lines.0 }}", None),
            ("{{ workload.order.id | int }}", None),
            ("{{ workload.missing.id }}", None),
            ("{{ workload.note }}", None),
            ("{{ workload.a.b }}", None),
            ("{{ workload }}", None),
            ("{{ workload. }}", None),
            ("{{ order.id }}", None),
            ("workload.order.id", None),
            ("", None),
        ] {
            let labels = Labels::searched(&json!({ "found": path }), &workload);
            assert_eq!(labels.get("found"), value, "{path}");
        }
    }

    #[test]
    fn a_condition_names_values_or_only_the_label() {
        let labels = Labels::read(&json!({ "team": "a" }));
        let matches = |name: &str, values: Option<&[&str]>| {
            let values = values.map(|values| values.iter().map(|one| (*one).to_owned()).collect());
            LabelCondition { name: name.to_owned(), values }.matches(&labels)
        };
        assert!(matches("team", None) && matches("team", Some(&["b", "a"])));
        assert!(!matches("team", Some(&["b"])) && !matches("team", Some(&[])) && !matches("other", None));
    }
}
