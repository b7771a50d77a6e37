//! Builds a process: connects databases, broker, services, schema, routes and tasks.

mod background;
mod broker;
mod callers;
mod check;
mod databases;
mod error;
mod growth;
mod listener;
mod moves;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::middleware::from_fn;
use futures::FutureExt;
use metrics_exporter_prometheus::PrometheusHandle;
use tokio::net::TcpListener;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower_http::catch_panic::CatchPanicLayer;
use uuid::Uuid;

use crate::config::{Config, Setting};
use crate::tasks::housekeeping::{Done, Housekeeping};
use crate::web::health::{
    self, ActiveSubscription, NoShardAvailable, OutboxBacklog, Probes, Readiness, SubscriptionBacklog, Terms,
};
use crate::web::{assets, sign_in};
use callers::Callers;
use databases::connect;
use graphql_transport::listener::Listener;
use graphql_transport::{Edge, Limits, Sites, TypeSystem, limited, router, trace};
use noetl_api::context::{Replica, Services};
use noetl_api::errors::FAULT_CODES;
use noetl_api::outcome_hint::outcome_hint;
use noetl_api::scalars::{DATE_TIME, JSON};
use noetl_api::schema::{self, ControlPlane};
use noetl_api::server::settings::ServerSetting;
use noetl_auth::oidc::SignIn;
use noetl_feed::read::hub::Hub;
use noetl_runtime::supervisor::{EndedEarly, ShutdownTimeouts, Signals, Supervisor};
use noetl_runtime::wake::WakeUps;
use noetl_runtime::{clock, crash_point};
use noetl_service::catalog::Catalog;
use noetl_service::executions::Executions;
use noetl_service::ids::{Ids, LEASE};
use noetl_service::ingest::Ingest;
use noetl_service::outbox::Outbox;
use noetl_service::projections::Projections;
use noetl_service::retention::Retention;
use noetl_service::subscriptions::Subscriptions;
use noetl_storage::budget::BudgetLimits;
use noetl_storage::machines::{Description, Holder};
use noetl_storage::pools::{Database, Databases};
use noetl_use_cases::outbox::ReadOutbox;

pub use check::check;
pub use databases::{migrate, migration_plan};
pub use error::AppError;
pub use growth::{ShardState, ShardStatus, add_shards, rebalance_plan, shards};
pub use listener::document_limits;
pub use moves::{PlannedMove, abort_moves, move_buckets, planned_moves};

/// Runs every housekeeping task once, and passes each result to `report`.
pub async fn maintain(config: &Config, report: impl FnMut(Done)) -> Result<(), AppError> {
    arm_fault_point(config);
    let (services, ids) = command_services(config, connect(config, Some(4)).await?).await?;
    services.run_all(report).await;
    Ok(ids.release().await?)
}

fn arm_fault_point(config: &Config) {
    if let Some(point) = config.process.fault_point.clone() {
        crash_point::arm(point);
    }
}

/// Creates the services of a command that serves no requests. It takes any machine id, because a running server may hold
/// the configured one.
#[expect(clippy::disallowed_methods, reason = "a process gets its identity here")]
async fn command_services(config: &Config, databases: Databases) -> Result<(Housekeeping, Arc<Ids>), AppError> {
    let holder = Holder { owner: Uuid::new_v4(), description: None };
    let ids = Arc::new(lease(&databases, &holder, None).await?);
    let wake_ups = WakeUps::new(databases.shards().len());
    Ok((housekeeping(config, databases, &ids, &wake_ups), ids))
}

/// Creates the services that the housekeeping tasks use.
fn housekeeping(config: &Config, databases: Databases, ids: &Arc<Ids>, wake_ups: &WakeUps) -> Housekeeping {
    let catalog = Catalog::new(Arc::clone(databases.cluster()), Arc::clone(ids));
    Housekeeping {
        projections: Projections::new(databases.clone(), catalog.clone()),
        executions: Executions::new(databases.clone(), Arc::clone(ids), catalog.clone(), wake_ups.clone()),
        subscriptions: Subscriptions::new(databases.clone(), Arc::clone(ids), catalog.clone(), wake_ups.clone()),
        outbox: Outbox::new(databases.clone(), Arc::<Ids>::clone(ids), wake_ups.clone(), config.outbox),
        retention: Retention { days: config.event_retention_days, publishes: config.event_stream.is_some() },
        catalog,
        databases,
    }
}

