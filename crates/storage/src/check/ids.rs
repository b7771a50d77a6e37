//! Ids in the logs, compared with the ranges of the leases on machine ids.

use super::Pages;
use crate::error::StorageError;
use crate::pools::Database;
use noetl_domain::event::EventKey;

/// Largest event id of a machine in a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MachineMax {
    /// The machine id that the id contains.
    pub machine_id: i32,
    /// The event id.
    pub event_id: i64,
}

/// Ids of a page of events.
#[derive(Debug, Clone)]
pub struct IdPage {
    /// Key of the last event of the page.
    pub last: EventKey,
    /// Largest id of each machine in the page. Ids from `below` on are left out.
    pub largest: Vec<MachineMax>,
}

/// Reads the ids of up to `limit` events after a key, in the order of ids. `Ok(None)`: there are none.
#[tracing::instrument(level = "debug", name = "sql.check.event_ids", skip_all, fields(database = %pages.name()))]
pub async fn page(
    pages: &mut Pages<'_>,
    after: EventKey,
    below: i64,
    limit: i64,
) -> Result<Option<IdPage>, StorageError> {
    let rows = sqlx::query!(
        r#"WITH page AS MATERIALIZED (
               SELECT event_id, execution_id FROM noetl.event
               WHERE (event_id, execution_id) > ($1, $2) AND event_id < $3
               ORDER BY event_id, execution_id LIMIT $4
           ), last AS (
               SELECT event_id, execution_id FROM page ORDER BY event_id DESC, execution_id DESC LIMIT 1
           )
           SELECT (event_id >> 12 & 1023)::integer AS "machine_id!", max(event_id) AS "event_id!",
                  (SELECT event_id FROM last) AS "last_event_id!", (SELECT execution_id FROM last) AS "last_execution_id!"
           FROM page GROUP BY 1"#,
        after.event_id,
        after.execution_id,
        below,
        limit,
    );
    let rows = pages.database.run(rows.fetch_all(&mut pages.connection)).await?;
    let last = rows.first().map(|row| EventKey { event_id: row.last_event_id, execution_id: row.last_execution_id });
    let largest = rows.iter().map(|row| MachineMax { machine_id: row.machine_id, event_id: row.event_id }).collect();
    Ok(last.map(|last| IdPage { last, largest }))
}

/// Returns the last reserved millisecond of each machine id.
#[tracing::instrument(level = "debug", name = "sql.check.ceilings", skip_all, fields(database = %cluster.name()))]
pub async fn ceilings(cluster: &Database) -> Result<Vec<(u16, u64)>, StorageError> {
    let rows = sqlx::query!("SELECT machine_id, ceiling_ms FROM noetl.machine_lease");
    let rows = cluster.run(rows.fetch_all(cluster.pool())).await?;
    Ok(rows.into_iter().map(|row| (row.machine_id.cast_unsigned(), row.ceiling_ms.cast_unsigned())).collect())
}

/// Raises the ranges of machine ids, so that the next holder of each starts after these milliseconds. Lowers none.
#[tracing::instrument(
    level = "debug", name = "sql.check.raise_ceilings", skip_all,
    fields(database = %cluster.name(), count = ceilings.len())
)]
pub async fn raise(cluster: &Database, ceilings: &[(u16, u64)]) -> Result<u64, StorageError> {
    let machines: Vec<i16> = ceilings.iter().map(|(machine, _)| machine.cast_signed()).collect();
    let milliseconds: Vec<i64> = ceilings.iter().map(|(_, ms)| ms.cast_signed()).collect();
    let update = sqlx::query!(
        "UPDATE noetl.machine_lease AS lease SET ceiling_ms = given.ms
         FROM unnest($1::smallint[], $2::bigint[]) AS given (machine_id, ms)
         WHERE lease.machine_id = given.machine_id AND lease.ceiling_ms < given.ms",
        &machines,
        &milliseconds,
    );
    Ok(cluster.run(update.execute(cluster.leases())).await?.rows_affected())
}

/// Ends the ranges of machine ids at these milliseconds. Returns the machine ids; those with a holder are left out.
#[tracing::instrument(
    level = "debug", name = "sql.check.lower_ceilings", skip_all,
    fields(database = %cluster.name(), count = ceilings.len())
)]
pub async fn lower(cluster: &Database, ceilings: &[(u16, u64)]) -> Result<Vec<u16>, StorageError> {
    let machines: Vec<i16> = ceilings.iter().map(|(machine, _)| machine.cast_signed()).collect();
    let milliseconds: Vec<i64> = ceilings.iter().map(|(_, ms)| ms.cast_signed()).collect();
    let update = sqlx::query_scalar!(
        r#"UPDATE noetl.machine_lease AS lease SET ceiling_ms = given.ms
           FROM unnest($1::smallint[], $2::bigint[]) AS given (machine_id, ms)
           WHERE lease.machine_id = given.machine_id AND lease.ceiling_ms > given.ms AND lease.expires_at < now()
           RETURNING lease.machine_id AS "machine_id!""#,
        &machines,
        &milliseconds,
    );
    let lowered = cluster.run(update.fetch_all(cluster.leases())).await?;
    Ok(lowered.into_iter().map(i16::cast_unsigned).collect())
}
