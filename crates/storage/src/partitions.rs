//! Partitions of the event table: those that exist, with any names and bounds, and the creation of missing ones.
//!
//! A partition is attached under a lock on the parent that blocks no reader or writer, and an exclusive lock on the
//! default partition. Under this lock, PostgreSQL scans the default partition, unless a valid check shows that it has no
//! row of the range. So a large default partition first gets such a check: it is added without a scan, and validated
//! under a lock that blocks no reader or writer. Until the partition is attached, the check refuses events of the range.
//! A small default partition is scanned under the lock, so that no event is refused.

use std::ops::Range;

use sqlx::{AssertSqlSafe, Connection, PgConnection, PgExecutor};

use super::error::{DENIED, StorageError, has_code};
use super::lock_wait::{self, SHORT_WAIT};
use super::pools::Database;
use noetl_domain::partition::{Partition, gaps};
use noetl_domain::quarter::Quarter;

/// Size of the default partition, in bytes, up to which it may be scanned under an exclusive lock.
const SMALL: i64 = 8 << 20;
/// Attempts to get the locks for one partition.
const ATTEMPTS: u32 = 4;
/// Attempts to remove the check from the default partition. It must not stay, because it refuses events.
const REMOVAL_ATTEMPTS: u32 = 300;
/// Name of the check on the default partition.
const CHECK: &str = "noetl_partition_range";

/// A range of ids that had no partition, and the result of the attempt to create one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnsuredPartition {
    /// Name of the partition.
    pub partition: String,
    /// Its execution ids.
    pub range: Range<i64>,
    /// Result.
    pub outcome: Outcome,
}

/// Result of the attempt to create a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The partition was created.
    Made,
    /// The default partition holds rows of the range, so the partition can't be created.
    Blocked,
    /// A long transaction uses the event table, so the locks were not available.
    Busy,
    /// The role does not own the event table.
    Denied,
}

/// The default partition.
#[derive(Debug, Clone)]
struct DefaultPartition {
    name: String,
    bytes: i64,
}

/// Creates the partitions that a quarter lacks. Other partitions may cover the quarter or parts of it. Returns the ranges
/// that were not covered.
pub async fn ensure(database: &Database, quarter: Quarter) -> Result<Vec<EnsuredPartition>, StorageError> {
    let range = quarter.first_id().get()..quarter.next().first_id().get();
    let missing = gaps(&range, &database.run(bounded(database.pool())).await?);
    if missing.is_empty() {
        return Ok(Vec::new());
    }
    match create_missing(database, quarter, &range).await {
        Err(error) if has_code(&error, &[DENIED]) => {
            let partition = quarter.partition_name();
            let denied = |range| EnsuredPartition { partition: partition.clone(), range, outcome: Outcome::Denied };
            Ok(missing.into_iter().map(denied).collect())
        }
        outcome => outcome.map_err(|error| database.failed(error)),
    }
}

/// Creates the partitions on `target` that `source` has, as far as no partition covers their ranges. Rows of a range whose
/// partition is blocked stay in the default partition. `Ok(false)`: a long transaction uses the event table.
pub async fn copy_bounds(source: &Database, target: &Database) -> Result<bool, StorageError> {
    let wanted = source.run(bounded(source.pool())).await?;
    let work = async {
        let mut connection = connect_alone(target).await?;
        for Partition { name, from, to } in wanted {
            for gap in gaps(&(from..to), &bounded(&mut connection).await?) {
                let name = free_name(&mut connection, &unquoted(&name), &gap).await?;
                if create(&mut connection, &name, &gap).await? == Outcome::Busy {
                    return Ok(false);
                }
            }
        }
        connection.close().await?;
        Ok(true)
    };
    work.await.map_err(|error| target.failed(error))
}

/// Returns the table of quoted names of schema and table, as a name that needs no quotes.
fn unquoted(name: &str) -> String {
    let table = name.rsplit('.').next().unwrap_or(name);
    table.chars().filter(|one| one.is_ascii_lowercase() || one.is_ascii_digit() || *one == '_').collect()
}

