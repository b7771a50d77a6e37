//! Partitions of the event table, created in advance: one per quarter.

use sqlx::AssertSqlSafe;

use super::error::StorageError;
use super::pools::Database;
use noetl_domain::quarter::Quarter;

/// Result of ensuring a quarter's partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EnsuredPartition {
    /// The partition was created.
    Made,
    /// An existing partition covers some of its range: the quarter's own, or one that NoETL's server created.
    Present,
    /// The default partition holds rows of its range, so it can't be created.
    Blocked,
}

/// Creates the partition of a quarter, unless an existing partition covers some of its range.
pub async fn ensure(database: &Database, quarter: Quarter) -> Result<EnsuredPartition, StorageError> {
    let (from, to) = (quarter.first_id(), quarter.next().first_id());
    let work = async {
        let mut tx = database.pool().begin().await?;
        sqlx::query!("SELECT pg_advisory_xact_lock(hashtextextended('noetl.partitions', 0))").execute(&mut *tx).await?;
        let range = sqlx::query!(
            r#"SELECT EXISTS (
                   SELECT 1 FROM pg_inherits AS part
                   JOIN pg_class ON pg_class.oid = part.inhrelid
                   CROSS JOIN LATERAL regexp_match(pg_get_expr(relpartbound, pg_class.oid),
                       'FROM \((MINVALUE|''?-?\d+''?)\) TO \((MAXVALUE|''?-?\d+''?)\)') AS bound
                   WHERE part.inhparent = 'noetl.event'::regclass AND bound IS NOT NULL
                     AND (bound[1] = 'MINVALUE' OR trim(bound[1], '''')::bigint < $2)
                     AND (bound[2] = 'MAXVALUE' OR trim(bound[2], '''')::bigint > $1)
               ) AS "taken!", EXISTS (
                   SELECT 1 FROM noetl.event_default WHERE execution_id >= $1 AND execution_id < $2
               ) AS "blocked!""#,
            from.get(),
            to.get(),
        )
        .fetch_one(&mut *tx)
        .await?;
        let ensured = match (range.taken, range.blocked) {
            (true, _) => EnsuredPartition::Present,
            (false, true) => EnsuredPartition::Blocked,
            (false, false) => EnsuredPartition::Made,
        };
        if ensured == EnsuredPartition::Made {
            let name = quarter.partition_name();
            let statement =
                format!("CREATE TABLE noetl.{name} PARTITION OF noetl.event FOR VALUES FROM ({from}) TO ({to})");
            sqlx::query(AssertSqlSafe(statement)).execute(&mut *tx).await?;
        }
        tx.commit().await?;
        Ok(ensured)
    };
    database.run(work).await
}