/// A process that is ready to serve.
pub struct App {
    /// All use cases.
    pub services: Services,
    ids: Arc<Ids>,
    supervisor: Supervisor,
    router: Router,
    /// Address and routes of the separate listener for health checks and metrics, if one is configured.
    health: Option<(SocketAddr, Router)>,
    connections: TaskTracker,
    listener: Listener,
    timeouts: ShutdownTimeouts,
}

impl App {
    /// Connects to the databases and the broker, leases a machine id, and starts the tasks.
    #[expect(clippy::disallowed_methods, reason = "a process gets its identity here")]
    pub async fn start(config: &Config, metrics: PrometheusHandle) -> Result<Self, AppError> {
        arm_fault_point(config);
        let tls = listener::tls(config.connections.tls.as_ref()).await?;
        let databases = connect(config, None).await?;
        let identity = Uuid::new_v4();
        let host = nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok()).unwrap_or_default();
        let budget = BudgetLimits::default();
        let response_bytes = usize::try_from(budget.response_bytes).unwrap_or(usize::MAX);
        let limits = Limits { response_bytes, ..listener::limits(&config.connections) };
        let replica = Replica {
            name: format!("{host}-{}-{}", std::process::id(), &identity.simple().to_string()[..8]),
            version: crate::VERSION,
            started_at: clock::now(),
            event_stream_enabled: config.event_stream.is_some() && !config.broker.addresses.is_empty(),
            stream_names: config.stream_names.clone(),
            relay_enabled: config.outbox_relay && !config.broker.addresses.is_empty(),
            projector_enabled: config.projector,
            settings: config.settings.iter().map(shown).collect(),
            trace_url: config.telemetry.trace_url.clone(),
            limits,
            budget,
        };
        let description = Description {
            replica: replica.name.clone(),
            version: replica.version.to_owned(),
            started_at: replica.started_at,
        };
        let holder = Holder { owner: identity, description: Some(description) };
        let ids = Arc::new(lease(&databases, &holder, config.process.machine_id).await?);
        let client = match &config.broker {
            broker if broker.addresses.is_empty() => None,
            broker => Some(broker::connect(broker, &replica.name).await?),
        };
        let wake_ups = WakeUps::new(databases.shards().len());
        let (names, ring) = (&config.stream_names, config.ring_bytes);
        let hub = client.clone().map(|client| Hub::new(client, names, databases.clone(), ring));
        let housekeeping = housekeeping(config, databases, &ids, &wake_ups);
        let services = services(&housekeeping, &ids, &wake_ups, hub, replica);
        let databases = &housekeeping.databases;
        let names = databases.distinct().map(|database| database.name().to_string()).collect();
        crate::telemetry::metrics::begin(names, (0..databases.shards().len()).map(|shard| shard.to_string()).collect());
        let mut supervisor = Supervisor::default();
        background::start_upkeep(&mut supervisor, &ids, &housekeeping);
        background::start_metrics_upkeep(&mut supervisor, metrics.clone());
        if config.projector {
            background::start_projectors(&mut supervisor, &housekeeping);
        }
        if let Some((client, hub)) = client.as_ref().zip(services.hub.as_ref()) {
            let name = &services.replica.name;
            background::start_broker_tasks(&mut supervisor, &housekeeping, hub, name, client, &wake_ups, config);
        }
        let connections = TaskTracker::new();
        let Callers { admit, sign_in } = callers::identification(&config.auth, &mut supervisor)?;
        let listener = listener::new(&mut supervisor, &limits, tls);
        let edge = Edge {
            limits: listener.limits,
            admit: Some(admit),
            closing: listener.closing.clone(),
            connections: connections.clone(),
            ..edge(config, &services)?
        };
        let probes = probes(&housekeeping, listener.draining.clone(), metrics);
        let terms = Terms { sites: edge.sites.clone(), admit: edge.admit.clone() };
        // The separate listener needs no authentication: its address decides which machines can reach it.
        let separate = Terms { sites: Sites::default(), admit: None };
        let alone = |probes| limited(health::routes(probes, &separate), &limits, &health::FREE);
        let health = config.server.health.map(|address| (address, alone(probes.clone())));
        let shared = if health.is_some() { Router::new() } else { health::routes(probes, &terms) };
        let router = routes(edge, shared, sign_in, &config.server.base_path);
        let timeouts = listener::shutdown_timeouts(&config.connections, &limits);
        Ok(Self { services, ids, supervisor, router, health, connections, listener, timeouts })
    }

    /// Serves until a signal arrives, or until `ended` returns the reason why the process must end.
    pub async fn serve(
        self,
        socket: TcpListener,
        signals: Signals,
        ended: impl Future<Output = EndedEarly>,
    ) -> Result<(), AppError> {
        let Self { ids, mut supervisor, router, health, connections, listener, timeouts, .. } = self;
        if let Some((address, router)) = health {
            let socket = listen(address).await?;
            let (draining, closing) = (supervisor.soft(), supervisor.soft());
            let listener = Listener { limits: listener.limits, tls: None, draining, closing };
            supervisor.start("health", listener.serve(socket, router));
        }
        supervisor.serve("http", async move {
            listener.serve(socket, router).await?;
            connections.close();
            connections.wait().await;
            Ok::<(), std::io::Error>(())
        });
        let outcome = supervisor.run(timeouts, signals, ended).await;
        if let Err(error) = ids.release().await {
            tracing::warn!(%error, "could not release the machine id; it becomes free when its lease expires");
        }
        Ok(outcome?)
    }
}

