//! Migration of databases to the schema that this server needs. Migrations only add to an existing schema, can be
//! repeated, and can be run by several replicas at once.
//!
//! A migration that needs a lock on a table waits for a short time only, because writers queue behind it. It is rolled
//! back and repeated until the lock is available.

use std::collections::HashMap;
use std::fmt;
use std::sync::LazyLock;
use std::time::Duration;

use sqlx::migrate::{MigrateError, Migration, Migrator};
use tokio::time::sleep;

use super::error::{DENIED, DatabaseName, StorageError, has_code};
use super::indexes::MissingIndex;
use super::lock_wait::{self, SHORT_WAIT};
use super::pools::Database;
use super::registry::ForeignSubscription;
use super::{indexes, registry};

/// The migrations. The table of applied ones names its schema, because the default schema depends on the user's name
/// and on the schemas that exist.
static MIGRATIONS: LazyLock<Migrator> = LazyLock::new(|| {
    let mut migrator = sqlx::migrate!("../../migrations");
    migrator.dangerous_set_table_name("noetl._sqlx_migrations");
    migrator.create_schema("noetl");
    // A later version's migrations only add, so they stay when a deployment returns to this version.
    migrator.set_ignore_missing(true);
    migrator
});
/// Pause after a migration that did not get a lock.
const LOCK_PAUSE: Duration = Duration::from_secs(1);
/// Attempts to apply the migrations while locks are not available: about 20 minutes.
const LOCK_ATTEMPTS: usize = 600;

/// A failed migration.
#[derive(Debug, thiserror::Error)]
pub enum MigrationError {
    /// A migration failed, or the applied ones are not the known ones.
    #[error("{database} could not be migrated")]
    Migration {
        /// The database.
        database: DatabaseName,
        /// The driver's error, which names the migration.
        #[source]
        source: MigrateError,
    },
    /// The role may not change the database or a table.
    #[error(
        "the role may not change {database}; run `noetl-graphql migrate` with the role that owns it and its tables"
    )]
    NotOwner {
        /// The database.
        database: DatabaseName,
        /// The driver's error, which names the object.
        #[source]
        source: MigrateError,
    },
    /// A database operation before or after the migrations failed.
    #[error(transparent)]
    Storage(#[from] StorageError),
}

/// Change that [`apply`] makes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// A migration is applied.
    Migration {
        /// Number in the name of its file.
        version: i64,
        /// Name, from the name of its file.
        description: String,
    },
    /// An index is built.
    Index(MissingIndex),
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Migration { version, description } => write!(f, "apply migration {version}: {description}"),
            Self::Index(MissingIndex { index, table }) => {
                write!(f, "build index {index} on {table}, while writers continue")
            }
        }
    }
}

/// Returns the changes that [`apply`] would make now, in their order. Partition indexes that a pending migration adds to
/// the event table are missing.
pub async fn plan(database: &Database) -> Result<Vec<Step>, StorageError> {
    let migrations = unapplied(database).await?.into_iter().map(|migration| Step::Migration {
        version: migration.version,
        description: migration.description.to_string(),
    });
    let indexes = indexes::pending(database).await?.into_iter().map(Step::Index);
    Ok(migrations.chain(indexes).collect())
}

/// Logs what it is about to change, applies the migrations to one database, then builds the indexes of its large tables.
pub async fn apply(database: &Database) -> Result<(), MigrationError> {
    let mut connection = database.connect().await.map_err(|error| database.failed(error))?;
    lock_wait::hold(&mut connection, "noetl.migrate").await.map_err(|error| database.failed(error))?;
    announce(database, &plan(database).await?);
    sqlx::raw_sql(SHORT_WAIT).execute(&mut connection).await.map_err(|error| database.failed(error))?;
    for attempt in 1.. {
        match MIGRATIONS.run(&mut connection).await {
            Err(error) if attempt < LOCK_ATTEMPTS && is_busy(&error) => {
                tracing::warn!(database = %database.name(), attempt, "a migration waits for a lock on a table in use");
                sleep(LOCK_PAUSE).await;
            }
            outcome => {
                outcome.map_err(|error| failed(database.name(), error))?;
                break;
            }
        }
    }
    indexes::build(database).await?;
    Ok(())
}