/// Returns the name of the default partition if it holds a row with an id from 0 up to `to`.
pub(super) async fn default_with_rows_below(connection: &mut PgConnection, to: i64) -> sqlx::Result<Option<String>> {
    let Some(default) = default_partition(&mut *connection).await? else { return Ok(None) };
    Ok(holds(connection, &default, &(0..to)).await?.then_some(default.name))
}

/// Returns all partitions with bounds, in the order of their bounds. It takes no lock on a partition: with the table as
/// its argument, `pg_get_expr` would wait for one.
pub(super) async fn bounded(connection: impl PgExecutor<'_>) -> sqlx::Result<Vec<Partition>> {
    let rows = sqlx::query!(
        r#"SELECT format('%I.%I', nspname, relname) AS "name!", trim(bound[1], '''') AS "from!",
                  trim(bound[2], '''') AS "to!"
           FROM pg_inherits AS part
           JOIN pg_class ON pg_class.oid = part.inhrelid
           JOIN pg_namespace ON pg_namespace.oid = relnamespace
           CROSS JOIN LATERAL regexp_match(pg_get_expr(relpartbound, 0),
               'FROM \((MINVALUE|''?-?\d+''?)\) TO \((MAXVALUE|''?-?\d+''?)\)') AS bound
           WHERE part.inhparent = 'noetl.event'::regclass AND bound IS NOT NULL"#,
    );
    let rows = rows.fetch_all(connection).await?;
    let partition = |(name, from, to): (String, String, String)| Partition {
        name,
        from: from.parse().unwrap_or(i64::MIN),
        to: to.parse().unwrap_or(i64::MAX),
    };
    let mut partitions: Vec<_> = rows.into_iter().map(|row| partition((row.name, row.from, row.to))).collect();
    partitions.sort_unstable_by_key(|partition| partition.from);
    Ok(partitions)
}

/// Creates the partitions of the gaps. That of the whole quarter has the quarter's name, and the names of others also
/// contain their first id.
async fn create_missing(
    database: &Database,
    quarter: Quarter,
    range: &Range<i64>,
) -> sqlx::Result<Vec<EnsuredPartition>> {
    let mut connection = connect_alone(database).await?;
    let (name, mut ensured) = (quarter.partition_name(), Vec::new());
    for gap in gaps(range, &bounded(&mut connection).await?) {
        let partition =
            if gap == *range { free_name(&mut connection, &name, &gap).await? } else { with_first_id(&name, &gap) };
        let outcome = create(&mut connection, &partition, &gap).await?;
        ensured.push(EnsuredPartition { partition, range: gap, outcome });
    }
    connection.close().await?;
    Ok(ensured)
}

/// Opens a connection of its own, once no other process creates partitions.
async fn connect_alone(database: &Database) -> sqlx::Result<PgConnection> {
    let mut connection = database.connect().await?;
    lock_wait::hold(&mut connection, "noetl.partitions").await?;
    sqlx::raw_sql(SHORT_WAIT).execute(&mut connection).await?;
    Ok(connection)
}

/// Returns the name for a partition, with its first id if another table has the name.
async fn free_name(connection: &mut PgConnection, name: &str, gap: &Range<i64>) -> sqlx::Result<String> {
    let taken = sqlx::query_scalar!(r#"SELECT to_regclass('noetl.' || $1) IS NOT NULL AS "taken!""#, name);
    let taken = taken.fetch_one(connection).await?;
    Ok(if taken { with_first_id(name, gap) } else { name.to_owned() })
}

/// Returns a name with the first id of a partition, which may be negative.
fn with_first_id(name: &str, gap: &Range<i64>) -> String {
    format!("{name}_{}", gap.start).replace('-', "m")
}

async fn create(connection: &mut PgConnection, name: &str, range: &Range<i64>) -> sqlx::Result<Outcome> {
    let Some(default) = default_partition(connection).await? else {
        return attach(connection, name, range, None).await;
    };
    remove_check(connection, &default).await?;
    if holds(connection, &default, range).await? {
        return Ok(Outcome::Blocked);
    }
    if default.bytes <= SMALL {
        return attach(connection, name, range, None).await;
    }
    let outcome = match add_check(connection, &default, range).await {
        Ok(()) => attach(connection, name, range, Some(&default)).await,
        Err(error) => outcome_of(error),
    };
    if !matches!(outcome, Ok(Outcome::Made)) {
        remove_check(connection, &default).await?;
    }
    outcome
}

/// Returns the outcome that an error means, or the error.
fn outcome_of(error: sqlx::Error) -> sqlx::Result<Outcome> {
    // `check_violation`: a row of the range was written meanwhile.
    if has_code(&error, &["23514"]) {
        Ok(Outcome::Blocked)
    } else if lock_wait::is_busy(&error) {
        Ok(Outcome::Busy)
    } else {
        Err(error)
    }
}

async fn default_partition(connection: &mut PgConnection) -> sqlx::Result<Option<DefaultPartition>> {
    sqlx::query_as!(
        DefaultPartition,
        r#"SELECT format('%I.%I', nspname, relname) AS "name!",
                  (SELECT sum(pg_relation_size(relid)) FROM pg_partition_tree(pg_class.oid))::bigint AS "bytes!"
           FROM pg_partitioned_table
           JOIN pg_class ON pg_class.oid = partdefid
           JOIN pg_namespace ON pg_namespace.oid = relnamespace
           WHERE partrelid = 'noetl.event'::regclass"#,
    )
    .fetch_optional(connection)
    .await
}

/// Returns whether the default partition holds a row of a range: one lookup in the index of its key.
async fn holds(connection: &mut PgConnection, default: &DefaultPartition, range: &Range<i64>) -> sqlx::Result<bool> {
    let query =
        format!("SELECT EXISTS (SELECT 1 FROM {} WHERE execution_id >= $1 AND execution_id < $2)", default.name);
    sqlx::query_scalar(AssertSqlSafe(query)).bind(range.start).bind(range.end).fetch_one(connection).await
}

/// Adds the check that the default partition has no row of a range, and validates it.
async fn add_check(connection: &mut PgConnection, default: &DefaultPartition, range: &Range<i64>) -> sqlx::Result<()> {
    let (table, from, to) = (&default.name, range.start, range.end);
    let condition = format!("execution_id < {from} OR execution_id >= {to}");
    let add = format!("ALTER TABLE {table} ADD CONSTRAINT {CHECK} CHECK ({condition}) NOT VALID");
    lock_wait::run(connection, &add, ATTEMPTS).await?;
    lock_wait::run(connection, &format!("ALTER TABLE {table} VALIDATE CONSTRAINT {CHECK}"), ATTEMPTS).await
}

/// Removes the check, also one that a crashed process left.
async fn remove_check(connection: &mut PgConnection, default: &DefaultPartition) -> sqlx::Result<()> {
    let left = sqlx::query_scalar!(
        r#"SELECT EXISTS (SELECT 1 FROM pg_constraint WHERE conrelid = $1::text::regclass AND conname = $2) AS "left!""#,
        default.name,
        CHECK,
    );
    if !left.fetch_one(&mut *connection).await? {
        return Ok(());
    }
    lock_wait::run(connection, &removal(default), REMOVAL_ATTEMPTS).await
}

fn removal(default: &DefaultPartition) -> String {
    format!("ALTER TABLE {} DROP CONSTRAINT {CHECK}", default.name)
}

/// Creates the table and attaches it, in one transaction. Removes the check from `checked`.
async fn attach(
    connection: &mut PgConnection,
    name: &str,
    range: &Range<i64>,
    checked: Option<&DefaultPartition>,
) -> sqlx::Result<Outcome> {
    let (from, to) = (range.start, range.end);
    let mut statements = format!(
        "CREATE TABLE noetl.{name}
             (LIKE noetl.event INCLUDING ALL EXCLUDING INDEXES EXCLUDING IDENTITY EXCLUDING STATISTICS);
         ALTER TABLE noetl.event ATTACH PARTITION noetl.{name} FOR VALUES FROM ({from}) TO ({to});"
    );
    statements.extend(checked.map(removal));
    match lock_wait::run(connection, &statements, ATTEMPTS).await {
        Ok(()) => Ok(Outcome::Made),
        Err(error) => outcome_of(error),
    }
}