fn shown(Setting { name, value, is_default }: &Setting) -> ServerSetting {
    ServerSetting { name: (*name).to_owned(), value: value.clone(), is_default: *is_default }
}

/// Opens the configured listener.
pub async fn bind(config: &Config) -> Result<TcpListener, AppError> {
    listen(SocketAddr::new(config.server.host, config.server.port)).await
}

async fn listen(address: SocketAddr) -> Result<TcpListener, AppError> {
    TcpListener::bind(address).await.map_err(|source| AppError::Bind { address, source })
}

/// Leases a machine id. If none is free, waits until the leases of dead replicas have expired.
async fn lease(databases: &Databases, holder: &Holder, pinned: Option<u16>) -> Result<Ids, AppError> {
    let give_up = Instant::now() + LEASE + Duration::from_secs(2);
    loop {
        if let Some(ids) = Ids::lease(databases.clone(), holder.clone(), pinned).await? {
            return Ok(ids);
        }
        if Instant::now() > give_up {
            return Err(AppError::NoMachineId(pinned));
        }
        sleep(Duration::from_millis(500)).await;
    }
}

/// Creates the services of the API. Those that the housekeeping tasks use too are shared with them.
fn services(
    housekeeping: &Housekeeping,
    ids: &Arc<Ids>,
    wake_ups: &WakeUps,
    hub: Option<Hub>,
    replica: Replica,
) -> Services {
    let databases = housekeeping.databases.clone();
    Services {
        catalog: Arc::new(housekeeping.catalog.clone()),
        subscriptions: Arc::new(housekeeping.subscriptions.clone()),
        projections: Arc::new(housekeeping.projections.clone()),
        ingest: Arc::new(Ingest::new(databases.clone(), Arc::clone(ids), wake_ups.clone())),
        executions: Arc::new(housekeeping.executions.clone()),
        outbox: Arc::new(housekeeping.outbox.clone()),
        databases,
        hub,
        ids: Arc::<Ids>::clone(ids),
        replica,
    }
}

