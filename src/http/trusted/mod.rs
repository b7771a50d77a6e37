//! Trusted documents: a manifest of documents that clients select by their SHA-256, and the treatment of all others.
//!
//! A request selects a document by `documentId` (GraphQL over HTTP, appendix A) or by `extensions.persistedQuery.sha256Hash`
//! (Apollo). A request with its own text is trusted if the manifest has that text; `documentId` is not read then. The
//! manifest is read once, when the process starts: no request adds to it.

pub mod extract;
mod manifest;

use std::str::FromStr;
use std::sync::Arc;

use async_graphql::{Extensions, Value};
use metrics::counter;

use super::admission::Permits;
use super::invalid::Invalid;
use super::operation::Parameters;

pub use manifest::{InvalidManifest, Manifest, sha256};

/// Treatment of documents that are not in the manifest.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Mode {
    /// They run.
    #[default]
    Off,
    /// They run, and are logged and counted.
    Warn,
    /// They are refused, except from callers with [`Permits::any_document`].
    Enforce,
}

/// Text that is no mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the modes are off, warn and enforce")]
pub struct UnknownMode;

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
    pub(super) fn resolve(&self, mut parameters: Parameters, permits: Permits) -> Result<Parameters, Invalid> {
        if !parameters.query.is_empty() {
            self.admit(&parameters.query, permits)?;
            return Ok(parameters);
        }
        if let Some(id) = parameters.document_id.as_deref().or_else(|| persisted(&parameters.extensions)) {
            self.manifest.get(id).ok_or(Invalid::DocumentNotFound)?.clone_into(&mut parameters.query);
        }
        Ok(parameters)
    }

    fn admit(&self, text: &str, permits: Permits) -> Result<(), Invalid> {
        if self.mode == Mode::Off || self.manifest.contains(text) {
            return Ok(());
        }
        if self.mode == Mode::Enforce && !permits.any_document {
            return Err(Invalid::DocumentNotTrusted);
        }
        counter!("graphql_untrusted_documents_total").increment(1);
        tracing::warn!(sha256 = sha256(text), "a document that is not in the manifest runs");
        Ok(())
    }
}

/// The SHA-256 that Apollo's clients send.
fn persisted(extensions: &Extensions) -> Option<&str> {
    let Value::Object(query) = extensions.get("persistedQuery")? else { return None };
    match query.get("sha256Hash")? {
        Value::String(hash) => Some(hash),
        _ => None,
    }
}
