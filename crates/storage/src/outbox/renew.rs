//! Renewal of leases.
//!
//! Only a lease that has not expired is renewed. After it has expired, another claim may hold other rows of the same
//! execution, so a renewal would give the execution two lease holders. A renewal holds the lock that claims of the
//! execution try to take (see `claim`), so no claim can take the execution's rows between the check and the commit.

use chrono::{DateTime, Utc};

use super::settle::Ref;
use crate::error::StorageError;
use crate::pools::Database;
use noetl_domain::tenant::Scope;

/// A row whose lease was renewed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Renewed {
    /// Id of the row in its shard.
    pub outbox_id: i64,
    /// Token of the claim.
    pub lease_token: i64,
    /// Time at which the lease expires.
    pub lease_until: DateTime<Utc>,
}

impl Renewed {
    /// Returns the reference to the row.
    #[must_use]
    pub const fn reference(&self) -> Ref {
        Ref { outbox_id: self.outbox_id, lease_token: self.lease_token }
    }
}

/// Extends the leases of the rows in the scope that are in flight under these tokens and have not expired, and returns
/// these rows. A lease is never shortened.
#[tracing::instrument(
    level = "debug", name = "sql.outbox.renew", skip_all,
    fields(database = %shard.name(), count = refs.len())
)]
pub async fn renew(
    shard: &Database,
    scope: &Scope,
    refs: &[Ref],
    lease_seconds: i32,
) -> Result<Vec<Renewed>, StorageError> {
    let (ids, tokens): (Vec<i64>, Vec<i64>) = refs.iter().map(|one| (one.outbox_id, one.lease_token)).unzip();
    let work = async {
        let mut tx = shard.pool().begin().await?;
        // In the order of the buckets, so that concurrent renewals don't deadlock. Claims never wait for these locks.
        sqlx::query!(
            "SELECT pg_advisory_xact_lock(hashtext('noetl.outbox'), bucket.number)
             FROM (SELECT DISTINCT hashint8(execution_id) & 2047 AS number FROM noetl.outbox
                   WHERE outbox_id = ANY($1) AND execution_id IS NOT NULL ORDER BY 1) AS bucket",
            &ids,
        )
        .execute(&mut *tx)
        .await?;
        // The transaction may have waited, so the time is that of the clock.
        let renewed = sqlx::query_as!(
            Renewed,
            r#"WITH held AS MATERIALIZED (
                   SELECT row.outbox_id
                   FROM (SELECT * FROM unnest($1::bigint[], $2::bigint[]) AS ref (outbox_id, token) ORDER BY outbox_id) AS ref
                   CROSS JOIN LATERAL (
                       SELECT outbox_id FROM noetl.outbox
                       WHERE outbox_id = ref.outbox_id AND lease_token = ref.token AND status = 'IN_FLIGHT'
                         AND lease_until > clock_timestamp()
                         AND ($4::text IS NULL OR noetl.outbox_owner(tenant_id, payload, 'tenant_id') = $4)
                       FOR UPDATE
                   ) AS row)
               UPDATE noetl.outbox
               SET lease_until = greatest(lease_until, clock_timestamp() + make_interval(secs => $3)), updated_at = now()
               WHERE outbox_id = ANY (ARRAY(SELECT outbox_id FROM held))
               RETURNING outbox_id, lease_token AS "lease_token!", lease_until AS "lease_until!""#,
            &ids,
            &tokens,
            f64::from(lease_seconds),
            scope.tenant(),
        );
        let renewed = renewed.fetch_all(&mut *tx).await?;
        tx.commit().await?;
        Ok(renewed)
    };
    shard.run(work).await
}
