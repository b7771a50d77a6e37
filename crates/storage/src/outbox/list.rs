//! Lists of outbox rows for the API, in the order of creation time and id.

use chrono::{DateTime, Utc};

use crate::error::StorageError;
use crate::pools::Database;
use crate::view::View;
use noetl_domain::ids::Id;
use noetl_domain::list_position::PositionRange;
use noetl_domain::outbox::{OutboxId, OutboxStatus};
use noetl_domain::tenant::Scope;
use plain_json::Text;

/// Conditions of a list; a row must meet all that are set.
#[derive(Debug, Clone, Default)]
pub struct OutboxFilter {
    /// Statuses to include; default: all.
    pub statuses: Option<Vec<OutboxStatus>>,
    /// Execution of the rows.
    pub execution_id: Option<Id>,
    /// Minimum number of claims of a row.
    pub min_attempts: Option<i32>,
    /// Rows to include; default: all.
    pub ids: Option<Vec<OutboxId>>,
    /// Tenant.
    pub tenant_id: Option<String>,
    /// Organization.
    pub organization_id: Option<String>,
}

impl OutboxFilter {
    /// Returns the numbers of the shard's rows to include.
    pub(super) fn numbers(&self, shard: &Database) -> Option<Vec<i64>> {
        let own =
            |ids: &Vec<OutboxId>| ids.iter().filter(|id| id.shard == shard.shard_index()).map(|id| id.number).collect();
        self.ids.as_ref().map(own)
    }

    /// Returns whether the filter names another tenant than that of the scope.
    fn is_outside(&self, scope: &Scope) -> bool {
        scope.tenant().zip(self.tenant_id.as_deref()).is_some_and(|(own, wanted)| own != wanted)
    }
}

/// A row of the outbox.
#[derive(Debug, Clone)]
pub struct OutboxRow {
    /// Id of the row, ascending in its shard.
    pub outbox_id: i64,
    /// Execution of the event.
    pub execution_id: Option<i64>,
    /// Event that the message is about.
    pub event_id: i64,
    /// Subject to publish to.
    pub subject: Option<String>,
    /// The message; `None` if the caller did not ask for payloads.
    pub payload: Option<Text>,
    /// Codec in which the payload is published.
    pub payload_codec: String,
    /// Status.
    pub state: String,
    /// Status, as stored.
    pub status: String,
    /// Number of claims of the row.
    pub attempts: i32,
    /// Time from which the row is claimable, unless it is in flight.
    pub available_at: DateTime<Utc>,
    /// Time at which the lease of the last claim expires.
    pub lease_until: Option<DateTime<Utc>>,
    /// Name of the caller of the last claim, if the claim named one.
    pub claimant: Option<String>,
    /// Error of the last failed delivery.
    pub last_error: Option<String>,
    /// Time at which the row was written.
    pub created_at: DateTime<Utc>,
    /// Time at which the row was delivered.
    pub published_at: Option<DateTime<Utc>>,
    /// Tenant: the stored one, or the one that the payload names.
    pub tenant_id: String,
    /// Organization: the stored one, or the one that the payload names.
    pub organization_id: String,
}

