//! Export of spans to an OpenTelemetry collector (OTLP over HTTP, protobuf).
//!
//! Spans wait in a bounded queue, and a separate thread sends them in batches. A span that finds the queue full is
//! dropped, so a slow or unreachable collector causes lost spans but no delays.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use opentelemetry::trace::{Link, SpanKind, TraceContextExt, TraceId, TracerProvider};
use opentelemetry::{Context, KeyValue};
use opentelemetry_otlp::{ExporterBuildError, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::{OTelSdkError, OTelSdkResult};
use opentelemetry_sdk::trace::{
    BatchConfigBuilder, BatchSpanProcessor, Sampler, SamplingDecision, SamplingResult, SdkTracer, SdkTracerProvider,
    ShouldSample, SpanData, SpanExporter,
};
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use tracing::{Level, Metadata, Subscriber};
use tracing_opentelemetry::OpenTelemetryLayer;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{FilterFn, LevelFilter};
use tracing_subscriber::registry::LookupSpan;

use crate::config::OtlpSettings;

/// Maximum number of spans that wait to be sent, about 1 KiB each.
const QUEUE: usize = 8192;
/// Time that a span waits until its batch is sent.
const DELAY: Duration = Duration::from_secs(1);
/// Time that a request to the collector may take.
const REQUEST_DEADLINE: Duration = Duration::from_secs(5);
/// Time that sending the remaining spans may take at a shutdown.
const FLUSH_DEADLINE: Duration = Duration::from_secs(3);
/// Name of this server in traces.
const SERVICE: &str = "noetl-graphql";
/// Prefixes of the targets of this server's own spans: the crates that it consists of.
pub(super) const TARGETS: [&str; 2] = ["graphql_transport", "noetl"];

/// Exporter of one process.
pub(super) struct Export {
    provider: SdkTracerProvider,
    abandoned: CancellationToken,
}

impl Export {
    /// Starts the exporter's thread. Its requests run on the current Tokio runtime.
    pub(super) fn start(settings: &OtlpSettings) -> Result<Self, ExporterBuildError> {
        let exporter = opentelemetry_otlp::SpanExporter::builder()
            .with_http()
            .with_endpoint(&settings.endpoint)
            .with_headers(settings.headers.clone())
            .with_timeout(REQUEST_DEADLINE)
            .build()?;
        let batches = BatchConfigBuilder::default().with_max_queue_size(QUEUE).with_scheduled_delay(DELAY).build();
        let abandoned = CancellationToken::new();
        let exporter = OnRuntime { exporter, runtime: Handle::current(), abandoned: abandoned.clone() };
        let processor = BatchSpanProcessor::builder(exporter).with_batch_config(batches).build();
        let version = KeyValue::new("service.version", crate::VERSION);
        let resource = Resource::builder().with_service_name(SERVICE).with_attribute(version).build();
        let sampler = Sampler::ParentBased(Box::new(Roots(Sampler::TraceIdRatioBased(settings.sample_ratio))));
        let provider = SdkTracerProvider::builder()
            .with_span_processor(processor)
            .with_resource(resource)
            .with_sampler(sampler)
            .build();
        Ok(Self { provider, abandoned })
    }

    /// Returns the layer that exports this server's spans, with the log events in them at level info or above.
    pub(super) fn layer<S>(&self) -> impl Layer<S> + use<S>
    where
        S: Subscriber + for<'span> LookupSpan<'span>,
    {
        let layer: OpenTelemetryLayer<S, SdkTracer> =
            tracing_opentelemetry::layer().with_tracer(self.provider.tracer(SERVICE));
        // Spans of level info are for the log; in a trace they would repeat the spans inside them.
        let exported = |metadata: &Metadata<'_>| {
            let level = *metadata.level();
            let wanted = if metadata.is_span() { level == Level::DEBUG } else { level <= Level::INFO };
            wanted && TARGETS.iter().any(|target| metadata.target().starts_with(target))
        };
        let layer = layer.with_location(false).with_threads(false).with_tracked_inactivity(false);
        layer.with_filter(FilterFn::new(exported).with_max_level_hint(LevelFilter::DEBUG))
    }

    /// Sends the remaining spans, and drops them after [`FLUSH_DEADLINE`]. Blocks its thread.
    pub(super) fn finish(&self) -> OTelSdkResult {
        let outcome = self.provider.shutdown_with_timeout(FLUSH_DEADLINE);
        self.abandoned.cancel();
        outcome
    }
}

/// Sampler that starts traces only with requests and publishes. Otherwise every timer of the server would start one.
#[derive(Debug, Clone)]
struct Roots(Sampler);

impl ShouldSample for Roots {
    fn should_sample(
        &self,
        parent: Option<&Context>,
        trace_id: TraceId,
        name: &str,
        kind: &SpanKind,
        attributes: &[KeyValue],
        links: &[Link],
    ) -> SamplingResult {
        if matches!(kind, SpanKind::Server | SpanKind::Producer) {
            return self.0.should_sample(parent, trace_id, name, kind, attributes, links);
        }
        let trace_state = parent.map(|parent| parent.span().span_context().trace_state().clone()).unwrap_or_default();
        SamplingResult { decision: SamplingDecision::Drop, attributes: Vec::new(), trace_state }
    }
}

/// Exporter whose requests are polled within a runtime, because the thread that sends the batches has none.
#[derive(Debug)]
struct OnRuntime {
    exporter: opentelemetry_otlp::SpanExporter,
    runtime: Handle,
    /// Cancelled before the runtime ends, because a request that is polled after that would panic.
    abandoned: CancellationToken,
}

impl SpanExporter for OnRuntime {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let mut export = pin!(self.exporter.export(batch));
        let sent = poll_fn(|context| {
            if self.abandoned.is_cancelled() {
                return Poll::Ready(Err(OTelSdkError::AlreadyShutdown));
            }
            let _entered = self.runtime.enter();
            export.as_mut().poll(context)
        });
        let abandoned = || Err(OTelSdkError::AlreadyShutdown);
        let outcome = self.abandoned.run_until_cancelled(sent).await.unwrap_or_else(abandoned);
        if let Err(error) = &outcome {
            metrics::counter!("noetl_trace_exports_failed_total").increment(1);
            tracing::warn!(%error, "spans could not be sent to the collector of NOETL_OTLP_ENDPOINT");
        }
        outcome
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.exporter.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.exporter.set_resource(resource);
    }
}
