//! Source subscriptions. The state of a subscription is the status of its latest lifecycle event, which the view
//! `noetl.source_subscription` reads from the log.

use chrono::{DateTime, Utc};

use super::error::StorageError;
use super::label_path::label_path;
use super::log::LockedLog;
use super::pools::Database;
use super::view::View;
use noetl_domain::actor::Actor;
use noetl_domain::ids::Id;
use noetl_domain::labels::{LabelCondition, Labels};
use noetl_domain::lifecycle::State;
use noetl_domain::list_position::{ListPosition, PositionRange};
use noetl_domain::subscription_log::SubscriptionLog;
use noetl_domain::tenant::{Scope, Tenancy};
use plain_json::Text;

/// A subscription and its state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubscriptionRow {
    /// Subscription id, which is the execution id of its log.
    pub id: Id,
    /// Catalog path.
    pub path: String,
    /// Catalog entry with which it was registered.
    pub catalog_id: Id,
    /// State: the status of the latest lifecycle event.
    pub state: State,
    /// Status of the latest lifecycle event as stored, which names the state if it is unknown.
    pub state_text: String,
    /// Latest lifecycle event.
    pub last_event_id: Id,
    /// Type of the latest lifecycle event.
    pub last_event_type: String,
    /// Time of the registered event.
    pub registered_at: DateTime<Utc>,
    /// Time of the latest lifecycle event.
    pub updated_at: DateTime<Utc>,
    /// Tenant and organization of the registered event.
    pub tenancy: Tenancy,
    /// Labels of the document with which it was registered.
    pub labels: Labels,
}

impl SubscriptionRow {
    /// Returns the position in lists.
    #[must_use]
    pub fn position(&self) -> ListPosition {
        ListPosition::new(Some(self.registered_at), self.id.get())
    }

    /// Returns the subscription's log, for events that `by` causes.
    #[must_use]
    pub fn log<'a>(&'a self, by: Option<&'a Actor>) -> SubscriptionLog<'a> {
        SubscriptionLog { id: self.id, path: &self.path, catalog_id: self.catalog_id, tenancy: &self.tenancy, by }
    }
}

/// A lifecycle event of a subscription.
#[derive(Debug, Clone, Copy)]
pub struct LifecycleChange {
    /// Id of the event.
    pub event_id: Id,
    /// Time of the event.
    pub at: DateTime<Utc>,
    /// Whether the event registered or activated the subscription.
    pub made_live: bool,
}

/// Conditions of a list; a subscription must meet all that are set.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct SubscriptionFilter {
    /// States to include; default: all.
    pub states: Option<Vec<State>>,
    /// Prefix of the path.
    pub path_prefix: Option<String>,
    /// Conditions on labels, all of which must be met.
    pub labels: Vec<LabelCondition>,
    /// Ids to include; default: all.
    pub ids: Option<Vec<Id>>,
    /// Tenant.
    pub tenant_id: Option<String>,
    /// Organization.
    pub organization_id: Option<String>,
}

impl SubscriptionFilter {
    /// Returns whether the subscription meets all conditions.
    #[must_use]
    pub fn matches(&self, row: &SubscriptionRow) -> bool {
        self.states.as_ref().is_none_or(|states| states.contains(&row.state))
            && self.path_prefix.as_ref().is_none_or(|prefix| row.path.starts_with(prefix))
            && self.labels.iter().all(|condition| condition.matches(&row.labels))
            && self.ids.as_ref().is_none_or(|ids| ids.contains(&row.id))
            && self.tenant_id.as_ref().is_none_or(|tenant| *tenant == row.tenancy.tenant_id)
            && self.organization_id.as_ref().is_none_or(|organization| *organization == row.tenancy.organization_id)
    }
}

struct RawRow {
    id: i64,
    path: String,
    catalog_id: i64,
    state: String,
    last_event_id: i64,
    last_event_type: String,
    registered_at: DateTime<Utc>,
    updated_at: DateTime<Utc>,
    tenant_id: String,
    organization_id: String,
    labels: Option<Text>,
}

