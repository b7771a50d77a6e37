//! Failed executions by the text of their error. No index finds a text within errors, so a bounded number of the newest
//! failed executions is searched. The list is then read by the ids of those that were found.

use std::borrow::Cow;

use super::error::StorageError;
use super::execution_filter::{ExecutionFilter, SEARCHED_CHARS};
use super::execution_sources::is_indexed;
use super::executions::stored_names;
use super::view::View;
use noetl_domain::execution::Status;
use noetl_domain::ids::Id;
use noetl_domain::tenant::Scope;

/// Maximum number of executions of a shard whose errors are searched.
const MAX_SEARCHED: i64 = 5000;

/// Returns the filter with ids in place of its condition on the error. They are the ids of the executions that meet this
/// condition and the one on ids.
pub(super) async fn with_ids_of_error<'a>(
    shard: &View<'_>,
    scope: &Scope,
    filter: &'a ExecutionFilter,
) -> Result<Cow<'a, ExecutionFilter>, StorageError> {
    let Some(text) = filter.error_contains.as_deref() else { return Ok(Cow::Borrowed(filter)) };
    let lists_failed = filter.statuses.as_ref().is_none_or(|wanted| wanted.contains(&Status::Failed));
    let found = if lists_failed && !shard.is_empty() {
        containing(shard, scope.tenant().or(filter.tenant_id.as_deref()), text).await?
    } else {
        Vec::new()
    };
    let is_wanted = |id: &Id| filter.ids.as_ref().is_none_or(|ids| ids.contains(id));
    let ids = found.into_iter().map(Id::new).filter(is_wanted).collect();
    Ok(Cow::Owned(ExecutionFilter { error_contains: None, ids: Some(ids), ..filter.clone() }))
}

/// Returns the ids of those executions whose error contains a text, in no order. The newest [`MAX_SEARCHED`] failed ones of
/// the tenant are searched, or of all tenants. The tenant `default` has no index, so those of other tenants are passed over
/// in the index of all.
#[tracing::instrument(level = "debug", name = "sql.executions.search_errors", skip_all, fields(database = %shard.name()))]
async fn containing(shard: &View<'_>, tenant: Option<&str>, text: &str) -> Result<Vec<i64>, StorageError> {
    let failed = stored_names(&[Status::Failed]);
    macro_rules! search {
        ($of_tenant:literal, $time:literal) => {
            shard
                .run(
                    sqlx::query_scalar!(
                        r#"SELECT execution_id AS "execution_id!" FROM (
                               SELECT found.* FROM unnest($1::text[]) AS source (status) CROSS JOIN LATERAL (
                                   SELECT execution_id, error, "#
                            + $time
                            + " AS moment FROM noetl.execution
                                   WHERE "
                            + $of_tenant
                            + " AND upper(status) = source.status
                                     AND CASE WHEN ($2::text IS NULL OR tenant_id = $2)
                                              AND ($3::bytea IS NULL OR get_bit($3, noetl.bucket_of(execution_id)) = 1)
                                         THEN true ELSE false END
                                   ORDER BY "
                            + $time
                            + " DESC, execution_id DESC LIMIT $4
                               ) AS found ORDER BY moment DESC, execution_id DESC LIMIT $4
                           ) AS newest WHERE strpos(lower(left(error, $5)), lower($6::text)) > 0",
                        &failed,
                        tenant,
                        shard.held(),
                        MAX_SEARCHED,
                        i32::from(SEARCHED_CHARS),
                        text,
                    )
                    .fetch_all(shard.planned_once()),
                )
                .await
        };
    }
    if tenant.is_some_and(is_indexed) {
        search!("tenant_id <> 'default' AND tenant_id = $2", "noetl.list_time(start_time, 10)")
    } else {
        search!("true", "noetl.list_time(start_time, 9)")
    }
}
