//! Claims of outbox rows. They guarantee that an execution is never in flight with two lease holders, and that its rows
//! are claimed in outbox order.
//!
//! A claim is one transaction of two statements. The first finds claimable rows and tries to take the advisory locks of
//! their executions; it skips executions whose lock another claim holds, so claims never wait. The second has its own
//! snapshot, which sees all commits of earlier lock holders. (In a single statement, the snapshot would be older than
//! the locks, and two claims could split an execution.) It skips executions with a row under a live lease. Of each
//! other execution it takes a prefix of the open rows: those before the first that is not claimable, or that another
//! transaction has locked, such as a late settlement.
//!
//! The locks are on 2048 buckets of executions, so that claims of many executions can't fill the server's lock table
//! (about 7000 locks by default). While a claim holds a bucket, other claims skip all executions of that bucket.
//!
//! A claim can select rows by the beginnings of their subjects. A row that is not selected ends the prefix of its execution
//! as well, so the later rows of the execution wait until it is settled, or DEAD.
//!
//! Rows without an execution have no order; each is locked on its own. DEAD rows are not claimed and delay no other row.
//!
//! A claim writes the number of attempts after which the row is dead. If the lease of the last attempt expires, the row
//! is *exhausted*: the next claim takes it once more, without counting, so that the caller can mark it as dead.

use futures::{Stream, TryStreamExt};

use super::message::Claimed;
use super::{DEFAULT_LEASE_SECONDS, LowWatermarks};
use crate::budget::uncharged;
use crate::connections::Transaction;
use crate::error::StorageError;
use crate::view::View;
use noetl_domain::tenant::Scope;
use plain_json::Received;

/// Parameters of a claim.
#[derive(Debug, Clone, Copy)]
pub struct Claim<'a> {
    /// Maximum number of rows.
    pub limit: i64,
    /// Number of candidates, each of failed rows and of rows with an expired lease, that are considered before PENDING
    /// rows. The others follow after them, so rows that fail again and again don't starve the PENDING ones.
    pub retried: i64,
    /// Duration of the lease in seconds.
    pub lease_seconds: i32,
    /// Number of claims after which a row that is not delivered is dead.
    pub max_attempts: i32,
    /// Maximum number of bytes of their payloads, as text.
    pub payload_bytes: usize,
    /// Beginnings of the subjects to claim; `None`: all subjects. A row of another subject is not overtaken by later rows
    /// of its execution.
    pub subjects: Option<&'a [String]>,
    /// Name of the claimant.
    pub claimant: Option<&'a str>,
}

/// Candidates of a claim, whose locks it holds: executions, and rows without an execution.
struct LockedCandidates {
    executions: Vec<i64>,
    loose: Vec<i64>,
}

impl LockedCandidates {
    /// Returns the candidates of rows, which are given by their ids and executions.
    fn of(rows: impl Iterator<Item = (i64, Option<i64>)>) -> Self {
        let mut held = Self { executions: Vec::new(), loose: Vec::new() };
        for (outbox_id, execution_id) in rows {
            match execution_id {
                Some(execution) => held.executions.push(execution),
                None => held.loose.push(outbox_id),
            }
        }
        held.executions.sort_unstable();
        held.executions.dedup();
        held
    }
}

/// Claims rows in the scope, searching from the low watermarks, and returns them in outbox order.
///
/// If the payloads have more bytes than the claim allows, the claim is rolled back and repeated for the rows that fit.
#[tracing::instrument(level = "debug", name = "sql.outbox.claim", skip_all, fields(database = %shard.name()))]
pub async fn claim(
    shard: View<'_>,
    scope: &Scope,
    claim: &Claim<'_>,
    from: &LowWatermarks,
) -> Result<Vec<Claimed>, StorageError> {
    let work = async {
        let mut claim = *claim;
        while claim.limit > 0 {
            let mut tx = shard.planned_for(usize::try_from(claim.limit).unwrap_or_default()).begin().await?;
            let held = hold(&mut tx, &shard, scope, &claim, from).await?;
            if held.executions.is_empty() && held.loose.is_empty() {
                break;
            }
            match take(&mut tx, scope, &claim, &held).await? {
                Taken::All(rows) => {
                    tx.commit().await?;
                    return Ok(rows);
                }
                Taken::TooMany { fitting } => {
                    tx.rollback().await?;
                    claim.limit = fitting;
                }
            }
        }
        Ok(Vec::new())
    };
    // The claim has its own limit of bytes.
    shard.run(Box::pin(uncharged(work))).await
}

