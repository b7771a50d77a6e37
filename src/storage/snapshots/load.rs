//! Loading snapshots and folding what is not in them.

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use futures::TryStreamExt;
use serde_json::Value;
use sqlx::{Postgres, Transaction};

use super::{AGGREGATE, Defect, Projected, SnapshotInfo};
use crate::domain::event::Event;
use crate::domain::ids::Id;
use crate::domain::projection::{Projection, SHAPE, Watermark, checksum};
use crate::domain::tx_snapshot::TxSnapshot;
use crate::domain::workflow::known_types;
use crate::storage::error::StorageError;
use crate::storage::pools::Database;

/// The state of each of these logs, in no order. Memory is bounded by the states, whatever the logs' length; it takes as
/// long as there is to fold.
pub async fn read(shard: &Database, ids: &[i64]) -> Result<Vec<Projected>, StorageError> {
    let begin = async {
        let mut tx = shard.pool().begin_with("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY").await?;
        sqlx::query!("SET LOCAL statement_timeout = 0").execute(&mut *tx).await?;
        Ok(tx)
    };
    let mut tx = shard.run(begin).await?;
    let bases = shard.run(load(&mut tx, ids)).await?;
    let mut projections: HashMap<i64, Projected> = bases.into_iter().map(|base| (base.id, base.check())).collect();
    fold(&mut tx, &mut projections).await.map_err(|error| shard.failed(error))?;
    shard.run(tx.commit()).await?;
    Ok(projections.into_values().collect())
}

/// A log and its stored snapshot, if it has one.
struct Base {
    id: i64,
    now: String,
    system: String,
    version: Option<i64>,
    snapshot: Option<String>,
    checksum: Option<String>,
    schema: Option<i32>,
    as_of: Option<String>,
    of_system: Option<String>,
    applied_count: Option<i64>,
    updated_at: Option<DateTime<Utc>>,
}

async fn load(tx: &mut Transaction<'static, Postgres>, ids: &[i64]) -> sqlx::Result<Vec<Base>> {
    sqlx::query_as!(
        Base,
        r#"SELECT log.id AS "id!", pg_current_snapshot()::text AS "now!", control.system_identifier::text AS "system!",
                  stored.version AS "version?", stored.snapshot::text AS snapshot, stored.checksum AS "checksum?",
                  CASE WHEN meta ->> 'schema' ~ '^\d{1,9}$' THEN (meta ->> 'schema')::integer END AS schema,
                  meta ->> 'as_of' AS as_of, meta ->> 'system' AS of_system,
                  CASE WHEN meta ->> 'applied_count' ~ '^\d{1,18}$' THEN (meta ->> 'applied_count')::bigint END
                      AS applied_count,
                  stored.updated_at AS "updated_at?"
           FROM unnest($1::bigint[]) AS log (id)
           CROSS JOIN pg_control_system() AS control
           LEFT JOIN noetl.projection_snapshot AS stored
               ON stored.aggregate_id = log.id::text AND stored.aggregate_type = $2
              AND stored.tenant_id = 'default' AND stored.organization_id = 'default'"#,
        ids,
        AGGREGATE,
    )
    .fetch_all(&mut **tx)
    .await
}

impl Base {
    /// Where the fold begins: at the snapshot if it is good, else before the first event.
    fn check(self) -> Projected {
        let opened = self.checksum.as_ref().map(|_| self.open());
        let (good, defect) = match opened {
            Some(Ok(good)) => (Some(good), None),
            Some(Err(defect)) => (None, Some(defect)),
            None => (None, None),
        };
        let unusable = defect.and(self.checksum.clone());
        let (projection, snapshot) =
            good.map_or((Projection::default(), None), |(projection, info)| (projection, Some(info)));
        let as_of = match snapshot {
            Some(_) => self.as_of,
            None => None,
        };
        Projected {
            execution_id: Id::new(self.id),
            projection,
            snapshot,
            folded: 0,
            defect,
            base: as_of.unwrap_or_else(|| TxSnapshot::beginning().to_string()),
            as_of: self.now,
            system: self.system,
            unusable,
        }
    }

