//! Parts of a document, which an entry and a draft of an entry show in the same way.

use std::sync::Arc;

use async_graphql::Object;

use super::workflow::Workflow;
use super::workload::WorkloadField;
use crate::access::READ;
use crate::scalars::Json;
use noetl_domain::document::{Document, workload};
use noetl_storage::catalog::CatalogEntry;

/// Names of the fields that need the document.
pub(super) const FIELDS: [&str; 7] =
    ["document", "name", "description", "labels", "workload", "workloadFields", "workflow"];

/// Parts of a document.
#[derive(Debug, Clone)]
pub(super) enum DocumentParts {
    /// Document of a stored entry.
    Stored(Arc<CatalogEntry>),
    /// Document of a draft with its text.
    Draft(Arc<Document>, Arc<str>),
}

impl DocumentParts {
    /// Returns the document if it was read and has the form of a document.
    pub(super) fn read(&self) -> Option<&Document> {
        match self {
            Self::Stored(entry) => entry.document()?.ok(),
            Self::Draft(document, _) => Some(document),
        }
    }

    /// Returns the text of the document; empty if it was not read.
    fn text(&self) -> &str {
        match self {
            Self::Stored(entry) => entry.text().unwrap_or_default(),
            Self::Draft(_, text) => text,
        }
    }
}

#[Object]
impl DocumentParts {
    /// Document, parsed into JSON; null if another program stored a text that is no document.
    #[graphql(guard = "READ")]
    async fn document(&self) -> Option<Json> {
        self.read().map(|document| Json(document.value().clone()))
    }

    /// Name in the document (`metadata.name`).
    #[graphql(guard = "READ")]
    async fn name(&self) -> Option<&str> {
        self.read()?.name()
    }

    /// Description in the document (`metadata.description`).
    #[graphql(guard = "READ")]
    async fn description(&self) -> Option<&str> {
        self.read()?.description()
    }

    /// Labels in the document (`metadata.labels`), a map of texts by NoETL's rules.
    #[graphql(guard = "READ")]
    async fn labels(&self) -> Option<Json> {
        self.read()?.labels().cloned().map(Json)
    }

    /// Default workload of the entry's executions (`workload` of the document).
    #[graphql(guard = "READ")]
    async fn workload(&self) -> Option<Json> {
        self.read()?.workload().cloned().map(Json)
    }

    /// Fields of the workload in the order of the document, for forms. Empty if the document has no workload.
    #[graphql(guard = "READ")]
    async fn workload_fields(&self) -> Vec<WorkloadField<'_>> {
        let Some(workload) = self.read().and_then(Document::workload) else { return Vec::new() };
        workload::written_fields(workload, self.text()).into_iter().map(WorkloadField).collect()
    }

    /// Steps of the entry and the transitions between them (`workflow` of the document), for flow diagrams; null if the
    /// document has no workflow.
    #[graphql(guard = "READ")]
    async fn workflow(&self) -> Option<Workflow> {
        self.read()?.workflow().map(Workflow::of)
    }
}
