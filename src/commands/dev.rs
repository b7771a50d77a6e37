//! `dev`: runs everything on one machine. All data is in one folder and stays for the next start.

use std::path::PathBuf;

use clap::{Args, value_parser};
use metrics_exporter_prometheus::PrometheusHandle;
use tokio::net::TcpListener;

use super::{Failure, start_logging};
use crate::app::{self, App};
use crate::config::{Config, RequiredSettings, Sources};
use noetl_domain::tenant::{Caller, Scope};
use noetl_local::{LocalOptions, LocalServers};
use noetl_runtime::supervisor::{EndedEarly, Interrupted, Signals};
use noetl_use_cases::catalog::Registration;
use noetl_use_cases::error::ServiceError;

/// Path and content of the sample catalog.
const SAMPLES: [(&str, &str); 3] = [
    ("samples/orders/inbox", include_str!("../../examples/catalog/orders-inbox.yaml")),
    ("samples/orders/process", include_str!("../../examples/catalog/orders-process.yaml")),
    ("samples/reports/daily", include_str!("../../examples/catalog/reports-daily.yaml")),
];

/// Options of `dev`.
#[derive(Debug, Args)]
pub(super) struct Options {
    /// Folder of all data; its file `env` has the addresses of the running servers
    #[arg(long, default_value = ".noetl")]
    data_dir: PathBuf,
    /// Port to serve on; 0 picks a free one [default: `NOETL_PORT`, else 8082]
    #[arg(long)]
    port: Option<u16>,
    /// Number of shard databases, in addition to the cluster database (1 to 64)
    #[arg(long, default_value_t = 2, value_parser = value_parser!(u16).range(1..=64))]
    shards: u16,
}

/// Starts the private servers, serves until a signal arrives, and stops the servers. A signal stops each of these steps.
pub(super) async fn run(options: Options) -> Result<(), Failure> {
    let (sources, telemetry) = start_logging()?;
    let local = sources.check(RequiredSettings::Nothing)?;
    let mut signals = Signals::listen()?;
    let mut wanted = LocalOptions::new(options.data_dir, options.shards);
    wanted.postgres_bin = local.process.pg_bin;
    let outcome = match signals.interrupt(LocalServers::start(&wanted)).await {
        Ok(servers) => {
            let mut servers = servers?;
            let sources = settings(sources, &servers, options.port.unwrap_or(local.server.port));
            let outcome = Box::pin(serve(&sources, telemetry.metrics.clone(), signals, &mut servers)).await;
            servers.stop().await;
            outcome
        }
        Err(Interrupted) => Ok(()),
    };
    telemetry.finish().await;
    outcome?;
    println!("stopped; the data stays for the next start");
    Ok(())
}

/// Adds the settings that name the private servers.
fn settings(sources: Sources, servers: &LocalServers, port: u16) -> Sources {
    sources.with([
        ("NOETL_PORT", port.to_string()),
        // Without a load balancer, the delay is not needed.
        ("NOETL_SHUTDOWN_DELAY_SECS", "0".to_owned()),
        ("NOETL_CLUSTER_DSN", servers.cluster_dsn()),
        ("NOETL_SHARDS", servers.shard_dsns().join(",")),
        ("NOETL_NATS_URL", servers.nats_url()),
    ])
}

async fn serve(
    sources: &Sources,
    metrics: PrometheusHandle,
    mut signals: Signals,
    servers: &mut LocalServers,
) -> Result<(), Failure> {
    let config = sources.check(RequiredSettings::Servers)?;
    let (app, listener) = match signals.interrupt(start(&config, metrics)).await {
        Ok(started) => started?,
        Err(Interrupted) => return Ok(()),
    };
    let port = listener.local_addr().map_or(config.server.port, |address| address.port());
    servers.publish_port(port)?;
    let (scheme, server) = (config.connections.scheme(), &config.server);
    let url = format!("{scheme}://{}:{port}{}", server.host, server.base_path);
    println!("console   {url}");
    println!("GraphQL   {url}/graphql");
    println!("settings  {}", servers.env_file().display());
    println!("Ctrl-C stops everything.");
    let ended = async { EndedEarly::Task { name: "private servers", error: Some(servers.wait_exit().await.into()) } };
    Ok(app.serve(listener, signals, ended).await?)
}

async fn start(config: &Config, metrics: PrometheusHandle) -> Result<(App, TcpListener), app::AppError> {
    let listener = app::bind(config).await?;
    app::migrate(config, None).await?;
    let app = App::start(config, metrics).await?;
    register_samples(&app).await?;
    Ok((app, listener))
}

/// Registers the samples that the catalog does not have yet. A retired sample stays retired.
async fn register_samples(app: &App) -> Result<(), ServiceError> {
    for (path, content) in SAMPLES {
        if app.services.catalog.find(path, Some(1)).await?.is_none() {
            let registration = Registration { path: Some(path.to_owned()), kind: None, content: content.to_owned() };
            let caller = Caller { actor: None, scope: Scope::Unrestricted, imports: false };
            app.services.catalog.register(registration, false, &caller).await?;
        }
    }
    Ok(())
}