/// Logs the changes before they are made. Those of a new database are the whole schema, so only their number is logged.
fn announce(database: &Database, steps: &[Step]) {
    let database = database.name();
    if matches!(steps.first(), Some(Step::Migration { version: 1, .. })) {
        tracing::info!(%database, changes = steps.len(), "creating the tables");
        return;
    }
    for step in steps {
        tracing::info!(%database, %step, "migrating");
    }
}

/// Returns the error of a migration that failed.
fn failed(database: DatabaseName, source: MigrateError) -> MigrationError {
    if cause(&source).is_some_and(|error| has_code(error, &[DENIED])) {
        MigrationError::NotOwner { database, source }
    } else {
        MigrationError::Migration { database, source }
    }
}

/// Returns whether a migration did not get a lock in time. Its transaction was rolled back.
fn is_busy(error: &MigrateError) -> bool {
    cause(error).is_some_and(lock_wait::is_busy)
}

/// Returns the error of the statement that failed.
fn cause(error: &MigrateError) -> Option<&sqlx::Error> {
    match error {
        MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _) => Some(error),
        _ => None,
    }
}

/// Returns the migrations of this server that are not applied. One that was applied with another text counts as not
/// applied, and [`apply`] refuses the database.
async fn unapplied(database: &Database) -> Result<Vec<&'static Migration>, StorageError> {
    let exists = sqlx::query_scalar!(r#"SELECT to_regclass('noetl._sqlx_migrations') IS NOT NULL AS "exists!""#);
    if !database.run(exists.fetch_one(database.pool())).await? {
        return Ok(MIGRATIONS.iter().collect());
    }
    let applied = "SELECT version, checksum FROM noetl._sqlx_migrations WHERE success";
    let applied = sqlx::query_as::<_, (i64, Vec<u8>)>(applied).fetch_all(database.pool());
    let applied: HashMap<i64, Vec<u8>> = database.run(applied).await?.into_iter().collect();
    let is_applied = |one: &Migration| applied.get(&one.version).is_some_and(|checksum| **checksum == *one.checksum);
    Ok(MIGRATIONS.iter().filter(|one| !is_applied(one)).collect())
}

/// Returns whether every migration of this server is applied, and keys of events are unique: before the index on them is
/// built, an event could be stored twice.
pub async fn is_current(database: &Database) -> Result<bool, StorageError> {
    Ok(unapplied(database).await?.is_empty() && indexes::are_keys_unique(database).await?)
}

/// Returns the tables with a foreign key to the catalog, as databases of NoETL's own server have. A shard without
/// catalog entries refuses every row of such a table.
pub async fn references_to_catalog(shard: &Database) -> Result<Vec<String>, StorageError> {
    let tables = sqlx::query_scalar!(
        r#"SELECT DISTINCT conrelid::regclass::text AS "table!" FROM pg_constraint
           WHERE contype = 'f' AND confrelid = 'noetl.catalog'::regclass AND conparentid = 0
             AND conrelid IN ('noetl.event'::regclass, 'noetl.execution'::regclass)"#,
    );
    shard.run(tables.fetch_all(shard.pool())).await
}

/// Adds a shard's live subscriptions to the registry where their path has no row. Returns the number of rows added.
pub async fn adopt_subscriptions(cluster: &Database, shard: &Database) -> Result<u64, StorageError> {
    let live = sqlx::query_as!(
        ForeignSubscription,
        r#"SELECT id AS "id!", path AS "path!" FROM noetl.source_subscription
           WHERE state <> 'DEACTIVATED' AND path IS NOT NULL"#,
    );
    let mut connection = shard.connect().await.map_err(|error| shard.failed(error))?;
    let live = live.fetch_all(&mut connection).await.map_err(|error| shard.failed(error))?;
    registry::adopt(cluster, live).await
}