impl From<RawRow> for SubscriptionRow {
    fn from(row: RawRow) -> Self {
        Self {
            id: Id::new(row.id),
            path: row.path,
            catalog_id: Id::new(row.catalog_id),
            state: State::from_stored(&row.state),
            state_text: row.state,
            last_event_id: Id::new(row.last_event_id),
            last_event_type: row.last_event_type,
            registered_at: row.registered_at,
            updated_at: row.updated_at,
            tenancy: Tenancy { tenant_id: row.tenant_id, organization_id: row.organization_id },
            labels: row.labels.map(|labels| Labels::read(&labels.read())).unwrap_or_default(),
        }
    }
}

/// Returns the subscriptions in the scope with these ids, in no order. Ids without a subscription are left out.
#[tracing::instrument(
    level = "debug", name = "sql.subscriptions.by_ids", skip_all,
    fields(database = %shard.name(), count = ids.len(), first = ids.first())
)]
pub async fn by_ids(shard: &Database, scope: &Scope, ids: &[i64]) -> Result<Vec<SubscriptionRow>, StorageError> {
    let rows = sqlx::query_as!(
        RawRow,
        r#"SELECT id AS "id!", coalesce(path, '') AS "path!", catalog_id AS "catalog_id!",
                  coalesce(state, '') AS "state!", last_event_id AS "last_event_id!",
                  last_event_type AS "last_event_type!", registered_at AS "registered_at!", updated_at AS "updated_at!",
                  tenant_id AS "tenant_id!", organization_id AS "organization_id!",
                  labels::text AS "labels: Text"
           FROM noetl.source_subscription WHERE id = ANY($1) AND ($2::text IS NULL OR tenant_id = $2)"#,
        ids,
        scope.tenant(),
    );
    let rows = shard.run(rows.fetch_all(shard.planned_for(ids.len()))).await?;
    Ok(rows.into_iter().map(SubscriptionRow::from).collect())
}

/// Maximum number of subscriptions of one path that a lookup by path reads, newest first.
const MAX_OF_PATH: i64 = 1000;

/// Returns a path's subscription in the scope according to the logs: of the live ones, else of the ended ones, the one
/// with the latest lifecycle event. `Ok(None)`: the path has no subscription on this shard.
#[tracing::instrument(
    level = "debug", name = "sql.subscriptions.of_path", skip_all,
    fields(database = %shard.name(), path)
)]
pub async fn of_path(shard: View<'_>, scope: &Scope, path: &str) -> Result<Option<SubscriptionRow>, StorageError> {
    let row = sqlx::query_as!(
        RawRow,
        r#"SELECT id AS "id!", coalesce(path, '') AS "path!", catalog_id AS "catalog_id!",
                  coalesce(state, '') AS "state!", last_event_id AS "last_event_id!",
                  last_event_type AS "last_event_type!", registered_at AS "registered_at!", updated_at AS "updated_at!",
                  tenant_id AS "tenant_id!", organization_id AS "organization_id!",
                  labels::text AS "labels: Text"
           FROM (
               SELECT * FROM noetl.source_subscription
               WHERE path = $1 AND ($3::text IS NULL OR tenant_id = $3)
                 AND CASE WHEN $4::bytea IS NULL THEN true ELSE get_bit($4, noetl.bucket_of(id)) = 1 END
               ORDER BY id DESC LIMIT $2
           ) AS newest
           ORDER BY state IS NOT DISTINCT FROM 'DEACTIVATED', updated_at DESC, last_event_id DESC LIMIT 1"#,
        path,
        MAX_OF_PATH,
        scope.tenant(),
        shard.held(),
    );
    let row = shard.run(row.fetch_optional(shard.pool())).await?;
    Ok(row.map(SubscriptionRow::from))
}

/// Maximum number of subscriptions of a path prefix that a list sorts. More of them are frequent enough among all
/// subscriptions to be found in the order of the list.
const MAX_OF_PREFIX: i64 = 2000;