/// Calls a macro with the groups, the table and the conditions by which an index finds the rows of a filter. In the
/// statement, `$1` are the wanted states (`wanted.state`), `$2` the execution, `$3` the minimum number of claims, `$4` the
/// ids, `$6` the tenant of the scope, `$7` the tenant, and `$8` the organization.
///
/// A filter on ids, an execution, an organization, a tenant, or a minimum above one claim uses an index of its own; for ids
/// and executions, `OFFSET 0` keeps the planner from reading along another one. The index on organizations has the tenants
/// before the order of the list, and that on claims has their numbers, so the rows of each tenant or number are read alone,
/// which the index finds one after the other.
macro_rules! along_index {
    ($statement:ident, $scope:expr, $filter:expr, $numbers:expr) => {
        if $numbers.is_some() {
            $statement!("", "(SELECT * FROM noetl.outbox WHERE outbox_id = ANY($4) OFFSET 0)", "")
        } else if $filter.execution_id.is_some() {
            $statement!("", "(SELECT * FROM noetl.outbox WHERE execution_id = $2 OFFSET 0)", "")
        } else if is_by_organization($filter) {
            $statement!(
                "CROSS JOIN LATERAL (
                     WITH RECURSIVE known AS (
                         (SELECT noetl.outbox_owner(tenant_id, payload, 'tenant_id') AS tenant FROM noetl.outbox
                          WHERE noetl.outbox_owner(organization_id, payload, 'organization_id') = $8
                            AND noetl.outbox_owner(organization_id, payload, 'organization_id') <> 'default'
                            AND noetl.outbox_owner(tenant_id, payload, 'tenant_id') >= coalesce($6, $7, '')
                          ORDER BY noetl.outbox_owner(tenant_id, payload, 'tenant_id') LIMIT 1)
                         UNION ALL
                         SELECT (SELECT noetl.outbox_owner(tenant_id, payload, 'tenant_id') FROM noetl.outbox
                                 WHERE noetl.outbox_owner(organization_id, payload, 'organization_id') = $8
                                   AND noetl.outbox_owner(organization_id, payload, 'organization_id') <> 'default'
                                   AND noetl.outbox_owner(tenant_id, payload, 'tenant_id') > known.tenant
                                 ORDER BY noetl.outbox_owner(tenant_id, payload, 'tenant_id') LIMIT 1)
                         FROM known WHERE known.tenant IS NOT NULL AND coalesce($6, $7) IS NULL
                     )
                     SELECT tenant FROM known WHERE tenant = coalesce($6, $7, tenant)
                 ) AS owner",
                "noetl.outbox",
                "AND noetl.outbox_owner(organization_id, payload, 'organization_id') = $8
                 AND noetl.outbox_owner(organization_id, payload, 'organization_id') <> 'default'
                 AND noetl.outbox_owner(tenant_id, payload, 'tenant_id') = owner.tenant"
            )
        } else if is_by_tenant($scope, $filter) {
            $statement!(
                "",
                "noetl.outbox",
                "AND noetl.outbox_owner(tenant_id, payload, 'tenant_id') = coalesce($6, $7)
                 AND noetl.outbox_owner(tenant_id, payload, 'tenant_id') <> 'default'"
            )
        } else if $filter.min_attempts.is_some_and(|least| least > 1) {
            $statement!(
                "CROSS JOIN LATERAL (
                     WITH RECURSIVE known AS (
                         (SELECT attempts AS number FROM noetl.outbox
                          WHERE noetl.outbox_state(status, available_at) = wanted.state AND attempts > 1 AND attempts >= $3
                          ORDER BY attempts LIMIT 1)
                         UNION ALL
                         SELECT (SELECT attempts FROM noetl.outbox
                                 WHERE noetl.outbox_state(status, available_at) = wanted.state AND attempts > 1
                                   AND attempts > known.number
                                 ORDER BY attempts LIMIT 1)
                         FROM known WHERE known.number IS NOT NULL
                     )
                     SELECT number FROM known WHERE number IS NOT NULL
                 ) AS claimed",
                "noetl.outbox",
                "AND attempts > 1 AND attempts = claimed.number"
            )
        } else {
            $statement!("", "noetl.outbox", "")
        }
    };
}

/// Returns the candidates of a page in the scope, in the range's direction. Payloads are read only if `payloads`
/// is set. One page is read per status.
#[tracing::instrument(level = "debug", name = "sql.outbox.list", skip_all, fields(database = %shard.name()))]
pub async fn list(
    shard: View<'_>,
    scope: &Scope,
    filter: &OutboxFilter,
    payloads: bool,
    page: PositionRange,
) -> Result<Vec<OutboxRow>, StorageError> {
    if filter.is_outside(scope) {
        return Ok(Vec::new());
    }
    let OutboxFilter { statuses, execution_id, min_attempts, ids: _, tenant_id, organization_id } = filter;
    let numbers = filter.numbers(&shard);
    let wanted = statuses.as_deref().unwrap_or(&OutboxStatus::ALL);
    let states: Vec<String> = wanted.iter().map(|status| status.as_str().to_owned()).collect();
    macro_rules! listed {
        ($groups:literal, $table:literal, $source:literal, $order:literal) => {
            sqlx::query_as!(
                OutboxRow,
                r#"SELECT outbox_id AS "outbox_id!", execution_id, event_id AS "event_id!", subject,
                          CASE WHEN $13 THEN payload::text END AS "payload: Text", payload_codec AS "payload_codec!",
                          noetl.outbox_state(status, available_at) AS "state!", status AS "status!", attempts AS "attempts!",
                          greatest(least(available_at, '9999-12-31'), '0001-01-01') AS "available_at!",
                          CASE WHEN lease_until IS NOT NULL THEN greatest(least(lease_until, '9999-12-31'), '0001-01-01') END AS lease_until,
                          claimant, last_error,
                          created_at AS "created_at!",
                          CASE WHEN published_at IS NOT NULL THEN greatest(least(published_at, '9999-12-31'), '0001-01-01') END AS published_at,
                          noetl.outbox_owner(tenant_id, payload, 'tenant_id') AS "tenant_id!",
                          noetl.outbox_owner(organization_id, payload, 'organization_id') AS "organization_id!"
                   FROM unnest($1::text[]) AS wanted (state) "#
                    + $groups
                    + r#" CROSS JOIN LATERAL (
                       SELECT * FROM "#
                    + $table
                    + r#" AS listed
                       WHERE (created_at, outbox_id) > ($9, $10) AND (created_at, outbox_id) < ($11, $12)
                         AND noetl.outbox_state(status, available_at) = wanted.state AND ($2::bigint IS NULL OR execution_id = $2)
                         AND ($3::integer IS NULL OR attempts >= $3)
                         AND ($4::bigint[] IS NULL OR outbox_id = ANY($4))
                         AND ($6::text IS NULL OR noetl.outbox_owner(tenant_id, payload, 'tenant_id') = $6)
                         AND ($7::text IS NULL OR noetl.outbox_owner(tenant_id, payload, 'tenant_id') = $7)
                         AND ($8::text IS NULL OR noetl.outbox_owner(organization_id, payload, 'organization_id') = $8)
                         AND CASE WHEN $14::bytea IS NULL OR status = 'PUBLISHED' OR execution_id IS NULL THEN true
                                  ELSE get_bit($14, noetl.bucket_of(execution_id)) = 1 END "#
                    + $source
                    + " ORDER BY "
                    + $order
                    + " LIMIT $5) AS page ORDER BY "
                    + $order
                    + " LIMIT $5",
                &states,
                execution_id.map(Id::get),
                *min_attempts,
                numbers.as_deref(),
                page.limit,
                scope.tenant(),
                tenant_id.as_deref(),
                organization_id.as_deref(),
                page.above.at,
                page.above.id,
                page.below.at,
                page.below.id,
                payloads,
                shard.held(),
            )
            .fetch_all(shard.planned_once())
        };
    }
    macro_rules! directed {
        ($groups:literal, $table:literal, $source:literal) => {
            if page.descending {
                shard.run(listed!($groups, $table, $source, "created_at DESC, outbox_id DESC")).await
            } else {
                shard.run(listed!($groups, $table, $source, "created_at, outbox_id")).await
            }
        };
    }
    along_index!(directed, scope, filter, numbers)
}

