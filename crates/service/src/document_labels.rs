//! Labels of executions whose started events name none: those that `execute` takes from the document that runs.
//!
//! NoETL's server names no labels. This server does, unless the document gives none either, so its executions need no
//! mark. A document never changes, so every advance and every replica finds the same labels.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use serde_json::{Map, Value};

use super::catalog::Catalog;
use noetl_domain::labels::Labels;
use noetl_storage::catalog::CatalogEntry;
use noetl_storage::snapshots::Projected;
use noetl_use_cases::catalog::ReadCatalog;
use noetl_use_cases::error::ReadFailures;

/// Sets the labels of the documents of these executions, if their started events name none. One statement reads the
/// entries that are not cached. Returns the errors of the executions whose entries could not be read.
pub(super) async fn add(catalog: &Catalog, mut executions: Vec<&mut Projected>) -> ReadFailures {
    executions.retain(|one| one.unlabelled_start().is_some());
    if executions.is_empty() {
        return ReadFailures::new();
    }
    let ids = executions.iter().filter_map(|one| one.unlabelled_start()).map(|start| start.catalog_id.get());
    let ids: Vec<i64> = ids.collect::<BTreeSet<i64>>().into_iter().collect();
    let entries = match catalog.by_ids(&ids).await {
        Ok(entries) => entries,
        Err(error) => return executions.iter().map(|one| (one.execution_id, error.clone())).collect(),
    };
    for one in executions {
        one.document_labels = labels_of(one, &entries).unwrap_or_default();
    }
    ReadFailures::new()
}

/// Returns the labels of an execution's document; `None` if the catalog has no entry, or the document can't be read.
fn labels_of(execution: &Projected, entries: &HashMap<i64, Arc<CatalogEntry>>) -> Option<Labels> {
    let start = execution.unlabelled_start()?;
    let entry = entries.get(&start.catalog_id.get())?;
    let document = entry.document().and_then(Result::ok)?;
    let none = Map::new();
    let workload = start.workload.as_ref().and_then(Value::as_object).unwrap_or(&none);
    let searched = document.searchable().map(|searchable| Labels::searched(searchable, workload));
    Some(searched.unwrap_or_default().or(entry.labels()))
}