/// Returns the ids to which a filter restricts a list: its own, or those of the subscriptions with the path prefix.
/// `Ok(None)`: there are none, or more than [`MAX_OF_PREFIX`].
async fn restricted_ids(shard: &Database, filter: &SubscriptionFilter) -> Result<Option<Vec<i64>>, StorageError> {
    if let Some(ids) = &filter.ids {
        return Ok(Some(ids.iter().map(|id| id.get()).collect()));
    }
    let Some(prefix) = &filter.path_prefix else { return Ok(None) };
    // No text of the database is after the last character of Unicode.
    let found = sqlx::query_scalar!(
        r#"SELECT execution_id FROM noetl.event
           WHERE node_name IS NOT NULL
             AND left(coalesce(event_type, ''), 160) COLLATE "C" = 'subscription.registered'
             AND left(node_name, 160) COLLATE "C" >= left($1, 160)
             AND left(node_name, 160) COLLATE "C" <= left($1, 160) || chr(1114111)
           LIMIT $2"#,
        prefix,
        MAX_OF_PREFIX + 1,
    );
    let found = shard.run(found.fetch_all(shard.pool())).await?;
    Ok(i64::try_from(found.len()).is_ok_and(|count| count <= MAX_OF_PREFIX).then_some(found))
}

/// Expands to the statement of a list of subscriptions. `$with` precedes it, and `$source` has the
/// subscriptions that it reads.
macro_rules! listed {
    ($filter:expr, $scope:expr, $held:expr, $range:expr, $states:expr, $labels:expr, $ids:expr, $with:literal, $source:literal, $order:literal) => {
        sqlx::query_as!(
            RawRow,
            $with
                + r#"SELECT id AS "id!", coalesce(path, '') AS "path!", catalog_id AS "catalog_id!",
                      coalesce(state, '') AS "state!", last_event_id AS "last_event_id!",
                      last_event_type AS "last_event_type!", noetl.list_time(registered_at) AS "registered_at!",
                      noetl.list_time(updated_at) AS "updated_at!", tenant_id AS "tenant_id!",
                      organization_id AS "organization_id!", labels::text AS "labels: Text"
               FROM "#
                + $source
                + " WHERE (noetl.list_time(registered_at), id) > ($1, $2)
                 AND (noetl.list_time(registered_at), id) < ($3, $4)
                 AND ($5::text[] IS NULL OR state = ANY($5))
                 AND ($6::text IS NULL OR starts_with(path, $6))
                 AND ($7::bigint[] IS NULL OR id = ANY($7))
                 AND ($9::text IS NULL OR tenant_id = $9)
                 AND ($10::text IS NULL OR tenant_id = $10) AND ($11::text IS NULL OR organization_id = $11)
                 AND CASE WHEN $12::bytea IS NULL THEN true ELSE get_bit($12, noetl.bucket_of(id)) = 1 END
                 AND ($13::text IS NULL OR labels @@ $13::text::jsonpath)
               ORDER BY "
                + $order
                + " LIMIT $8",
            $range.above.at,
            $range.above.id,
            $range.below.at,
            $range.below.id,
            $states.as_deref(),
            $filter.path_prefix,
            $ids.as_deref(),
            $range.limit,
            $scope.tenant(),
            $filter.tenant_id,
            $filter.organization_id,
            $held,
            $labels,
        )
    };
}