/// Returns whether the index on organizations has the rows. It leaves out those of the organization of rows that name
/// none.
fn is_by_organization(filter: &OutboxFilter) -> bool {
    filter.organization_id.as_deref().is_some_and(|organization| organization != "default")
}

/// Returns whether the index on tenants has the rows. It leaves out those of the tenant of rows that name none.
fn is_by_tenant(scope: &Scope, filter: &OutboxFilter) -> bool {
    scope.tenant().or(filter.tenant_id.as_deref()).is_some_and(|tenant| tenant != "default")
}

/// Counts rows in the scope, up to `limit`.
#[tracing::instrument(level = "debug", name = "sql.outbox.count", skip_all, fields(database = %shard.name()))]
pub async fn count(shard: View<'_>, scope: &Scope, filter: &OutboxFilter, limit: i64) -> Result<i64, StorageError> {
    if filter.is_outside(scope) {
        return Ok(0);
    }
    let OutboxFilter { statuses, execution_id, min_attempts, ids: _, tenant_id, organization_id } = filter;
    let numbers = filter.numbers(&shard);
    let wanted = statuses.as_deref().unwrap_or(&OutboxStatus::ALL);
    let states: Vec<String> = wanted.iter().map(|status| status.as_str().to_owned()).collect();
    macro_rules! counted {
        ($groups:literal, $table:literal, $source:literal) => {
            shard
                .run(
                    sqlx::query_scalar!(
                        r#"SELECT count(*) AS "count!" FROM (
                               SELECT 1 FROM unnest($1::text[]) AS wanted (state) "#
                            + $groups
                            + r#" CROSS JOIN LATERAL (
                                   SELECT 1 FROM "#
                            + $table
                            + r#" AS listed
                                   WHERE noetl.outbox_state(status, available_at) = wanted.state
                                     AND ($2::bigint IS NULL OR execution_id = $2)
                                     AND ($3::integer IS NULL OR attempts >= $3)
                                     AND ($4::bigint[] IS NULL OR outbox_id = ANY($4))
                                     AND ($6::text IS NULL OR noetl.outbox_owner(tenant_id, payload, 'tenant_id') = $6)
                                     AND ($7::text IS NULL OR noetl.outbox_owner(tenant_id, payload, 'tenant_id') = $7)
                                     AND ($8::text IS NULL
                                          OR noetl.outbox_owner(organization_id, payload, 'organization_id') = $8)
                                     AND CASE WHEN $9::bytea IS NULL OR status = 'PUBLISHED' OR execution_id IS NULL THEN true
                                  ELSE get_bit($9, noetl.bucket_of(execution_id)) = 1 END "#
                            + $source
                            + " LIMIT $5) AS of_group LIMIT $5
                           ) AS counted",
                        &states,
                        execution_id.map(Id::get),
                        *min_attempts,
                        numbers.as_deref(),
                        limit,
                        scope.tenant(),
                        tenant_id.as_deref(),
                        organization_id.as_deref(),
                        shard.held(),
                    )
                    .fetch_one(shard.planned_once()),
                )
                .await
        };
    }
    along_index!(counted, scope, filter, numbers)
}
