//! Names of the entries that NoETL's server registered. The list is searched by a column that it does not fill.

use super::Catalog;
use noetl_storage::catalog::{self, CatalogEntry};
use noetl_use_cases::error::ServiceError;

/// Number of entries whose documents are read at a time.
const BATCH: i64 = 20;

impl Catalog {
    /// Reads the names of all entries that lack one from their documents, and returns the number of changed entries. A
    /// document without a name, or that can't be read, has an empty name.
    #[tracing::instrument(level = "debug", name = "catalog.fill_names", skip_all)]
    pub async fn fill_names(&self) -> Result<u64, ServiceError> {
        let mut filled = 0;
        loop {
            let entries = catalog::unnamed(&self.cluster, BATCH).await?;
            if entries.is_empty() {
                return Ok(filled);
            }
            let (ids, names): (Vec<i64>, Vec<String>) =
                entries.iter().map(|entry| (entry.catalog_id, name_of(entry))).unzip();
            let changed = catalog::set_names(&self.cluster, &ids, &names).await?;
            metrics::counter!("noetl_catalog_named_total").increment(changed);
            filled += changed;
        }
    }
}

/// Returns the name in an entry's document, without NUL characters, which PostgreSQL can't store.
fn name_of(entry: &CatalogEntry) -> String {
    let document = entry.document().and_then(Result::ok);
    document.and_then(|document| document.name()).unwrap_or_default().replace('\0', "")
}
