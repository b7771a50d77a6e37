//! Logs, metrics and traces of the process.
//!
//! A histogram keeps each sample until a scrape or [`keep_small`] counts it in its buckets, so a server without a
//! scraper needs [`keep_small`].

mod export;
pub mod metrics;
pub mod repeats;

use std::io::IsTerminal;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use chrono::SecondsFormat;
use graphql_transport::MetricType;
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};
use opentelemetry_otlp::ExporterBuildError;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::filter::FilterExt;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};
use tracing_subscriber::{EnvFilter, Layer, Registry, reload};

use crate::config::{LogSettings, OtlpSettings};
use export::Export;
use repeats::Repeats;

/// Target under which the database driver logs each statement.
const STATEMENTS: &str = "sqlx::query";
/// Interval at which samples are folded: a second of a busy server's samples is small.
pub const FOLD_EVERY: Duration = Duration::from_secs(1);

/// Whether each line that the process writes is JSON.
static JSON_LINES: AtomicBool = AtomicBool::new(false);

/// Returns a line for the output of the process: JSON, as those of the log, if they are JSON.
#[must_use]
pub fn line(level: Level, text: &str) -> String {
    if !JSON_LINES.load(Ordering::Relaxed) {
        return text.to_owned();
    }
    let timestamp = noetl_runtime::clock::now().to_rfc3339_opts(SecondsFormat::Micros, true);
    let fields = serde_json::json!({ "message": text });
    let target = "noetl_graphql";
    serde_json::json!({ "timestamp": timestamp, "level": level.as_str(), "fields": fields, "target": target })
        .to_string()
}

/// Repeated lines of the process's log.
static REPEATS: LazyLock<Repeats> = LazyLock::new(Repeats::default);

/// Failure to set up logging, metrics or the export of spans.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// The filter can't be parsed.
    #[error("NOETL_LOG is not a valid filter; an example is info,noetl=debug")]
    Filter(#[from] tracing_subscriber::filter::ParseError),
    /// The filter can't be replaced.
    #[error("the filter of the log can't be replaced")]
    Reload(#[from] reload::Error),
    /// Logging was set up before.
    #[error("logging is set up already")]
    Logging(#[from] TryInitError),
    /// The metrics recorder can't be installed.
    #[error("metrics can't be recorded")]
    Metrics(#[from] BuildError),
    /// The exporter of spans can't be built.
    #[error("spans can't be exported to NOETL_OTLP_ENDPOINT")]
    Export(#[from] ExporterBuildError),
}

/// Telemetry of the process; see [`Self::finish`].
pub struct Telemetry {
    /// Renders the metrics.
    pub metrics: PrometheusHandle,
    /// Filter of the log.
    pub filter: LogFilter,
    export: Option<Export>,
}

impl Telemetry {
    /// Sends the spans that wait to be exported, within a few seconds. Call this after all other work has ended.
    pub async fn finish(self) {
        let Some(export) = self.export else { return };
        // `finish` blocks its thread, and the exporter needs the runtime meanwhile.
        if let Ok(Err(error)) = tokio::task::spawn_blocking(move || export.finish()).await {
            tracing::warn!(%error, "the last spans were not exported");
        }
    }
}

/// Filter of the log, which can be replaced.
#[derive(Clone)]
pub struct LogFilter(reload::Handle<EnvFilter, Registry>);

impl LogFilter {
    /// Replaces the filter.
    pub fn set(&self, filter: &str) -> Result<(), TelemetryError> {
        Ok(self.0.reload(EnvFilter::try_new(filter)?)?)
    }
}

/// Counts the samples of histograms at the interval `every` until `stop`, so that their memory does not depend on
/// scrapes. Also writes the numbers of repeated log lines.
pub async fn keep_small(metrics: PrometheusHandle, every: Duration, stop: CancellationToken) {
    while stop.run_until_cancelled(sleep(every)).await.is_some() {
        metrics.run_upkeep();
        REPEATS.report();
    }
}

/// Sets up logging to standard error, the metrics registry of `/metrics`, and the export of spans if it is configured.
/// Must be called within a Tokio runtime.
pub fn start(settings: &LogSettings, otlp: Option<&OtlpSettings>) -> Result<Telemetry, TelemetryError> {
    let format = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    // On a terminal the library's default applies: colours, unless NO_COLOR is set.
    let format = if std::io::stderr().is_terminal() { format } else { format.with_ansi(false) };
    // The list of spans contains the current one.
    let format = if settings.json { format.json().with_current_span(false).boxed() } else { format.boxed() };
    JSON_LINES.store(settings.json, Ordering::Relaxed);
    let (filter, handle) = reload::Layer::new(EnvFilter::try_new(&settings.filter)?);
    let statements = StatementCounter.with_filter(Targets::new().with_target(STATEMENTS, Level::DEBUG));
    let export = otlp.map(Export::start).transpose()?;
    let filter = filter.and(REPEATS.clone());
    let registry = tracing_subscriber::registry().with(format.with_filter(filter)).with(statements);
    // An absent layer must not be added as `None`: it has no filter, so every span and event would be recorded.
    match &export {
        Some(export) => registry.with(export.layer()).try_init()?,
        None => registry.try_init()?,
    }
    Ok(Telemetry { metrics: recorder()?.install_recorder()?, filter: LogFilter(handle), export })
}

/// Returns a recorder that has the buckets of each histogram.
pub fn recorder() -> Result<PrometheusBuilder, BuildError> {
    metrics::all()
        .filter(|metric| metric.metric_type == MetricType::Histogram)
        .try_fold(PrometheusBuilder::new(), |builder, metric| {
            builder.set_buckets_for_metric(Matcher::Full(metric.name.to_owned()), metric.buckets)
        })
}

/// Counts the statements that the database driver reports, as `noetl_sql_statements_total`.
struct StatementCounter;

impl<S: Subscriber> Layer<S> for StatementCounter {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if event.metadata().target() == STATEMENTS {
            ::metrics::counter!("noetl_sql_statements_total").increment(1);
        }
    }
}
