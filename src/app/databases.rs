//! Opens and migrates the databases of a deployment, and checks that each is the one that it is configured as.

use std::collections::BTreeSet;
use std::sync::Arc;

use sqlx::postgres::PgConnectOptions;
use uuid::Uuid;

use super::error::AppError;
use crate::config::Config;
use crate::tasks::partitions;
use noetl_domain::shard::{ShardIndex, ShardMap};
use noetl_runtime::clock;
use noetl_storage::error::DatabaseName;
use noetl_storage::login::Login;
use noetl_storage::migrate::{self, Step};
use noetl_storage::pooler;
use noetl_storage::pools::{Database, Databases};
use noetl_storage::rights::{self, MissingRights};
use noetl_storage::shard_map::{self, Identity};
use noetl_storage::suitability;

/// Creates the pools of the configured databases without connecting. Without `pool_size`, the settings say how many
/// connections a pool has. The cluster database may also be the first shard; the two then share a pool.
pub(super) fn open(config: &Config, pool_size: Option<u32>) -> Result<(Arc<Database>, Vec<Arc<Database>>), AppError> {
    let settings = config.databases.as_ref().ok_or(AppError::NoDatabases)?;
    let pool_size = pool_size.unwrap_or(settings.pool_size);
    let database = |name, servers: &[PgConnectOptions]| {
        let login = Login::new(servers.to_vec(), settings.password_file.clone());
        Arc::new(Database::with_login(name, &login, pool_size).with_status_from(settings.status_source))
    };
    let cluster = database(DatabaseName::Cluster, &settings.cluster);
    let shard = |(servers, index): (&Vec<PgConnectOptions>, ShardIndex)| {
        if index == 0 && are_same_addresses(servers, &settings.cluster) {
            return Arc::clone(&cluster);
        }
        database(DatabaseName::Shard(index), servers)
    };
    let shards: Vec<_> = settings.shards.iter().zip(0..).map(shard).collect();
    let shards = if shards.is_empty() { vec![Arc::clone(&cluster)] } else { shards };
    Ok((cluster, shards))
}

/// Returns whether two DSNs name the same database on the same servers, in any order.
fn are_same_addresses(one: &[PgConnectOptions], other: &[PgConnectOptions]) -> bool {
    let address = |of: &PgConnectOptions| {
        (of.get_socket().cloned(), of.get_host().to_owned(), of.get_port(), of.get_database().map(str::to_owned))
    };
    let addresses = |of: &[PgConnectOptions]| of.iter().map(address).collect::<BTreeSet<_>>();
    addresses(one) == addresses(other)
}

/// Returns what [`migrate`] would change in the tables of each configured database. Changes nothing.
pub async fn migration_plan(config: &Config) -> Result<Vec<(DatabaseName, Vec<Step>)>, AppError> {
    let (cluster, shards) = open(config, Some(2))?;
    let mut plan = Vec::new();
    for database in distinct(&cluster, &shards) {
        plan.push((database.name(), migrate::plan(database).await?));
    }
    Ok(plan)
}

/// Returns each database once.
fn distinct<'a>(cluster: &'a Arc<Database>, shards: &'a [Arc<Database>]) -> impl Iterator<Item = &'a Arc<Database>> {
    std::iter::once(cluster).chain(shards.iter().filter(move |shard| !Arc::ptr_eq(shard, cluster)))
}

/// Migrates every configured database to the schema that this version needs, and fills the bucket map. Then grants the role
/// `grant_to` the rights that servers need; it must exist.
#[expect(clippy::disallowed_methods, reason = "a deployment gets its identity here")]
pub async fn migrate(config: &Config, grant_to: Option<&str>) -> Result<(), AppError> {
    let (cluster, shards) = open(config, Some(4))?;
    // A database that can't be used is refused before another one is changed.
    for database in distinct(&cluster, &shards) {
        check_sessions(database).await?;
        if let Some(role) = grant_to
            && !rights::role_exists(database, role).await?
        {
            return Err(AppError::UnknownRole { database: database.name(), role: role.to_owned() });
        }
    }
    migrate::apply(&cluster).await?;
    for shard in shards.iter().filter(|shard| !Arc::ptr_eq(shard, &cluster)) {
        migrate_shard(shard).await?;
    }
    let count = u16::try_from(shards.len()).unwrap_or(u16::MAX);
    shard_map::store_first(&cluster, &ShardMap::even(count)).await?;
    identify(&cluster, &shards, Uuid::new_v4()).await?;
    for shard in &shards {
        partitions::ensure(shard).await?;
        let adopted = migrate::adopt_subscriptions(&cluster, shard).await?;
        tracing::info!(database = %shard.name(), adopted, "migrated");
    }
    if let Some(role) = grant_to {
        for database in distinct(&cluster, &shards) {
            require(database, &rights::grant(database, role).await?)?;
            tracing::info!(database = %database.name(), role, "the role has the rights of servers");
        }
    }
    Ok(())
}

