//! Progress of the fill of the executions' list, `noetl.execution`, from the logs of a shard.
//!
//! One process at a time fills the list of a shard. It holds an advisory lock until its connection is closed.

use sqlx::{Connection, PgConnection};

use super::error::StorageError;
use super::pools::Database;
use super::snapshots::AGGREGATE;
use noetl_domain::execution::StatusSource;

/// Settings of the connection. The pages are found by indexes, also if the planner has no statistics.
const SETTINGS: &str = "SET statement_timeout = '1min'; SET lock_timeout = '5s'; SET enable_seqscan = off";
/// Largest number of remaining executions that is counted.
const COUNT_LIMIT: i64 = 100_000;

/// The exclusive right to fill the list of one shard.
#[derive(Debug)]
pub struct Fill<'a> {
    shard: &'a Database,
    connection: PgConnection,
}

/// Progress of a pass over all logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FillProgress {
    /// Execution id of the last log that was checked; -1 at the start.
    pub position: i64,
    /// Number of logs that were checked.
    pub checked: i64,
    /// Number of list rows that were created.
    pub filled: i64,
}

/// A log of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FillLog {
    /// Its execution id.
    pub execution_id: i64,
    /// Whether the list lacks it, or has it as another program wrote it, without its tenant, without its last event or with
    /// a state of another version, and it is not the log of a source subscription.
    pub outdated: bool,
}

/// Makes a new pass due, although the last one has ended. One that runs goes on, and another one follows.
#[tracing::instrument(level = "debug", name = "sql.read_model.request", skip_all, fields(database = %shard.name()))]
pub async fn request(shard: &Database) -> Result<(), StorageError> {
    shard.run(sqlx::query!("DELETE FROM noetl.read_model_fill").execute(shard.pool())).await?;
    Ok(())
}

impl<'a> Fill<'a> {
    /// Takes the lock. `Ok(None)`: another process fills the list.
    #[tracing::instrument(level = "debug", name = "sql.read_model.take", skip_all, fields(database = %shard.name()))]
    pub async fn take(shard: &'a Database) -> Result<Option<Self>, StorageError> {
        let connection = shard.exclusive_connection("noetl.read_model_fill", SETTINGS).await?;
        Ok(connection.map(|connection| Self { shard, connection }))
    }

