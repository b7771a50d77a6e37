//! Wiring: databases, broker, services, schema, routes and tasks of one process.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::serve::ListenerExt;
use metrics_exporter_prometheus::PrometheusHandle;
use tokio::net::TcpListener;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower_http::catch_panic::CatchPanicLayer;
use uuid::Uuid;

use crate::config::{Config, DatabaseSettings};
use crate::domain::page::DEFAULT_PAGE;
use crate::domain::shard::{BadShardMap, ShardIndex, ShardMap};
use crate::graphql::schema::{self, EdgeLimits, Replica, Services};
use crate::http::health::{Probes, Readiness};
use crate::http::{Edge, Limits, Nullability, Sites, assets, health, router};
use crate::service::catalog::Catalog;
use crate::service::error::ServiceError;
use crate::service::executions::Executions;
use crate::service::ids::{Ids, LEASE};
use crate::service::ingest::Ingest;
use crate::service::projections::Projections;
use crate::service::retention::Retention;
use crate::service::subscriptions::Subscriptions;
use crate::service::wake::Wakes;
use crate::service::{clock, fault};
use crate::storage::error::{DatabaseName, StorageError};
use crate::storage::migrate::{self, MigrationError};
use crate::storage::pools::{Database, Databases};
use crate::storage::shard_map::{self, Identity};
use crate::stream::hub::Hub;
use crate::stream::tailer::Tailer;
use crate::stream::wake;
use crate::supervisor::{EndedEarly, Supervisor};
use crate::tasks::projector::Projector;
use crate::tasks::{dedup_purge, dedup_sweeper, machine_lease, maintain, partitions, prober, retention};