    fn open(&self) -> Result<(Projection, SnapshotInfo), Defect> {
        if self.schema != Some(SHAPE) {
            return Err(Defect::Shape);
        }
        if self.of_system.as_ref() != Some(&self.system) {
            return Err(Defect::OtherDatabase);
        }
        let stored = self.version.zip(self.applied_count).zip(self.as_of.as_deref()).zip(self.updated_at);
        let (((version, applied_count), as_of), updated_at) = stored.ok_or(Defect::Checksum)?;
        as_of.parse::<TxSnapshot>().map_err(|_| Defect::Checksum)?;
        let text = self.snapshot.as_deref().unwrap_or_default();
        let state: Value = serde_json::from_str(text).map_err(|_| Defect::Checksum)?;
        let sealed = checksum(&state, Watermark { as_of, system: &self.system, version, applied_count });
        let checksum = self.checksum.clone().filter(|held| *held == sealed).ok_or(Defect::Checksum)?;
        let state = serde_json::from_value(state).map_err(|_| Defect::Shape)?;
        let projection = Projection { state, version: Some(Id::new(version)), applied_count };
        Ok((projection, SnapshotInfo { version: Id::new(version), applied_count, checksum, schema: SHAPE, updated_at }))
    }
}

/// What the fold reads of an event. JSON comes as text: a foreign writer's may be more than a [`Value`] can hold.
struct Row {
    execution_id: i64,
    event_id: i64,
    catalog_id: i64,
    parent_execution_id: Option<i64>,
    created_at: DateTime<Utc>,
    event_type: String,
    node_id: Option<String>,
    node_name: Option<String>,
    context: Option<String>,
    result: Option<String>,
    meta: Option<String>,
    error: Option<String>,
}

/// Folds what the snapshots do not see. The order does not matter, so nothing is sorted.
async fn fold(tx: &mut Transaction<'static, Postgres>, projections: &mut HashMap<i64, Projected>) -> sqlx::Result<()> {
    let (ids, bases): (Vec<i64>, Vec<String>) =
        projections.iter().map(|(id, projected)| (*id, projected.base.clone())).unzip();
    let known: Vec<String> = known_types().map(str::to_owned).collect();
    let mut rows = sqlx::query_as!(
        Row,
        r#"SELECT unseen.execution_id AS "execution_id!", event_id AS "event_id!", catalog_id AS "catalog_id!",
                  parent_execution_id,
                  greatest(least(created_at, '9999-12-31'), '0001-01-01') AT TIME ZONE 'UTC' AS "created_at!",
                  coalesce(event_type, '') AS "event_type!", node_id, node_name,
                  CASE WHEN event_type = ANY($3) THEN context::text END AS context,
                  CASE WHEN event_type = ANY($3) THEN result::text END AS result,
                  CASE WHEN event_type = ANY($3) THEN meta::text END AS meta,
                  CASE WHEN event_type = ANY($3) THEN error END AS error
           FROM unnest($1::bigint[], $2::text[]) AS base (id, as_of)
           CROSS JOIN LATERAL (
               SELECT * FROM noetl.event
               WHERE execution_id = base.id AND tx_id >= pg_snapshot_xmax(base.as_of::pg_snapshot)
               UNION ALL
               SELECT * FROM noetl.event
               WHERE execution_id = base.id AND tx_id = ANY(ARRAY(SELECT pg_snapshot_xip(base.as_of::pg_snapshot)))
           ) AS unseen"#,
        &ids,
        &bases,
        &known,
    )
    .fetch(&mut **tx);
    while let Some(row) = rows.try_next().await? {
        if let Some(projected) = projections.get_mut(&row.execution_id) {
            projected.folded += 1;
            projected.projection.fold(&Event::from(row));
        }
    }
    Ok(())
}

impl From<Row> for Event {
    fn from(row: Row) -> Self {
        let ids = (Id::new(row.execution_id), Id::new(row.event_id), Id::new(row.catalog_id));
        Self {
            parent_execution_id: row.parent_execution_id.map(Id::new),
            node_id: row.node_id,
            node_name: row.node_name,
            context: row.context.map(json),
            result: row.result.map(json),
            meta: row.meta.map(json),
            error: row.error,
            ..Self::bare(ids.0, ids.1, ids.2, &row.event_type, row.created_at)
        }
    }
}

/// The value, or, where one is nested too deeply or has a number beyond what a [`Value`] holds, its text.
fn json(text: String) -> Value {
    serde_json::from_str(&text).unwrap_or(Value::String(text))
}