/// Result of marking rows as in flight.
enum Taken {
    All(Vec<Claimed>),
    /// Their payloads have more bytes than the claim allows: those of so many rows fit.
    TooMany {
        fitting: i64,
    },
}

/// Finds claimable rows of the shard's executions that are not in flight, and takes the locks of these executions until they have
/// enough rows.
///
/// Rows are checked one by one. `CASE` takes a lock only after the checks before it; a scalar subquery, unlike
/// `NOT EXISTS`, is never planned as a join over a whole index. Of an execution's PENDING rows only the first is a
/// candidate; it represents the later ones.
async fn hold(
    tx: &mut Transaction,
    shard: &View<'_>,
    scope: &Scope,
    claim: &Claim<'_>,
    from: &LowWatermarks,
) -> sqlx::Result<LockedCandidates> {
    let found = sqlx::query!(
        r#"SELECT candidate.outbox_id AS "outbox_id!", candidate.execution_id
           FROM (SELECT * FROM (
               -- First the rows to repeat, up to their number, then the PENDING rows, then the other rows to repeat.
               (SELECT outbox_id, execution_id, false AS fresh FROM noetl.outbox
                WHERE status = 'IN_FLIGHT' AND attempts >= 0 AND lease_until >= $3 AND lease_until <= now()
                  AND ($7::text IS NULL OR noetl.outbox_owner(tenant_id, payload, 'tenant_id') = $7) AND ($8::text[] IS NULL OR noetl.outbox_selected($8, subject, tenant_id, organization_id, payload, execution_id))
                  AND CASE WHEN $9::bytea IS NULL OR execution_id IS NULL THEN true ELSE get_bit($9, noetl.bucket_of(execution_id)) = 1 END
                ORDER BY lease_until LIMIT $5)
               UNION ALL
               (SELECT outbox_id, execution_id, false FROM noetl.outbox
                WHERE status = 'FAILED' AND attempts >= 0 AND available_at >= $2 AND available_at <= now()
                  AND ($7::text IS NULL OR noetl.outbox_owner(tenant_id, payload, 'tenant_id') = $7) AND ($8::text[] IS NULL OR noetl.outbox_selected($8, subject, tenant_id, organization_id, payload, execution_id))
                  AND CASE WHEN $9::bytea IS NULL OR execution_id IS NULL THEN true ELSE get_bit($9, noetl.bucket_of(execution_id)) = 1 END
                ORDER BY available_at LIMIT $5)
               UNION ALL
               -- Claimed by NoETL's own server, which sets no lease.
               (SELECT outbox_id, execution_id, false FROM noetl.outbox
                WHERE status = 'IN_FLIGHT' AND attempts >= 0 AND lease_until IS NULL AND locked_at <= now() - make_interval(secs => $6)
                  AND ($7::text IS NULL OR noetl.outbox_owner(tenant_id, payload, 'tenant_id') = $7) AND ($8::text[] IS NULL OR noetl.outbox_selected($8, subject, tenant_id, organization_id, payload, execution_id))
                  AND CASE WHEN $9::bytea IS NULL OR execution_id IS NULL THEN true ELSE get_bit($9, noetl.bucket_of(execution_id)) = 1 END
                LIMIT $5)
               UNION ALL
               (SELECT outbox_id, execution_id, true FROM noetl.outbox
                WHERE status = 'PENDING' AND attempts >= 0 AND outbox_id >= $1 AND available_at <= now()
                  AND ($7::text IS NULL OR noetl.outbox_owner(tenant_id, payload, 'tenant_id') = $7) AND ($8::text[] IS NULL OR noetl.outbox_selected($8, subject, tenant_id, organization_id, payload, execution_id))
                  AND CASE WHEN $9::bytea IS NULL OR execution_id IS NULL THEN true ELSE get_bit($9, noetl.bucket_of(execution_id)) = 1 END
                ORDER BY outbox_id)
               UNION ALL
               (SELECT outbox_id, execution_id, false FROM noetl.outbox
                WHERE status = 'IN_FLIGHT' AND attempts >= 0 AND lease_until >= $3 AND lease_until <= now()
                  AND ($7::text IS NULL OR noetl.outbox_owner(tenant_id, payload, 'tenant_id') = $7) AND ($8::text[] IS NULL OR noetl.outbox_selected($8, subject, tenant_id, organization_id, payload, execution_id))
                  AND CASE WHEN $9::bytea IS NULL OR execution_id IS NULL THEN true ELSE get_bit($9, noetl.bucket_of(execution_id)) = 1 END
                ORDER BY lease_until OFFSET $5)
               UNION ALL
               (SELECT outbox_id, execution_id, false FROM noetl.outbox
                WHERE status = 'FAILED' AND attempts >= 0 AND available_at >= $2 AND available_at <= now()
                  AND ($7::text IS NULL OR noetl.outbox_owner(tenant_id, payload, 'tenant_id') = $7) AND ($8::text[] IS NULL OR noetl.outbox_selected($8, subject, tenant_id, organization_id, payload, execution_id))
                  AND CASE WHEN $9::bytea IS NULL OR execution_id IS NULL THEN true ELSE get_bit($9, noetl.bucket_of(execution_id)) = 1 END
                ORDER BY available_at OFFSET $5)
           ) AS candidate
           WHERE CASE
               WHEN candidate.execution_id IS NULL THEN true
               WHEN candidate.fresh AND (SELECT true FROM noetl.outbox AS ahead
                     WHERE ahead.execution_id = candidate.execution_id AND ahead.status = 'PENDING'
                       AND ahead.outbox_id >= $1 AND ahead.outbox_id < candidate.outbox_id LIMIT 1) THEN false
               WHEN (SELECT true FROM noetl.outbox AS held
                     WHERE held.execution_id = candidate.execution_id AND held.status = 'IN_FLIGHT'
                       AND held.lease_until > now() LIMIT 1) THEN false
               WHEN (SELECT true FROM noetl.outbox AS held
                     WHERE held.execution_id = candidate.execution_id AND held.status = 'IN_FLIGHT'
                       AND held.lease_until IS NULL AND held.locked_at > now() - make_interval(secs => $6)
                     LIMIT 1) THEN false
               WHEN (SELECT true FROM noetl.outbox AS waiting
                     WHERE waiting.execution_id = candidate.execution_id AND waiting.status = 'FAILED'
                       AND waiting.outbox_id < candidate.outbox_id AND waiting.available_at > now()
                       AND waiting.available_at < 'infinity'
                     LIMIT 1) THEN false
               WHEN $8::text[] IS NOT NULL AND (SELECT true FROM noetl.outbox AS outside
                     WHERE outside.execution_id = candidate.execution_id AND outside.status = 'PENDING' AND outside.outbox_id < candidate.outbox_id
                       AND NOT noetl.outbox_selected($8, outside.subject, outside.tenant_id, outside.organization_id,
                                                     outside.payload, outside.execution_id)
                     LIMIT 1) THEN false
               WHEN $8::text[] IS NOT NULL AND (SELECT true FROM noetl.outbox AS outside
                     WHERE outside.execution_id = candidate.execution_id AND outside.status = 'FAILED' AND outside.available_at < 'infinity' AND outside.outbox_id < candidate.outbox_id
                       AND NOT noetl.outbox_selected($8, outside.subject, outside.tenant_id, outside.organization_id,
                                                     outside.payload, outside.execution_id)
                     LIMIT 1) THEN false
               WHEN $8::text[] IS NOT NULL AND (SELECT true FROM noetl.outbox AS outside
                     WHERE outside.execution_id = candidate.execution_id AND outside.status = 'IN_FLIGHT' AND outside.outbox_id < candidate.outbox_id
                       AND NOT noetl.outbox_selected($8, outside.subject, outside.tenant_id, outside.organization_id,
                                                     outside.payload, outside.execution_id)
                     LIMIT 1) THEN false
               ELSE pg_try_advisory_xact_lock(hashtext('noetl.outbox'), hashint8(candidate.execution_id) & 2047)
           END) AS candidate
           -- As many rows as the execution can give, so that the limit ends the search, and with it the locks.
           CROSS JOIN LATERAL (
               SELECT 1
               UNION ALL
               (SELECT 1 FROM noetl.outbox
                WHERE execution_id = candidate.execution_id AND status = 'PENDING' AND outbox_id > candidate.outbox_id AND ($8::text[] IS NULL OR noetl.outbox_selected($8, subject, tenant_id, organization_id, payload, execution_id))
                LIMIT $4)
           ) AS behind
           LIMIT $4"#,
        from.pending,
        from.failed,
        from.lease,
        claim.limit,
        claim.retried,
        f64::from(DEFAULT_LEASE_SECONDS),
        scope.tenant(),
        claim.subjects,
        shard.held(),
    );
    let rows = found.fetch_all(&mut **tx).await?;
    Ok(LockedCandidates::of(rows.into_iter().map(|row| (row.outbox_id, row.execution_id))))
}