    /// Returns the pass that is due: one that was interrupted, or a new one. A pass that began before the feed is
    /// repeated when the feed has begun, and without a feed every `repeat_seconds`. Another one is due after the feed was
    /// bound to a restored database ([`super::tail::rewind`]), after [`request`], and after a change of the source of the
    /// statuses ([`StatusSource`]). `Ok(None)`: none is due.
    #[tracing::instrument(
        level = "debug", name = "sql.read_model.begin", skip_all,
        fields(database = %self.shard.name())
    )]
    pub async fn begin(&mut self, repeat_seconds: f64) -> Result<Option<FillProgress>, StorageError> {
        let from_steps = self.shard.status_source() == StatusSource::Steps;
        let former = sqlx::query!("DELETE FROM noetl.read_model_fill WHERE from_steps <> $1", from_steps);
        let former = former.execute(&mut self.connection).await.map_err(|error| self.shard.failed(error))?;
        if former.rows_affected() > 0 {
            tracing::warn!(
                database = %self.shard.name(), from_steps,
                "NOETL_EXECUTION_STATUS_FROM_STEPS has changed, so the list of executions gets the other statuses; if this \
                 line is repeated, replicas have different values"
            );
        }
        let due = sqlx::query_as!(
            FillProgress,
            "INSERT INTO noetl.read_model_fill AS pass (after_feed, from_steps)
             SELECT EXISTS (SELECT 1 FROM noetl.tail_cursor), $2::boolean
             ON CONFLICT (singleton) DO UPDATE
             SET position = CASE WHEN pass.ended_at IS NULL THEN pass.position ELSE -1 END,
                 checked = CASE WHEN pass.ended_at IS NULL THEN pass.checked ELSE 0 END,
                 filled = CASE WHEN pass.ended_at IS NULL THEN pass.filled ELSE 0 END,
                 after_feed = CASE WHEN pass.ended_at IS NULL THEN pass.after_feed ELSE EXCLUDED.after_feed END,
                 began_at = CASE WHEN pass.ended_at IS NULL THEN pass.began_at ELSE now() END,
                 ended_at = NULL
             WHERE pass.ended_at IS NULL
                OR (NOT pass.after_feed
                    AND (EXCLUDED.after_feed OR pass.ended_at < now() - make_interval(secs => $1)))
             RETURNING position, checked, filled",
            repeat_seconds,
            from_steps,
        );
        due.fetch_optional(&mut self.connection).await.map_err(|error| self.shard.failed(error))
    }

    /// Returns the next logs after a position, in the order of their ids.
    #[tracing::instrument(
        level = "debug", name = "sql.read_model.page", skip_all,
        fields(database = %self.shard.name(), after)
    )]
    pub async fn page(&mut self, after: i64, limit: i64) -> Result<Vec<FillLog>, StorageError> {
        let page = sqlx::query_as!(
            FillLog,
            r#"WITH RECURSIVE log AS (
                   (SELECT execution_id FROM noetl.event WHERE execution_id > $1 ORDER BY execution_id LIMIT 1)
                   UNION ALL
                   SELECT next.execution_id FROM log CROSS JOIN LATERAL (
                       SELECT execution_id FROM noetl.event
                       WHERE execution_id > log.execution_id ORDER BY execution_id LIMIT 1
                   ) AS next
               )
               SELECT execution_id AS "execution_id!",
                      -- Not as NOT EXISTS, for which the planner may read whole tables into a hash.
                      ((SELECT ((listed.tenant_id, listed.organization_id) <> ('default', 'default')
                                OR (SELECT (owner.tenant_id, owner.organization_id) = ('default', 'default')
                                    FROM noetl.log_owner(page.execution_id) AS owner))
                               AND listed.failed_steps IS NOT NULL
                               -- A row without a stored state is that of an execution that was only created or cancelled.
                               AND coalesce((SELECT meta ->> 'schema' = $3 FROM noetl.projection_snapshot
                                             WHERE tenant_id = listed.tenant_id
                                               AND organization_id = listed.organization_id AND aggregate_type = $4
                                               AND aggregate_id = page.execution_id::text), true)
                               AND coalesce(listed.last_event_id, 9223372036854775807)
                                   >= (SELECT event_id FROM noetl.event WHERE execution_id = page.execution_id
                                       ORDER BY event_id DESC LIMIT 1)
                        FROM noetl.execution AS listed WHERE listed.execution_id = page.execution_id) IS NOT TRUE
                       AND (SELECT 1 FROM noetl.event
                            WHERE execution_id = page.execution_id AND event_type = 'subscription.registered'
                            LIMIT 1) IS NULL) AS "outdated!"
               FROM (SELECT execution_id FROM log LIMIT $2) AS page"#,
            after,
            limit,
            self.shard.shape().to_string(),
            AGGREGATE,
        );
        page.fetch_all(&mut self.connection).await.map_err(|error| self.shard.failed(error))
    }

    /// Stores the progress of the pass.
    #[tracing::instrument(
        level = "debug", name = "sql.read_model.store", skip_all,
        fields(database = %self.shard.name(), position = progress.position)
    )]
    pub async fn store(&mut self, progress: FillProgress) -> Result<(), StorageError> {
        let update = sqlx::query!(
            "UPDATE noetl.read_model_fill SET position = $1, checked = $2, filled = $3",
            progress.position,
            progress.checked,
            progress.filled,
        );
        update.execute(&mut self.connection).await.map_err(|error| self.shard.failed(error))?;
        Ok(())
    }

    /// Returns the number of executions that the pass has not checked, counted up to 100,000.
    #[tracing::instrument(
        level = "debug", name = "sql.read_model.remaining", skip_all,
        fields(database = %self.shard.name())
    )]
    pub async fn remaining(&mut self, position: i64) -> Result<i64, StorageError> {
        let count = sqlx::query_scalar!(
            r#"SELECT count(*) AS "count!" FROM (
                   SELECT 1 FROM noetl.event
                   WHERE execution_id > $1 AND event_type IN ('playbook_started', 'playbook.initialized') LIMIT $2
               ) AS remaining"#,
            position,
            COUNT_LIMIT,
        );
        count.fetch_one(&mut self.connection).await.map_err(|error| self.shard.failed(error))
    }

    /// Ends the pass, and releases the lock.
    #[tracing::instrument(level = "debug", name = "sql.read_model.end", skip_all, fields(database = %self.shard.name()))]
    pub async fn end(mut self) -> Result<(), StorageError> {
        let work = async {
            sqlx::query!("UPDATE noetl.read_model_fill SET ended_at = now()").execute(&mut self.connection).await?;
            self.connection.close().await
        };
        let ended: sqlx::Result<_> = work.await;
        ended.map_err(|error| self.shard.failed(error))
    }
}