/// Returns the candidates of a page in the scope, in the range's direction. A list is ordered by the time of the
/// registration, then by id.
///
/// The subscriptions of a path prefix are looked up by path, unless they are many.
/// A page with a condition on states is read from the newest 1000 subscriptions of the range. If they do not fill it, it
/// is read from the subscriptions that have an event with such a state.
#[tracing::instrument(level = "debug", name = "sql.subscriptions.list", skip_all, fields(database = %shard.name()))]
pub async fn list(
    shard: View<'_>,
    scope: &Scope,
    filter: &SubscriptionFilter,
    range: PositionRange,
) -> Result<Vec<SubscriptionRow>, StorageError> {
    let states: Option<Vec<String>> = filter.states.as_ref().map(|all| all.iter().map(ToString::to_string).collect());
    let (labels, ids) = (label_path(&filter.labels), restricted_ids(&shard, filter).await?);
    macro_rules! run {
        ($with:literal, $source:literal, $order:literal) => {
            shard
                .run(
                    listed!(filter, scope, shard.held(), range, states, labels, ids, $with, $source, $order)
                        .fetch_all(shard.planned_once()),
                )
                .await?
        };
    }
    macro_rules! of_ids {
        ($order:literal) => {
            run!(
                "",
                "(SELECT subscription.* FROM (SELECT DISTINCT unnest($7::bigint[]) AS wanted) AS id CROSS JOIN LATERAL (
                      SELECT * FROM noetl.source_subscription WHERE id = wanted LIMIT 1
                  ) AS subscription) AS found",
                $order
            )
        };
    }
    let rows = if ids.is_some() && range.descending {
        of_ids!("noetl.list_time(registered_at) DESC, id DESC")
    } else if ids.is_some() {
        of_ids!("noetl.list_time(registered_at), id")
    } else if states.is_some() && range.descending {
        run!(
            "WITH newest AS MATERIALIZED (
                 SELECT * FROM noetl.source_subscription
                 WHERE (noetl.list_time(registered_at), id) > ($1, $2) AND (noetl.list_time(registered_at), id) < ($3, $4)
                 ORDER BY noetl.list_time(registered_at) DESC, id DESC LIMIT 1000
             ), near AS MATERIALIZED (
                 SELECT * FROM newest
                 WHERE state = ANY($5) AND ($6::text IS NULL OR starts_with(path, $6))
                   AND ($9::text IS NULL OR tenant_id = $9)
                   AND ($10::text IS NULL OR tenant_id = $10) AND ($11::text IS NULL OR organization_id = $11)
                   AND CASE WHEN $12::bytea IS NULL THEN true ELSE get_bit($12, noetl.bucket_of(id)) = 1 END
                   AND ($13::text IS NULL OR labels @@ $13::text::jsonpath)
                 LIMIT $8
             ) ",
            "(SELECT * FROM near WHERE (SELECT count(*) FROM near) >= $8 OR (SELECT count(*) FROM newest) < 1000
              UNION ALL
              SELECT subscription.* FROM (
                  SELECT DISTINCT event.execution_id FROM unnest($5::text[]) AS wanted (state)
                  CROSS JOIN unnest(ARRAY[
                      'subscription.registered', 'subscription.activated', 'subscription.paused', 'subscription.resumed',
                      'subscription.draining', 'subscription.deactivated']) AS lifecycle (type)
                  CROSS JOIN LATERAL (
                      SELECT execution_id FROM noetl.event
                      WHERE (left(coalesce(event_type, ''), 255) COLLATE \"C\", left(coalesce(status, ''), 255) COLLATE \"C\")
                            = (lifecycle.type, wanted.state)
                      ORDER BY noetl.list_time(created_at AT TIME ZONE 'UTC') DESC, event_id DESC, execution_id DESC
                  ) AS event
                  WHERE (SELECT count(*) FROM near) < $8 AND (SELECT count(*) FROM newest) = 1000
              ) AS candidate
              CROSS JOIN LATERAL (
                  SELECT * FROM noetl.source_subscription WHERE id = candidate.execution_id LIMIT 1
              ) AS subscription) AS found",
            "noetl.list_time(registered_at) DESC, id DESC"
        )
    } else if range.descending {
        run!("", "noetl.source_subscription", "noetl.list_time(registered_at) DESC, id DESC")
    } else {
        run!("", "noetl.source_subscription", "noetl.list_time(registered_at), id")
    };
    Ok(rows.into_iter().map(SubscriptionRow::from).collect())
}

