//! The document of a catalog entry, in YAML or JSON, in the form that NoETL reads.
//!
//! `metadata.path`, or else `metadata.name`, is the entry's path. NoETL stores `workload`, `workflow` and
//! `metadata.labels` in columns of their own. The document of a source subscription has its settings in `spec`
//! ([`subscription`]).

pub mod field;
pub mod ingress;
pub mod kind;
pub mod spool;
pub mod subscription;
pub mod workflow;
pub mod workload;

use plain_json::AnyJson;
use serde::de::DeserializeOwned;
use serde_json::Value;

use field::{Field, InvalidField};
use subscription::SubscriptionSpec;

/// Document of a catalog entry: a map.
#[derive(Debug, Clone, PartialEq)]
pub struct Document(Value);

/// A text that is not a document.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DocumentError {
    /// The text is neither YAML nor JSON.
    #[error("content is neither YAML nor JSON: {0}")]
    Unreadable(String),
    /// The text is YAML or JSON, but no map.
    #[error("content must be a map, such as `kind: playbook`")]
    NotAMap,
}

impl Document {
    /// Reads a text.
    pub fn parse(text: &str) -> Result<Self, DocumentError> {
        let AnyJson(value) = read(text).map_err(|error| DocumentError::Unreadable(error.to_string()))?;
        if value.is_object() { Ok(Self(value)) } else { Err(DocumentError::NotAMap) }
    }

    /// Returns the whole document.
    #[must_use]
    pub fn value(&self) -> &Value {
        &self.0
    }

    /// Returns `metadata.path`.
    #[must_use]
    pub fn path(&self) -> Option<&str> {
        self.metadata("path").and_then(Value::as_str)
    }

    /// Returns `metadata.name`.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.metadata("name").and_then(Value::as_str)
    }

    /// Returns `metadata.description`.
    #[must_use]
    pub fn description(&self) -> Option<&str> {
        self.metadata("description").and_then(Value::as_str)
    }

    /// Returns `metadata.labels`.
    #[must_use]
    pub fn labels(&self) -> Option<&Value> {
        self.metadata("labels")
    }

    /// Returns `metadata.searchable`, which names the parts of the workload that become labels of an execution.
    #[must_use]
    pub fn searchable(&self) -> Option<&Value> {
        self.metadata("searchable")
    }

    /// Returns the kind as written, in any case.
    #[must_use]
    pub fn kind(&self) -> Option<&str> {
        self.0.get("kind").and_then(Value::as_str)
    }

    /// Returns the default workload of executions.
    #[must_use]
    pub fn workload(&self) -> Option<&Value> {
        self.0.get("workload")
    }

    /// Returns the steps.
    #[must_use]
    pub fn workflow(&self) -> Option<&Value> {
        self.0.get("workflow")
    }

    /// Reads the settings of a source subscription that is registered. A document without `spec` has the short form.
    pub fn subscription(&self) -> Result<SubscriptionSpec, InvalidField> {
        self.read_subscription(&Field::of(&self.0, "spec"))
    }

    /// Reads the settings of a source subscription in a stored document. Another program may have stored it, with names
    /// of settings that this server does not know.
    pub fn stored_subscription(&self) -> Result<SubscriptionSpec, InvalidField> {
        self.read_subscription(&Field::of(&self.0, "spec").lenient())
    }

    fn read_subscription(&self, spec: &Field<'_>) -> Result<SubscriptionSpec, InvalidField> {
        if spec.is_present() { SubscriptionSpec::read(spec) } else { Ok(SubscriptionSpec::short(&self.0)) }
    }

    fn metadata(&self, name: &str) -> Option<&Value> {
        self.0.get("metadata")?.get(name)
    }
}

/// Reads a text. As in NoETL, only `true` and `false` are booleans; `off` and `yes` are texts.
fn read<T: DeserializeOwned>(text: &str) -> Result<T, serde_saphyr::Error> {
    serde_saphyr::from_str_with_options(text, serde_saphyr::options! { strict_booleans: true })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn document(text: &str) -> Document {
        Document::parse(text).unwrap()
    }

    #[test]
    fn metadata_workload_and_workflow_are_the_parts_that_noetl_stores() {
        let text = "kind: Playbook\nmetadata: { name: a, path: b/c, description: f, labels: { d: 1 }, searchable: { g: h } }\nworkload: { e: 2 }\nworkflow: []";
        let read = document(text);
        assert_eq!((read.kind(), read.name(), read.path()), (Some("Playbook"), Some("a"), Some("b/c")));
        assert_eq!(read.description(), Some("f"));
        assert_eq!((read.labels(), read.workload()), (Some(&json!({ "d": 1 })), Some(&json!({ "e": 2 }))));
        assert_eq!((read.workflow(), read.searchable()), (Some(&json!([])), Some(&json!({ "g": "h" }))));
        let other = document("kind: 5\nmetadata: { name: 5, path: }\nworkload:");
        assert_eq!((other.kind(), other.name(), other.path()), (None, None, None));
        assert_eq!(other.workload(), Some(&Value::Null));
        assert_eq!(document("metadata: text").path(), None);
    }

    #[test]
    fn scalars_have_the_types_that_noetl_gives_them() {
        let read = document("a: off\nb: yes\nc: true\nd: 0x1F\ne: 1.5\nf: ~\ng: 2024-01-01\non: 1");
        let expected = json!({ "a": "off", "b": "yes", "c": true, "d": 31, "e": 1.5, "f": null,                                "g": "2024-01-01", "on": 1 });
        assert_eq!(read.value(), &expected);
    }

    #[test]
    fn every_key_is_data_and_other_texts_are_refused() {
        let raw = document("{\"$serde_json::private::RawValue\": \"[1]\"}");
        assert_eq!(raw.value(), &json!({ "$serde_json::private::RawValue": "[1]" }));
        for text in ["", "5", "[]", "text"] {
            assert_eq!(Document::parse(text), Err(DocumentError::NotAMap), "{text}");
        }
        for text in ["a: [1", "a: b: c", "a: *gone", "{\"a\": "] {
            assert!(matches!(Document::parse(text), Err(DocumentError::Unreadable(_))), "{text}");
        }
    }
}