/// Why a process can't serve.
#[derive(Debug, thiserror::Error)]
pub enum AppError {
    /// No databases are configured.
    #[error("no databases are configured; set NOETL_CLUSTER_DSN")]
    NoDatabases,
    /// A database failed.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// A database could not be migrated.
    #[error(transparent)]
    Migration(#[from] MigrationError),
    /// The services could not be started.
    #[error("the services could not be started")]
    Service(#[from] ServiceError),
    /// A database lacks what this server needs.
    #[error("{0} is not migrated; run `noetl-graphql migrate` with the same settings")]
    NotMigrated(DatabaseName),
    /// A shard that once was a whole database of NoETL's.
    #[error(
        "{database} has no catalog of its own, but {tables} reference noetl.catalog by a foreign key, so nothing could be \
         written; drop those keys and migrate again"
    )]
    ReferencesCatalog {
        /// Which one.
        database: DatabaseName,
        /// Which tables.
        tables: String,
    },
    /// The map does not fit the shards.
    #[error("NOETL_SHARDS does not fit the stored bucket map: {0}")]
    ShardMap(#[from] BadShardMap),
    /// A database belongs elsewhere.
    #[error("{database} belongs to {found}; NOETL_CLUSTER_DSN and NOETL_SHARDS must name each database in its place")]
    WrongDatabase {
        /// Where it is configured.
        database: DatabaseName,
        /// What it says it is.
        found: String,
    },
    /// All machine ids, or the pinned one, are taken.
    #[error("no machine id is free{}", .0.map(|id| format!(": {id}, which NOETL_SERVER_MACHINE_ID names, is held by another replica")).unwrap_or_default())]
    NoMachineId(Option<u16>),
    /// The broker's address can't be used.
    #[error("the broker's address can't be used")]
    Broker(#[from] async_nats::ConnectError),
    /// The schema has no nullability table.
    #[error("the schema can't be read back: {0}")]
    Schema(String),
    /// The port can't be listened on.
    #[error("{address} can't be listened on: {source}")]
    Bind {
        /// Host and port.
        address: std::net::SocketAddr,
        /// Why.
        source: std::io::Error,
    },
    /// A task ended before it was asked to.
    #[error(transparent)]
    EndedEarly(#[from] EndedEarly),
}

/// Databases, not yet looked at.
fn open(settings: &DatabaseSettings, pool_size: u32) -> (Arc<Database>, Vec<Arc<Database>>) {
    let cluster = Arc::new(Database::new(DatabaseName::Cluster, settings.cluster.clone(), pool_size));
    let shard = |(options, index): (&_, ShardIndex)| {
        Arc::new(Database::new(DatabaseName::Shard(index), sqlx::postgres::PgConnectOptions::clone(options), pool_size))
    };
    let shards: Vec<_> = settings.shards.iter().zip(0..).map(shard).collect();
    let shards = if shards.is_empty() { vec![Arc::clone(&cluster)] } else { shards };
    (cluster, shards)
}

/// Brings every configured database to the shape that this server needs, and fills the bucket map.
#[expect(clippy::disallowed_methods, reason = "a deployment gets its identity here")]
pub async fn migrate(config: &Config) -> Result<(), AppError> {
    let settings = config.databases.as_ref().ok_or(AppError::NoDatabases)?;
    let (cluster, shards) = open(settings, 4);
    migrate::apply(&cluster).await?;
    for shard in shards.iter().filter(|shard| !Arc::ptr_eq(shard, &cluster)) {
        migrate::apply(shard).await?;
        let tables = migrate::references_to_catalog(shard).await?;
        if !tables.is_empty() {
            return Err(AppError::ReferencesCatalog { database: shard.name(), tables: tables.join(" and ") });
        }
    }
    let count = u16::try_from(shards.len()).unwrap_or(u16::MAX);
    if shard_map::load(&cluster).await?.is_empty() {
        shard_map::store_first(&cluster, &ShardMap::even(count)).await?;
    }
    identify(&cluster, &shards, Uuid::new_v4()).await?;
    for shard in &shards {
        partitions::ensure(shard).await?;
        let adopted = migrate::adopt_subscriptions(&cluster, shard).await?;
        tracing::info!(database = %shard.name(), adopted, "migrated");
    }
    Ok(())
}

/// Does every duty of housekeeping once, and tells of each as it is done.
#[expect(clippy::disallowed_methods, reason = "a process gets its identity here")]
pub async fn maintain(config: &Config, tell: impl FnMut(maintain::Done)) -> Result<(), AppError> {
    let settings = config.databases.as_ref().ok_or(AppError::NoDatabases)?;
    let databases = connect(settings, 4).await?;
    // Any machine id will do: the pinned one may be in use by the server that stands beside.
    let ids = Arc::new(lease(&databases, Uuid::new_v4(), None).await?);
    let wakes = Wakes::new(databases.shards().len());
    let catalog = Catalog::new(Arc::clone(databases.cluster()), Arc::clone(&ids));
    let subscriptions = Subscriptions::new(databases.clone(), Arc::clone(&ids), catalog.clone(), wakes.clone());
    let executions = Executions::new(databases, Arc::clone(&ids), catalog, wakes);
    maintain::once(&executions, &subscriptions, retention_of(config), tell).await;
    Ok(ids.release().await?)
}

fn retention_of(config: &Config) -> Retention {
    Retention { days: config.event_retention_days, publishes: config.event_stream.is_some() }
}

/// Checks that each database is the one that it is configured as; a fresh one becomes it.
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
            // A shard that is down now is none of its requests' business later.
            Err(StorageError::Unavailable { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn check_identity(database: &Database, expected: Identity, found: Identity) -> Result<(), AppError> {
    if expected == found {
        return Ok(());
    }
    let role = found.shard.map_or("a cluster database".to_owned(), |shard| format!("shard {shard}"));
    let found = if expected.cluster_id == found.cluster_id { role } else { format!("{role} of another deployment") };
    Err(AppError::WrongDatabase { database: database.name(), found })
}

/// The databases of a migrated deployment. A shard may be down; the cluster database may not.
async fn connect(settings: &DatabaseSettings, pool_size: u32) -> Result<Databases, AppError> {
    let (cluster, shards) = open(settings, pool_size);
    if !migrate::is_current(&cluster).await? {
        return Err(AppError::NotMigrated(DatabaseName::Cluster));
    }
    for shard in &shards {
        match migrate::is_current(shard).await {
            Ok(false) => return Err(AppError::NotMigrated(shard.name())),
            Ok(true) => {}
            Err(error) => tracing::warn!(database = %shard.name(), %error, "starting without it"),
        }
    }
    let configured = u16::try_from(shards.len()).unwrap_or(u16::MAX);
    let map = ShardMap::from_stored(shard_map::load(&cluster).await?, configured)?;
    identify(&cluster, &shards, Uuid::nil()).await?;
    Ok(Databases::new(cluster, shards, map))
}

/// A process that is ready to serve.
pub struct App {
    /// Every use case.
    pub services: Services,
    supervisor: Supervisor,
    router: Router,
    connections: TaskTracker,
}

impl App {
    /// Connects, takes a machine id and starts the tasks.
    #[expect(clippy::disallowed_methods, reason = "a process gets its identity here")]
    pub async fn start(config: &Config, metrics: PrometheusHandle) -> Result<Self, AppError> {
        if let Some(point) = config.fault_point.clone() {
            fault::arm(point);
        }
        let settings = config.databases.as_ref().ok_or(AppError::NoDatabases)?;
        let databases = connect(settings, config.pool_size).await?;
        let identity = Uuid::new_v4();
        let ids = Arc::new(lease(&databases, identity, config.machine_id).await?);
        let host = nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok()).unwrap_or_default();
        let limits = Limits { default_page: DEFAULT_PAGE.into(), ..Limits::default() };
        let replica = Replica {
            name: format!("{host}-{}-{}", std::process::id(), &identity.simple().to_string()[..8]),
            started_at: clock::now(),
            publishes: config.event_stream.is_some() && config.nats_url.is_some(),
            limits: edge_limits(&limits),
        };
        let client = match &config.nats_url {
            Some(url) => Some(broker(url, &replica.name).await?),
            None => None,
        };
        let wakes = Wakes::new(databases.shards().len());
        let services = services(databases, ids, &wakes, client.clone(), replica);
        let mut supervisor = Supervisor::default();
        start_housekeeping(&mut supervisor, &services, retention_of(config));
        if let Some(client) = client {
            start_feed(&mut supervisor, &services, client, wakes, config);
        }
        let connections = TaskTracker::new();
        let sites = Sites { origins: config.allowed_origins.clone(), hosts: config.allowed_hosts.clone() };
        let edge = (limits, sites, supervisor.soft(), connections.clone());
        let router = routes(&services, edge, metrics)?;
        Ok(Self { services, supervisor, router, connections })
    }

    /// Serves until a signal, or until `ended` says why the process can't go on.
    pub async fn serve(self, listener: TcpListener, ended: impl Future<Output = EndedEarly>) -> Result<(), AppError> {
        let Self { services, mut supervisor, router, connections } = self;
        let (soft, listener) = (supervisor.soft(), listener.tap_io(|stream| drop(stream.set_nodelay(true))));
        supervisor.start("http", async move {
            axum::serve(listener, router).with_graceful_shutdown(soft.cancelled_owned()).await?;
            connections.close();
            connections.wait().await;
            Ok::<(), std::io::Error>(())
        });
        let outcome = supervisor.run(ended).await;
        if let Err(error) = services.ids.release().await {
            tracing::warn!(%error, "the machine id is free when its lease runs out");
        }
        Ok(outcome?)
    }
}

/// Listens where the configuration says.
pub async fn bind(config: &Config) -> Result<TcpListener, AppError> {
    let address = std::net::SocketAddr::new(config.host, config.port);
    TcpListener::bind(address).await.map_err(|source| AppError::Bind { address, source })
}

/// Takes a machine id; waits for as long as a dead replica may hold one.
async fn lease(databases: &Databases, owner: Uuid, pinned: Option<u16>) -> Result<Ids, AppError> {
    let give_up = Instant::now() + LEASE + Duration::from_secs(2);
    loop {
        if let Some(ids) = Ids::lease(Arc::clone(databases.cluster()), owner, pinned).await? {
            return Ok(ids);
        }
        if Instant::now() > give_up {
            return Err(AppError::NoMachineId(pinned));
        }
        sleep(Duration::from_millis(500)).await;
    }
}

/// A connection that comes up when the broker does, and again whenever it is lost.
async fn broker(url: &str, name: &str) -> Result<async_nats::Client, AppError> {
    // A request on its way when the broker dies is never answered.
    let options = async_nats::ConnectOptions::new().name(name).request_timeout(Some(Duration::from_secs(2)));
    let options = options.retry_on_initial_connect();
    Ok(options.max_reconnects(None).connect(url).await?)
}

fn services(
    databases: Databases,
    ids: Arc<Ids>,
    wakes: &Wakes,
    client: Option<async_nats::Client>,
    replica: Replica,
) -> Services {
    let catalog = Catalog::new(Arc::clone(databases.cluster()), Arc::clone(&ids));
    let hub = client.map(|client| Hub::new(client, databases.clone()));
    Services {
        subscriptions: Subscriptions::new(databases.clone(), Arc::clone(&ids), catalog.clone(), wakes.clone()),
        projections: Projections::new(databases.clone()),
        ingest: Ingest::new(databases.clone(), wakes.clone()),
        executions: Executions::new(databases, Arc::clone(&ids), catalog.clone(), wakes.clone()),
        catalog,
        hub,
        ids,
        replica,
    }
}

fn start_housekeeping(supervisor: &mut Supervisor, services: &Services, retention: Retention) {
    let databases = services.executions.databases();
    for database in databases.distinct() {
        let task = prober::run(Arc::clone(database), supervisor.soft());
        supervisor.start("prober", quiet(task));
    }
    supervisor.start("machine lease", quiet(machine_lease::run(Arc::clone(&services.ids), supervisor.soft())));
    let (executions, subscriptions) = (services.executions.clone(), services.subscriptions.clone());
    supervisor.start("sweeper", quiet(dedup_sweeper::run(executions, subscriptions, supervisor.soft())));
    supervisor.start("partitions", quiet(partitions::run(databases.clone(), supervisor.soft())));
    supervisor.start("dedup purge", quiet(dedup_purge::run(databases.clone(), supervisor.soft())));
    if retention.days.is_some() && retention.publishes {
        supervisor.start("retention", quiet(retention::run(databases.clone(), retention, supervisor.soft())));
    }
}

fn start_feed(
    supervisor: &mut Supervisor,
    services: &Services,
    client: async_nats::Client,
    local: Wakes,
    config: &Config,
) {
    let databases = services.executions.databases();
    let remote = Wakes::new(databases.shards().len());
    if let Some(hub) = &services.hub {
        for shard in 0..hub.shards() {
            supervisor.start("live feed", quiet(hub.clone().run(shard, supervisor.soft())));
        }
    }
    if config.projector {
        for (shard, _) in (0..).zip(databases.shards()) {
            let projector = Projector { shard, client: client.clone(), projections: services.projections.clone() };
            supervisor.start("projector", quiet(projector.run(supervisor.soft())));
        }
    }
    let Some(settings) = config.event_stream else { return };
    for (database, shard) in databases.shards().iter().zip(0..) {
        let tailer = Tailer {
            shard,
            database: Arc::clone(database),
            client: client.clone(),
            owner: services.replica.name.clone(),
            settings,
            local: local.clone(),
            remote: remote.clone(),
        };
        supervisor.start("tailer", quiet(tailer.run(supervisor.soft())));
    }
    let (soft, listening) = (supervisor.soft(), wake::listen(client, remote));
    supervisor.start("wake hints", async move { soft.run_until_cancelled(listening).await.unwrap_or(Ok(())) });
}

/// A task that only ends when it is told to.
async fn quiet(task: impl Future<Output = ()>) -> Result<(), std::convert::Infallible> {
    task.await;
    Ok(())
}

fn routes(
    services: &Services,
    (limits, sites, closing, connections): (Limits, Sites, CancellationToken, TaskTracker),
    metrics: PrometheusHandle,
) -> Result<Router, AppError> {
    let schema = schema::build(services.clone());
    let types = Nullability::from_sdl(&schema::sdl()).map_err(|error| AppError::Schema(error.to_string()))?;
    let databases = services.executions.databases().clone();
    let draining = closing.clone();
    let readiness = move || {
        let is_down = |database: &&Arc<Database>| database.health().down.is_some();
        let down = databases.distinct().filter(is_down).map(|database| database.name().to_string()).collect();
        Readiness { ready: !draining.is_cancelled() && databases.cluster().health().down.is_none(), down }
    };
    let probes = Probes { readiness: Arc::new(readiness), metrics: Arc::new(move || metrics.render()) };
    let edge = Edge { types: Arc::new(types), limits, sites, closing, connections, ..Edge::new(schema) };
    let routes = router(edge).merge(health::routes(probes)).merge(assets::routes());
    Ok(routes.layer(CatchPanicLayer::new()))
}

fn edge_limits(limits: &Limits) -> EdgeLimits {
    EdgeLimits {
        body_bytes: limits.body_bytes,
        cost: limits.cost,
        depth: limits.depth,
        deadline: limits.deadline,
        operations_per_socket: limits.operations_per_socket,
    }
}
