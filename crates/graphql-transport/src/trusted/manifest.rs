//! Manifests of documents, which are identified by the SHA-256 of their text.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::extract::Extracted;
use plain_json as json;

/// Prefix of a document id that is a SHA-256 (GraphQL over HTTP, appendix A).
const PREFIX: &str = "sha256:";
const APOLLO: &str = "apollo-persisted-query-manifest";

/// Documents by the SHA-256 of their text, as lower-case hexadecimal digits.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Manifest(BTreeMap<String, String>);

/// Reason why a text is not a manifest.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidManifest {
    /// The text is not JSON.
    #[error("it is not JSON: {0}")]
    Json(String),
    /// The JSON has neither of the two formats.
    #[error("it is neither a map from SHA-256 to document nor an Apollo manifest of version 1")]
    Format,
    /// The SHA-256 of a document differs from its id.
    #[error("the document {id} has the SHA-256 {actual}; generate the manifest again, with SHA-256 as ids")]
    Id {
        /// The id in the manifest.
        id: String,
        /// The SHA-256 of the document.
        actual: String,
    },
}

impl Manifest {
    /// Reads a manifest in Relay's format, a map from SHA-256 to document, or in Apollo's.
    ///
    /// # Errors
    ///
    /// Returns an error if the text has neither format, or if the SHA-256 of a document differs from its id.
    pub fn from_json(text: &str) -> Result<Self, InvalidManifest> {
        let value = json::read(text).map_err(|error| InvalidManifest::Json(error.to_string()))?;
        let mut by_hash = BTreeMap::new();
        for (id, text) in documents(value).ok_or(InvalidManifest::Format)? {
            let actual = sha256(&text);
            if plain(&id) != actual {
                return Err(InvalidManifest::Id { id, actual });
            }
            by_hash.insert(actual, text);
        }
        Ok(Self(by_hash))
    }

    /// Returns the manifest of extracted operations in Relay's format.
    #[must_use]
    pub fn relay(extracted: &[Extracted]) -> Value {
        let documents = extracted.iter().map(|operation| (sha256(&operation.text), operation.text.clone().into()));
        // A BTreeMap gives equal files for equal documents.
        Value::Object(documents.collect::<BTreeMap<_, _>>().into_iter().collect::<Map<_, _>>())
    }

    /// Returns the manifest of extracted operations in Apollo's format.
    #[must_use]
    pub fn apollo(extracted: &[Extracted]) -> Value {
        let operations = extracted.iter().map(|operation| {
            json!({
                "id": sha256(&operation.text),
                "name": operation.name,
                "type": operation.kind,
                "body": operation.text,
            })
        });
        json!({ "format": APOLLO, "version": 1, "operations": operations.collect::<Vec<_>>() })
    }

    /// Returns the document of an id, with or without the prefix `sha256:`.
    #[must_use]
    pub fn get(&self, id: &str) -> Option<&str> {
        self.0.get(plain(id)).map(String::as_str)
    }

    /// Returns whether a text is in the manifest.
    #[must_use]
    pub fn contains(&self, text: &str) -> bool {
        self.0.contains_key(&sha256(text))
    }
}

/// Returns the SHA-256 of a text as lower-case hexadecimal digits.
#[must_use]
pub fn sha256(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat()
}

fn plain(id: &str) -> &str {
    id.strip_prefix(PREFIX).unwrap_or(id)
}

/// Returns the documents of a manifest with their ids; `None` if it has neither format.
fn documents(manifest: Value) -> Option<Vec<(String, String)>> {
    let Value::Object(mut manifest) = manifest else { return None };
    if manifest.get("format").is_none_or(|format| format != APOLLO) {
        return manifest.into_iter().map(|(id, text)| Some((id, string(text)?))).collect();
    }
    if manifest.get("version").is_none_or(|version| version != 1) {
        return None;
    }
    let Value::Array(operations) = manifest.remove("operations")? else { return None };
    let member = |operation: &mut Value, name: &str| string(operation.get_mut(name)?.take());
    operations
        .into_iter()
        .map(|mut operation| Some((member(&mut operation, "id")?, member(&mut operation, "body")?)))
        .collect()
}

fn string(value: Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_formats_are_read_and_ids_are_verified() {
        let text = "{ hello }";
        let hash = sha256(text);
        assert_eq!(sha256("query ($id: ID!) {\n  user(id: $id) {\n    name\n  }\n}"), SPECIFIED);
        let relay = json!({ &hash: text }).to_string();
        let operation = json!({ "id": format!("sha256:{hash}"), "name": "A", "type": "query", "body": text });
        let apollo = json!({ "format": APOLLO, "version": 1, "operations": [operation] }).to_string();
        for manifest in [relay, apollo] {
            let manifest = Manifest::from_json(&manifest).unwrap();
            assert_eq!(manifest.get(&hash), Some(text));
            assert_eq!(manifest.get(&format!("sha256:{hash}")), Some(text));
            assert_eq!(manifest.get(&hash.to_uppercase()), None);
            assert!(manifest.contains(text) && !manifest.contains("{hello}"));
        }
        for wrong in ["[]", "{\"a\": 1}", &format!("{{\"format\": \"{APOLLO}\", \"version\": 2, \"operations\": []}}")]
        {
            assert_eq!(Manifest::from_json(wrong), Err(InvalidManifest::Format), "{wrong}");
        }
        let forged = json!({ &hash: "{ other }" }).to_string();
        assert!(matches!(Manifest::from_json(&forged), Err(InvalidManifest::Id { id, .. }) if id == hash));
    }

    /// The example of the specification's appendix A.
    const SPECIFIED: &str = "7dba4bd717b41f10434822356a93c32b1fb4907b983e854300ad839f84cdcd6e";
}