/// Counts subscriptions in the scope, up to `limit`.
#[tracing::instrument(level = "debug", name = "sql.subscriptions.count", skip_all, fields(database = %shard.name()))]
pub async fn count(
    shard: View<'_>,
    scope: &Scope,
    filter: &SubscriptionFilter,
    limit: i64,
) -> Result<i64, StorageError> {
    let states: Option<Vec<String>> = filter.states.as_ref().map(|all| all.iter().map(ToString::to_string).collect());
    let (labels, ids) = (label_path(&filter.labels), restricted_ids(&shard, filter).await?);
    macro_rules! counted {
        ($source:literal) => {
            sqlx::query_scalar!(
                r#"SELECT count(*) AS "count!" FROM (
                       SELECT 1 FROM "#
                    + $source
                    + " WHERE ($1::text[] IS NULL OR state = ANY($1))
                         AND ($2::text IS NULL OR starts_with(path, $2))
                         AND ($3::bigint[] IS NULL OR id = ANY($3))
                         AND ($5::text IS NULL OR tenant_id = $5)
                         AND ($6::text IS NULL OR tenant_id = $6) AND ($7::text IS NULL OR organization_id = $7)
                         AND CASE WHEN $8::bytea IS NULL THEN true ELSE get_bit($8, noetl.bucket_of(id)) = 1 END
                         AND ($9::text IS NULL OR labels @@ $9::text::jsonpath)
                       LIMIT $4
                   ) AS counted",
                states.as_deref(),
                filter.path_prefix,
                ids.as_deref(),
                limit,
                scope.tenant(),
                filter.tenant_id,
                filter.organization_id,
                shard.held(),
                labels,
            )
            .fetch_one(shard.planned_once())
        };
    }
    if ids.is_some() {
        shard
            .run(counted!(
                "(SELECT subscription.* FROM (SELECT DISTINCT unnest($3::bigint[]) AS wanted) AS id CROSS JOIN LATERAL (
                      SELECT * FROM noetl.source_subscription WHERE id = wanted LIMIT 1
                  ) AS subscription) AS found"
            ))
            .await
    } else {
        shard.run(counted!("noetl.source_subscription")).await
    }
}

impl LockedLog<'_> {
    /// Returns the subscription of this log, read under the lock. `Ok(None)`: the log has no registered event in the
    /// scope.
    #[tracing::instrument(
        level = "debug", name = "sql.subscriptions.subscription", skip_all,
        fields(database = %self.shard.name(), execution = %self.execution)
    )]
    pub async fn subscription(&mut self, scope: &Scope) -> Result<Option<SubscriptionRow>, StorageError> {
        let row = sqlx::query_as!(
            RawRow,
            r#"SELECT id AS "id!", coalesce(path, '') AS "path!", catalog_id AS "catalog_id!",
                      coalesce(state, '') AS "state!", last_event_id AS "last_event_id!",
                      last_event_type AS "last_event_type!", registered_at AS "registered_at!",
                      updated_at AS "updated_at!", tenant_id AS "tenant_id!", organization_id AS "organization_id!",
                      labels::text AS "labels: Text"
               FROM noetl.source_subscription WHERE id = $1 AND ($2::text IS NULL OR tenant_id = $2) LIMIT 1"#,
            self.execution.get(),
            scope.tenant(),
        );
        let row = self.shard.run(row.fetch_optional(&mut *self.tx)).await?;
        Ok(row.map(SubscriptionRow::from))
    }

    /// Returns the caller that registered the subscription. `Ok(None)`: the event names none.
    pub async fn registered_by(&mut self) -> Result<Option<Actor>, StorageError> {
        let found = sqlx::query_scalar!(
            "SELECT meta ->> 'actor' FROM noetl.event
             WHERE execution_id = $1 AND event_type = 'subscription.registered'
             ORDER BY event_id LIMIT 1",
            self.execution.get(),
        );
        let found = self.shard.run(found.fetch_optional(&mut *self.tx)).await?;
        Ok(found.flatten().map(Actor::from))
    }

    /// Returns the first lifecycle event after the event `after`, which decides about an intent that follows `after`.
    #[tracing::instrument(
        level = "debug", name = "sql.subscriptions.change_after", skip_all,
        fields(database = %self.shard.name(), execution = %self.execution, after = %after)
    )]
    pub async fn change_after(&mut self, after: Id) -> Result<Option<LifecycleChange>, StorageError> {
        let found = sqlx::query!(
            r#"SELECT event_id, created_at AT TIME ZONE 'UTC' AS "at!",
                      event_type IN ('subscription.registered', 'subscription.activated') AS "made_live!"
               FROM noetl.event
               WHERE execution_id = $1 AND event_id > $2 AND event_type IN (
                   'subscription.registered', 'subscription.activated', 'subscription.paused', 'subscription.resumed',
                   'subscription.draining', 'subscription.deactivated')
               ORDER BY event_id LIMIT 1"#,
            self.execution.get(),
            after.get(),
        );
        let found = self.shard.run(found.fetch_optional(&mut *self.tx)).await?;
        Ok(found.map(|row| LifecycleChange { event_id: Id::new(row.event_id), at: row.at, made_live: row.made_live }))
    }
}
