//! Bringing databases to the shape that this server needs: additive over what is there, repeatable, safe to run from
//! several replicas at once.

use std::sync::LazyLock;
use std::time::Duration;

use sqlx::PgConnection;
use sqlx::migrate::{MigrateError, Migrator};
use tokio::time::sleep;

use super::error::StorageError;
use super::pools::Database;
use super::{indexes, registry};

/// What is applied is noted in our own schema: which schema comes first without a name depends on the user's name, and
/// on whether that schema exists yet.
static MIGRATIONS: LazyLock<Migrator> = LazyLock::new(|| {
    let mut migrator = sqlx::migrate!("./migrations");
    migrator.dangerous_set_table_name("noetl._sqlx_migrations");
    migrator.create_schema("noetl");
    migrator
});
/// How long a process waits that found another one migrating.
const ASK_AGAIN: Duration = Duration::from_millis(100);

/// Why a database could not be migrated.
#[derive(Debug, thiserror::Error)]
pub enum MigrationError {
    /// A migration failed, or the applied ones are not the known ones.
    #[error("{database} could not be migrated")]
    Migration {
        /// Which one.
        database: super::error::DatabaseName,
        /// Which migration and why.
        #[source]
        source: MigrateError,
    },
    /// Around the migrations.
    #[error(transparent)]
    Storage(#[from] StorageError),
}

/// Applies the migrations to one database, then builds the indexes of its large tables.
pub async fn apply(database: &Database) -> Result<(), MigrationError> {
    let failed = |source| MigrationError::Migration { database: database.name(), source };
    let mut connection = database.connect().await.map_err(|error| database.failed(error))?;
    lock(&mut connection).await.map_err(|error| database.failed(error))?;
    MIGRATIONS.run(&mut connection).await.map_err(failed)?;
    indexes::build(database).await?;
    Ok(())
}

/// Waits until no other process migrates this database; the connection holds the lock until it is closed.
///
/// It asks again and again rather than wait in the database: a statement that waits there holds a snapshot, and the
/// holder's `CREATE INDEX CONCURRENTLY` waits for every snapshot, so the two would wait for each other.
async fn lock(connection: &mut PgConnection) -> sqlx::Result<()> {
    let ask = "SELECT pg_try_advisory_lock(hashtextextended('noetl.migrate', 0))";
    while !sqlx::query_scalar::<_, bool>(ask).fetch_one(&mut *connection).await? {
        sleep(ASK_AGAIN).await;
    }
    Ok(())
}

/// Whether every migration that this server knows is applied.
pub async fn is_current(database: &Database) -> Result<bool, StorageError> {
    let exists = sqlx::query_scalar!(r#"SELECT to_regclass('noetl._sqlx_migrations') IS NOT NULL AS "exists!""#);
    if !database.run(exists.fetch_one(database.pool())).await? {
        return Ok(false);
    }
    let applied = sqlx::query_scalar::<_, i64>("SELECT count(*) FROM noetl._sqlx_migrations WHERE success");
    let applied = database.run(applied.fetch_one(database.pool())).await?;
    Ok(usize::try_from(applied).is_ok_and(|applied| applied >= MIGRATIONS.iter().count()))
}

/// The tables that reference the catalog, as NoETL's own databases have them: a shard without the catalog takes no row.
pub async fn references_to_catalog(shard: &Database) -> Result<Vec<String>, StorageError> {
    let tables = sqlx::query_scalar!(
        r#"SELECT DISTINCT conrelid::regclass::text AS "table!" FROM pg_constraint
           WHERE contype = 'f' AND confrelid = 'noetl.catalog'::regclass AND conparentid = 0
             AND conrelid IN ('noetl.event'::regclass, 'noetl.execution'::regclass)"#,
    );
    shard.run(tables.fetch_all(shard.pool())).await
}

/// Enters a shard's live subscriptions that the registry does not know. Answers how many.
pub async fn adopt_subscriptions(cluster: &Database, shard: &Database) -> Result<u64, StorageError> {
    let live = sqlx::query!(
        r#"SELECT id AS "id!", path AS "path!" FROM noetl.source_subscription
           WHERE state <> 'DEACTIVATED' AND path IS NOT NULL"#,
    );
    let mut connection = shard.connect().await.map_err(|error| shard.failed(error))?;
    let live = live.fetch_all(&mut connection).await.map_err(|error| shard.failed(error))?;
    let live: Vec<(String, i64)> = live.into_iter().map(|row| (row.path, row.id)).collect();
    registry::adopt(cluster, &live).await
}
