//! Reads the results of the iterations of loops from the log, because stored states do not contain them.

use std::time::Duration;

use chrono::{DateTime, Utc};
use futures::TryStreamExt;
use serde_json::Value;
use tokio::time::timeout;

use super::Projected;
use super::load::{bounds, set_timeout};
use super::rows::readable;
use crate::budget::{Budget, uncharged};
use crate::connections::Transaction;
use crate::error::StorageError;
use crate::metered::passed;
use crate::pools::Database;
use noetl_domain::event::Event;
use noetl_domain::id_span::IdSpan;
use noetl_domain::ids::Id;
use noetl_domain::workflow::LoopResults;

/// A loop of a state, whose result is only in the log.
#[derive(Debug, Clone, Copy)]
pub struct LoopOfState<'a> {
    /// State of the execution.
    pub projected: &'a Projected,
    /// Name of the step.
    pub step: &'a str,
}

/// Returns the results of the iterations of each of these loops, in their order. It reads exactly the events that the
/// states contain, in one statement, in at most `limit`.
#[tracing::instrument(
    level = "debug", name = "sql.snapshots.loop_results", skip_all,
    fields(database = %shard.name(), count = loops.len())
)]
pub async fn loop_results(
    shard: &Database,
    loops: &[LoopOfState<'_>],
    limit: Duration,
) -> Result<Vec<Option<Value>>, StorageError> {
    let _permit = shard.may_take_long().await;
    let begin = async {
        let mut tx = shard.planned_for(loops.len()).begin_with("BEGIN READ ONLY").await?;
        set_timeout(&mut tx, limit).await?;
        Ok(tx)
    };
    let mut tx = shard.run(begin).await?;
    let budget = Budget::current();
    let read = timeout(limit, uncharged(read_results(&mut tx, loops, budget.as_deref()))).await;
    let results = read.map_err(|_| shard.timed_out(limit))?.map_err(|error| shard.failed(error))?;
    shard.run(tx.commit()).await?;
    Ok(results.iter().map(LoopResults::list).collect())
}

/// Reads the events of the loops. Their bytes are charged to the budget, but not their number: a loop is one value of
/// the response.
async fn read_results(
    tx: &mut Transaction,
    loops: &[LoopOfState<'_>],
    budget: Option<&Budget>,
) -> sqlx::Result<Vec<LoopResults>> {
    let ids: Vec<i64> = loops.iter().map(|one| one.projected.execution_id.get()).collect();
    let span = IdSpan::of(&ids);
    let steps: Vec<String> = loops.iter().map(|one| one.step.to_owned()).collect();
    let moments: Vec<String> = loops.iter().map(|one| one.projected.as_of.clone()).collect();
    let (last, latest): (Vec<i64>, Vec<Option<DateTime<Utc>>>) =
        loops.iter().map(|one| bounds(one.projected.until)).map(|(last, latest)| (last.get(), latest)).unzip();
    let types: Vec<String> = LoopResults::types().map(str::to_owned).collect();
    let mut results: Vec<LoopResults> = loops.iter().map(|_| LoopResults::default()).collect();
    let mut rows = sqlx::query!(
        r#"SELECT wanted.place AS "place!", event.execution_id AS "execution_id!", event.event_id AS "event_id!",
                  greatest(least(event.created_at, '9999-12-31'), '0001-01-01') AT TIME ZONE 'UTC' AS "created_at!",
                  coalesce(event.event_type, '') AS "event_type!", event.node_name, event.status,
                  event.context::text AS context, event.result::text AS result, event.meta::text AS meta
           FROM unnest($1::bigint[], $2::text[], $3::text[], $4::bigint[], $5::timestamptz[])
                WITH ORDINALITY AS wanted (execution_id, step, as_of, last, latest, place)
           CROSS JOIN LATERAL (
               SELECT * FROM noetl.event
               WHERE execution_id = wanted.execution_id AND execution_id >= $7 AND execution_id <= $8
                 AND event_id <= wanted.last
                 AND coalesce(node_name, node_id) = wanted.step AND event_type = ANY($6)
                 AND (wanted.latest IS NULL OR created_at <= wanted.latest AT TIME ZONE 'UTC')
                 AND (pg_visible_in_snapshot(tx_id, wanted.as_of::pg_snapshot)
                      -- Ids of another database, which only a copied row has.
                      OR tx_id >= pg_snapshot_xmax(pg_current_snapshot()))
           ) AS event"#,
        &ids,
        &steps,
        &moments,
        &last,
        &latest as &[Option<DateTime<Utc>>],
        &types,
        span.first,
        span.last,
    )
    .fetch(&mut **tx);
    while let Some(row) = rows.try_next().await? {
        let bytes = row.result.as_ref().map_or(0, String::len);
        budget.map_or(Ok(()), |budget| budget.charge_bytes(bytes)).map_err(passed)?;
        let place = usize::try_from(row.place - 1).ok().and_then(|place| results.get_mut(place));
        if let Some(result) = place {
            let (execution, event) = (Id::new(row.execution_id), Id::new(row.event_id));
            result.fold(&Event {
                node_name: row.node_name,
                status: row.status,
                context: row.context.map(readable),
                result: row.result.map(readable),
                meta: row.meta.map(readable),
                ..Event::bare(execution, event, Id::new(0), &row.event_type, row.created_at)
            });
        }
    }
    Ok(results)
}