/// Returns the HTTP transport for the schema, with the configured settings.
#[expect(clippy::disallowed_methods, reason = "the random text is created once for each process")]
fn edge(config: &Config, services: &Services) -> Result<Edge<ControlPlane>, AppError> {
    let types = TypeSystem::from_sdl(&schema::sdl()).map_err(|error| AppError::Schema(error.to_string()))?;
    let types = types.with_scalar(DATE_TIME).with_carried_scalar(JSON);
    let placeholder = Uuid::new_v4().simple().to_string();
    let edge = Edge::new(schema::build(services.clone(), &placeholder), types);
    let sites = Sites { origins: config.server.allowed_origins.clone(), hosts: config.server.allowed_hosts.clone() };
    let slow_operation = config.telemetry.slow_operation;
    let trusted = config.trusted.clone();
    Ok(Edge { sites, trusted, slow_operation, outcome_hint, fault_codes: FAULT_CODES, ..edge })
}

/// Returns all routes. Those of a server with a base path are below it and at the root, because some proxies strip the
/// path and others do not.
fn routes(edge: Edge<ControlPlane>, probes: Router, sign_in: Option<Arc<SignIn>>, base_path: &str) -> Router {
    let pages = assets::routes(&edge.sites, base_path).merge(sign_in::routes(&edge.sites, sign_in));
    let limits = edge.limits;
    let routes = router(edge).merge(limited(probes.merge(pages), &limits, &health::FREE));
    let routes = routes.layer(CatchPanicLayer::new()).layer(from_fn(trace::identify));
    if base_path.is_empty() {
        return routes;
    }
    Router::new().nest_service(base_path, routes.clone()).fallback_service(routes)
}

fn probes(services: &Housekeeping, draining: CancellationToken, metrics: PrometheusHandle) -> Probes {
    let databases = services.databases.clone();
    let readiness = move || {
        let is_down = |database: &&Arc<Database>| database.health().down.is_some();
        let down = databases.distinct().filter(is_down).map(|database| database.name().to_string());
        // A full disk hinders all replicas alike, and reads still work.
        let usable = databases.cluster().health().down.is_none_or(|down| down.allows_reads());
        let ready = !draining.is_cancelled() && usable;
        Readiness { ready, down: down.collect() }
    };
    let (outbox, subscriptions) = (services.outbox.clone(), services.subscriptions.clone());
    let process = metrics_process::Collector::default();
    process.describe();
    Probes {
        readiness: Arc::new(readiness),
        metrics: Arc::new(move || {
            process.collect();
            metrics.render()
        }),
        outbox: Arc::new(move || backlog(outbox.clone()).boxed()),
        subscriptions: Arc::new(move || subscription_backlog(subscriptions.clone()).boxed()),
    }
}

async fn backlog(outbox: Outbox) -> Result<OutboxBacklog, NoShardAvailable> {
    let stats = outbox.backlog().await.map_err(|error| {
        tracing::warn!(%error, "could not count the outbox");
        NoShardAvailable
    })?;
    let ages = stats.shards.iter().filter_map(|(_, backlog)| backlog.oldest_waiting_seconds);
    Ok(OutboxBacklog {
        pending: stats.shards.iter().map(|(_, backlog)| backlog.waiting).sum(),
        oldest_age_seconds: ages.fold(0.0, f64::max),
        unavailable_shards: stats.unavailable,
    })
}

/// Returns the backlog of active subscriptions in the form of `/scaler/subscriptions`.
async fn subscription_backlog(subscriptions: Subscriptions) -> Result<SubscriptionBacklog, NoShardAvailable> {
    let found = subscriptions.backlog().await.map_err(|error| {
        tracing::warn!(%error, "could not read the backlog of subscriptions");
        NoShardAvailable
    })?;
    let active = found.subscriptions.into_iter().map(|one| ActiveSubscription {
        id: one.id.to_string(),
        path: one.path,
        backlog: one.open_executions,
    });
    let subscriptions: Vec<_> = active.collect();
    Ok(SubscriptionBacklog {
        active: subscriptions.len(),
        backlog: subscriptions.iter().map(|one| one.backlog).sum(),
        subscriptions,
        unavailable_shards: found.unavailable,
    })
}