/// Marks the prefixes of the locked executions, and the rows without an execution, as in flight.
///
/// The low watermarks limit only the search for candidates. Of a locked execution all open rows are read, so a row that
/// committed below a mark is claimed before those above it. A row outside the scope or of
/// another subject ends the prefix of its execution.
async fn take(tx: &mut Transaction, scope: &Scope, claim: &Claim<'_>, held: &LockedCandidates) -> sqlx::Result<Taken> {
    let claimed = sqlx::query_as!(
        Claimed,
        r#"WITH free AS MATERIALIZED (
               -- Checked again: this snapshot sees what the earlier holders of the locks have committed.
               SELECT execution_id FROM unnest($1::bigint[]) AS free (execution_id)
               WHERE (SELECT true FROM noetl.outbox AS held
                      WHERE held.execution_id = free.execution_id AND held.status = 'IN_FLIGHT'
                        AND held.lease_until > now() LIMIT 1) IS NULL
                 AND (SELECT true FROM noetl.outbox AS held
                      WHERE held.execution_id = free.execution_id AND held.status = 'IN_FLIGHT'
                        AND held.lease_until IS NULL AND held.locked_at > now() - make_interval(secs => $5)
                      LIMIT 1) IS NULL
           ), open AS (
               SELECT free.execution_id, row.outbox_id, row.due
               FROM free CROSS JOIN LATERAL (
                   (SELECT outbox_id, available_at <= now() AND ($7::text IS NULL OR noetl.outbox_owner(tenant_id, payload, 'tenant_id') = $7) AND ($9::text[] IS NULL OR noetl.outbox_selected($9, subject, tenant_id, organization_id, payload, execution_id)) AS due
                    FROM noetl.outbox
                    WHERE execution_id = free.execution_id AND status = 'PENDING'
                    ORDER BY outbox_id LIMIT $3)
                   UNION ALL
                   (SELECT outbox_id, available_at <= now() AND ($7::text IS NULL OR noetl.outbox_owner(tenant_id, payload, 'tenant_id') = $7) AND ($9::text[] IS NULL OR noetl.outbox_selected($9, subject, tenant_id, organization_id, payload, execution_id))
                    FROM noetl.outbox
                    WHERE execution_id = free.execution_id AND status = 'FAILED' AND available_at < 'infinity'
                    ORDER BY outbox_id LIMIT $3)
                   UNION ALL
                   (SELECT outbox_id, ($7::text IS NULL OR noetl.outbox_owner(tenant_id, payload, 'tenant_id') = $7) AND ($9::text[] IS NULL OR noetl.outbox_selected($9, subject, tenant_id, organization_id, payload, execution_id)) FROM noetl.outbox
                    WHERE execution_id = free.execution_id AND status = 'IN_FLIGHT' AND lease_until <= now())
                   UNION ALL
                   (SELECT outbox_id, ($7::text IS NULL OR noetl.outbox_owner(tenant_id, payload, 'tenant_id') = $7) AND ($9::text[] IS NULL OR noetl.outbox_selected($9, subject, tenant_id, organization_id, payload, execution_id)) FROM noetl.outbox
                    WHERE execution_id = free.execution_id AND status = 'IN_FLIGHT' AND lease_until IS NULL)
               ) AS row
           ), prefix AS MATERIALIZED (
               -- Up to the first row that is not due.
               SELECT execution_id, outbox_id
               FROM (SELECT *, bool_and(due) OVER (PARTITION BY execution_id ORDER BY outbox_id) AS ready,
                            min(outbox_id) OVER (PARTITION BY execution_id) AS head
                     FROM open) AS row
               WHERE ready
               ORDER BY head, outbox_id LIMIT $3 - cardinality($2::bigint[])
           ), candidate AS (
               SELECT execution_id, outbox_id FROM prefix
               UNION ALL SELECT NULL, outbox_id FROM unnest($2::bigint[]) AS loose (outbox_id)
           ), locked AS MATERIALIZED (
               SELECT candidate.execution_id, candidate.outbox_id, row.outbox_id IS NOT NULL AS held, row.retaken, row.exhausted
               FROM candidate LEFT JOIN LATERAL (
                   SELECT outbox_id, status = 'IN_FLIGHT' AS retaken,
                          coalesce(status = 'IN_FLIGHT' AND lease_until IS NOT NULL AND attempts >= max_attempts, false) AS exhausted
                   FROM noetl.outbox
                   WHERE outbox_id = candidate.outbox_id
                     AND (status IN ('PENDING', 'FAILED') AND available_at <= now()
                          OR status = 'IN_FLIGHT' AND CASE WHEN lease_until IS NULL
                              THEN locked_at <= now() - make_interval(secs => $5) ELSE lease_until <= now() END)
                   FOR UPDATE SKIP LOCKED
               ) AS row ON true
           ), mine AS MATERIALIZED (
               -- Up to the first row that another transaction has locked or changed.
               SELECT outbox_id, retaken, exhausted
               FROM (SELECT *, bool_and(held) OVER (
                         PARTITION BY execution_id, CASE WHEN execution_id IS NULL THEN outbox_id END
                         ORDER BY outbox_id) AS whole
                     FROM locked) AS row
               WHERE whole
           ), token AS MATERIALIZED (
               SELECT hashtextextended(gen_random_uuid()::text, 0) & 9223372036854775807 AS token,
                      noetl.database_history() AS history
           ), claimed AS (
               UPDATE noetl.outbox
               SET status = 'IN_FLIGHT', locked_at = now(), updated_at = now(),
                   -- An exhausted row is claimed to be marked as dead, which is no attempt.
                   attempts = attempts + (outbox_id <> ALL (ARRAY(SELECT outbox_id FROM mine WHERE exhausted)))::int,
                   max_attempts = $6, claimant = $8,
                   lease_until = now() + make_interval(secs => $4), lease_token = (SELECT token FROM token),
                   -- A repetition has the id of the first delivery, except in a restored database.
                   message_id = CASE message_history WHEN (SELECT history FROM token) THEN message_id
                                ELSE gen_random_uuid() END,
                   message_history = (SELECT history FROM token)
               WHERE outbox_id = ANY (ARRAY(SELECT outbox_id FROM mine))
               RETURNING *
           )
           SELECT claimed.outbox_id, claimed.lease_token AS "lease_token!", claimed.lease_until AS "lease_until!",
                  claimed.execution_id, claimed.event_id, claimed.message_id AS "message_id!", claimed.subject,
                  coalesce(claimed.payload, 'null')::text AS "payload!: Received", claimed.payload_codec,
                  claimed.payload_bytes AS bytes, claimed.attempts, mine.retaken AS "retaken!", mine.exhausted AS "exhausted!",
                  noetl.outbox_owner(claimed.tenant_id, claimed.payload, 'tenant_id') AS "tenant_id!",
                  noetl.outbox_owner(claimed.organization_id, claimed.payload, 'organization_id') AS "organization_id!"
           FROM claimed JOIN mine USING (outbox_id)
           ORDER BY claimed.outbox_id"#,
        &held.executions,
        &held.loose,
        claim.limit,
        f64::from(claim.lease_seconds),
        f64::from(DEFAULT_LEASE_SECONDS),
        claim.max_attempts,
        scope.tenant(),
        claim.claimant,
        claim.subjects,
    );
    fitting(claimed.fetch(&mut **tx), claim.payload_bytes).await
}

/// Reads claimed rows until their payloads have more bytes than allowed.
async fn fitting(
    mut claimed: impl Stream<Item = sqlx::Result<Claimed>> + Unpin,
    payload_bytes: usize,
) -> sqlx::Result<Taken> {
    let (mut rows, mut bytes, mut fitting) = (Vec::new(), 0, 0);
    while let Some(row) = claimed.try_next().await? {
        bytes += row.size();
        if bytes > payload_bytes {
            return Ok(Taken::TooMany { fitting });
        }
        rows.push(row);
        fitting += 1;
    }
    Ok(Taken::All(rows))
}