/// Checks that each connection to a database has a session of its own, with which the server can work.
pub(super) async fn check_sessions(database: &Database) -> Result<(), AppError> {
    if pooler::shares_sessions(database).await? {
        return Err(AppError::SharedSessions(database.name()));
    }
    match suitability::find(database).await? {
        Some(reason) => Err(AppError::Unsuitable { database: database.name(), reason }),
        None => Ok(()),
    }
}

/// Fails if there are missing rights.
fn require(database: &Database, missing: &[MissingRights]) -> Result<(), AppError> {
    let Some(first) = missing.first() else { return Ok(()) };
    let rights = missing.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
    Err(AppError::MissingRights { database: database.name(), role: first.role.clone(), rights })
}

/// Fails unless each connection has a usable session of its own, the role has its rights, and the database is migrated. The
/// rights are checked before the migrations, because a role without them can't read which are applied.
async fn check_usable(database: &Database) -> Result<(), AppError> {
    check_sessions(database).await?;
    require(database, &rights::missing(database).await?)?;
    if migrate::is_current(database).await? { Ok(()) } else { Err(AppError::NotMigrated(database.name())) }
}

/// Migrates a shard that is not the cluster database, and checks that it can store executions.
pub(super) async fn migrate_shard(shard: &Database) -> Result<(), AppError> {
    migrate::apply(shard).await?;
    let tables = migrate::references_to_catalog(shard).await?;
    if tables.is_empty() {
        Ok(())
    } else {
        Err(AppError::ReferencesCatalog { database: shard.name(), tables: tables.join(" and ") })
    }
}

/// Checks that each database has the identity that it is configured as. A new database is given that identity; `fresh`
/// is the id of a new deployment.
async fn identify(cluster: &Arc<Database>, shards: &[Arc<Database>], fresh: Uuid) -> Result<(), AppError> {
    let alone = shards.iter().any(|shard| Arc::ptr_eq(shard, cluster));
    let wanted = Identity { cluster_id: fresh, shard: alone.then_some(0) };
    let found = shard_map::identify(cluster, wanted).await?;
    let expected = Identity { cluster_id: found.cluster_id, ..wanted };
    check_identity(cluster, expected, found)?;
    for (shard, index) in shards.iter().zip(0..).filter(|(shard, _)| !Arc::ptr_eq(shard, cluster)) {
        let expected = Identity { cluster_id: found.cluster_id, shard: Some(index) };
        match shard_map::identify(shard, expected).await {
            Ok(found) => check_identity(shard, expected, found)?,
            // The server starts without a shard that is down. The prober finds it later.
            Err(error) if error.is_temporary() => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

pub(super) fn check_identity(database: &Database, expected: Identity, found: Identity) -> Result<(), AppError> {
    if expected == found {
        return Ok(());
    }
    let role = found.shard.map_or("a cluster database".to_owned(), |shard| format!("shard {shard}"));
    let found = if expected.cluster_id == found.cluster_id { role } else { format!("{role} of another deployment") };
    Err(AppError::WrongDatabase { database: database.name(), found })
}

/// Returns the databases of a migrated deployment. Fails if the cluster database is down; shards may be down.
pub(super) async fn connect(config: &Config, pool_size: Option<u32>) -> Result<Databases, AppError> {
    let (cluster, shards) = open(config, pool_size)?;
    check_usable(&cluster).await?;
    for shard in distinct(&cluster, &shards).skip(1) {
        match check_usable(shard).await {
            Err(AppError::Storage(error)) => {
                tracing::warn!(database = %shard.name(), %error, "starting without this database");
            }
            outcome => outcome?,
        }
    }
    let configured = u16::try_from(shards.len()).unwrap_or(u16::MAX);
    let asked_at = clock::now();
    let map = shard_map::load(&cluster, configured).await??;
    identify(&cluster, &shards, Uuid::nil()).await?;
    Ok(Databases::new(cluster, shards, map, asked_at))
}
