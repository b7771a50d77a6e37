//! Location of the newest version of the cursor row.
//!
//! Each update of the row leaves an old version. While another session holds an old snapshot, these versions can't be
//! removed, and a statement that searches for the row reads all of them. So the writers of a process remember where the
//! newest version is (its `ctid`), and update the row there. If it is elsewhere, because another process or another
//! connection has updated it, they search for it once.

use std::sync::{Mutex, PoisonError};

use sqlx::PgExecutor;

/// Searches for the row in one update before its writer gives up, as if the fence was raised. Only a process's own two
/// connections write the row between a search and an update.
pub(super) const SEARCHES: usize = 8;

/// The location, as far as this process knows it.
#[derive(Debug, Default)]
pub(super) struct CursorRow(Mutex<Option<String>>);

impl CursorRow {
    /// Returns where the row is, or was recently. `Ok(None)`: the fence was raised.
    pub(super) async fn location(&self, executor: impl PgExecutor<'_>, fence: i64) -> sqlx::Result<Option<String>> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if known.is_some() {
            return Ok(known);
        }
        let search =
            sqlx::query_scalar!(r#"SELECT ctid::text AS "location!" FROM noetl.tail_cursor WHERE fence = $1"#, fence);
        search.fetch_optional(executor).await
    }

    /// Notes the location after an update; `None` if the row was not found where it was expected.
    pub(super) fn note(&self, location: Option<String>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = location;
    }
}
