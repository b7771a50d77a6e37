//! Defaults of a request that come from catalog documents: the workload and labels from the document that runs, the
//! dedup window, the pool and labels from the document of the source subscription that starts the execution.

use serde_json::{Map, Value};

use noetl_domain::document::Document;
use noetl_domain::document::subscription::SubscriptionSpec;
use noetl_domain::execution::is_pool_name;
use noetl_domain::labels::Labels;
use noetl_storage::catalog::CatalogEntry;
use noetl_storage::events::FirstEvent;
use noetl_use_cases::error::Rejection;
use noetl_use_cases::executions::ExecuteRequest;

/// Returns the default workload of an entry that a request runs.
pub(super) fn default_workload<'a>(
    entry: &'a CatalogEntry,
    request: &ExecuteRequest,
) -> Result<Option<&'a Value>, Rejection> {
    match entry.document() {
        None => Ok(None),
        Some(Ok(document)) => Ok(document.workload()),
        Some(Err(error)) => {
            let message = format!("the document of catalog entry {} can't be read: {error}", entry.catalog_id);
            Err(Rejection::invalid(request.entry.field(), message))
        }
    }
}

/// Returns the labels of an execution with this workload. Of labels with the same name, those of the request come first,
/// then those of the origin of a rerun, those that the document takes from the workload, those of the source
/// subscription, those of the document, and those of the parent, if the request asks for them. If a rerun changes the
/// workload, those of the workload come before those of the origin, and the origin's own part of the workload gives no
/// label.
pub(super) fn labels(
    entry: &CatalogEntry,
    request: &ExecuteRequest,
    workload: &Map<String, Value>,
    of_subscription: &SubscriptionDefaults,
    parent: Option<&FirstEvent>,
) -> Labels {
    let searchable = entry.document().and_then(Result::ok).and_then(Document::searchable);
    let of_workload = searchable.map(|searchable| Labels::searched(searchable, workload)).unwrap_or_default();
    let of_origin = request.labels_of_origin.clone();
    let of_both = match searchable {
        Some(searchable) if request.changes_workload => of_workload.or(of_origin.without(searchable)),
        _ => of_origin.or(of_workload),
    };
    let of_parent = parent.filter(|_| request.inherit_labels).map(FirstEvent::labels).unwrap_or_default();
    request.labels().or(of_both).or(of_subscription.labels.clone()).or(entry.labels()).or(of_parent)
}

/// Defaults that a source subscription gives the executions of its messages.
#[derive(Debug, Default)]
pub(super) struct SubscriptionDefaults {
    window_seconds: Option<i64>,
    pool: Option<String>,
    labels: Labels,
}

impl SubscriptionDefaults {
    /// Returns the defaults in the document of a source subscription. Unknown names of settings, which
    /// another program stored, do not matter here. A document with another fault gives none.
    pub(super) fn of(entry: &CatalogEntry) -> Self {
        let spec = entry.document().and_then(|document| document.ok()?.stored_subscription().ok());
        let SubscriptionSpec { dedup, dispatch, .. } = spec.unwrap_or_default();
        let window_seconds = dedup.window_seconds.map(|seconds| i64::try_from(seconds).unwrap_or(i64::MAX));
        Self { window_seconds, pool: dispatch.execution_pool, labels: dispatch.labels }
    }

    /// Returns the dedup window of a request in seconds, if the request or the subscription sets one.
    pub(super) fn window(&self, request: &ExecuteRequest) -> Option<i64> {
        request.dedup.as_ref().and_then(|dedup| dedup.window_seconds).or(self.window_seconds)
    }

    /// Returns the pool of a request, if the request or the subscription names one. NoETL accepts any text as the pool of
    /// a subscription, but a pool is a token of a subject.
    pub(super) fn pool(&self, request: &ExecuteRequest) -> Result<Option<String>, Rejection> {
        match request.execution_pool.as_ref().or(self.pool.as_ref()) {
            Some(pool) if !is_pool_name(pool) => {
                let shown: String = pool.chars().take(64).collect();
                let message = format!(
                    "the document of the subscription names the pool {shown:?}, but a pool's name has 1 to 64 letters, \
                     digits, - and _; name a pool in the request"
                );
                Err(Rejection::invalid("executionPool", message))
            }
            pool => Ok(pool.cloned()),
        }
    }
}
