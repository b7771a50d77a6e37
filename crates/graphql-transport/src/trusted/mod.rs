//! Trusted documents: a manifest of documents that clients select by their SHA-256, and the treatment of all others.
//!
//! A request selects a document by `documentId` (GraphQL over HTTP, appendix A) or by
//! `extensions.persistedQuery.sha256Hash` (Apollo). A request with its own text is trusted if the manifest contains
//! that text; its `documentId` is ignored. The manifest is read once, when the process starts. Requests can't add
//! documents.

pub mod extract;
mod manifest;

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use async_graphql::{Extensions, Value};
use metrics::counter;

use super::admission::Permits;
use super::extensions::{PERSISTED_QUERY, SHA256_HASH};
use super::operation::Parameters;
use super::operation_error::OperationError;

pub use manifest::{InvalidManifest, Manifest, sha256};

/// Treatment of documents that are not in the manifest.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Mode {
    /// They run.
    #[default]
    Off,
    /// They run, and each run is logged and counted.
    Warn,
    /// They are refused, unless the caller has [`Permits::any_document`]. Then they run as under `Warn`.
    Enforce,
}

/// Text that is not the name of a mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the mode must be off, warn or enforce")]
pub struct UnknownMode;

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Off => "off",
            Self::Warn => "warn",
            Self::Enforce => "enforce",
        })
    }
}

impl FromStr for Mode {
    type Err = UnknownMode;

    fn from_str(name: &str) -> Result<Self, UnknownMode> {
        match name {
            "off" => Ok(Self::Off),
            "warn" => Ok(Self::Warn),
            "enforce" => Ok(Self::Enforce),
            _ => Err(UnknownMode),
        }
    }
}

/// The manifest in force. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Trusted {
    /// Documents that clients may select.
    pub manifest: Arc<Manifest>,
    /// Treatment of all others.
    pub mode: Mode,
}

impl Trusted {
    /// Returns the parameters with the text of the document that they select.
    pub(super) fn resolve(&self, mut parameters: Parameters, permits: Permits) -> Result<Parameters, OperationError> {
        if !parameters.query.is_empty() {
            self.admit(&parameters.query, permits)?;
            return Ok(parameters);
        }
        if let Some(id) = parameters.document_id.as_deref().or_else(|| persisted(&parameters.extensions)) {
            self.manifest.get(id).ok_or(OperationError::DocumentNotFound)?.clone_into(&mut parameters.query);
        }
        Ok(parameters)
    }

    fn admit(&self, text: &str, permits: Permits) -> Result<(), OperationError> {
        if self.mode == Mode::Off || self.manifest.contains(text) {
            return Ok(());
        }
        if self.mode == Mode::Enforce && !permits.any_document {
            return Err(OperationError::DocumentNotTrusted);
        }
        counter!("graphql_untrusted_documents_total").increment(1);
        tracing::warn!(sha256 = sha256(text), "a document that is not in the manifest runs");
        Ok(())
    }
}

/// Returns the SHA-256 in the format of Apollo's clients.
fn persisted(extensions: &Extensions) -> Option<&str> {
    let Value::Object(query) = extensions.get(PERSISTED_QUERY)? else { return None };
    match query.get(SHA256_HASH)? {
        Value::String(hash) => Some(hash),
        _ => None,
    }
}
