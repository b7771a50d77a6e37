//! Logs and metrics of the process.

use metrics_exporter_prometheus::{BuildError, PrometheusBuilder, PrometheusHandle};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};
use tracing_subscriber::{EnvFilter, Layer};

use crate::config::LogSettings;

/// Where the database driver reports each statement.
const STATEMENTS: &str = "sqlx::query";

/// Logging or metrics could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// The filter can't be parsed.
    #[error("NOETL_LOG is no filter; write it as info,noetl_graphql=debug")]
    Filter(#[from] tracing_subscriber::filter::ParseError),
    /// Something else is set up already.
    #[error("logging is set up already")]
    Logging(#[from] TryInitError),
    /// The metrics recorder.
    #[error("metrics can't be recorded")]
    Metrics(#[from] BuildError),
}

/// Sets up logging to standard error and the metrics registry of `/metrics`.
pub fn start(settings: &LogSettings) -> Result<PrometheusHandle, TelemetryError> {
    let format = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let format = if settings.json { format.json().boxed() } else { format.boxed() };
    let filter = EnvFilter::try_new(&settings.filter)?;
    let statements = StatementCounter.with_filter(Targets::new().with_target(STATEMENTS, Level::DEBUG));
    tracing_subscriber::registry().with(format.with_filter(filter)).with(statements).try_init()?;
    Ok(PrometheusBuilder::new().install_recorder()?)
}

/// Counts the statements that the database driver reports, as `noetl_sql_statements_total`.
struct StatementCounter;

impl<S: Subscriber> Layer<S> for StatementCounter {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if event.metadata().target() == STATEMENTS {
            metrics::counter!("noetl_sql_statements_total").increment(1);
        }
    }
}
