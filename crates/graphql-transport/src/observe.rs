//! Metrics of operations, and the log of slow operations.
//!
//! The outcome of an operation is one of ok, error (of a resolver), failed (a fault of the server that a resolver reports),
//! refused (by the executor), timeout, internal, cancelled.
//!
//! A slow query or mutation is logged with the SHA-256 of its document. Its variables are not logged, because they may
//! contain sensitive data.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use async_graphql::parser::types::OperationType;
use metrics::{Counter, Gauge, Histogram, counter, gauge, histogram};
use sha2::{Digest, Sha256};

use super::metric::Metric;
use super::operation::Operation;
use super::operation_error::OperationError;
use super::reply::Reply;
use super::request_id::RequestId;
use super::transport::{Transport, kind_label};

/// Metrics of operations and requests. The router describes them to the recorder.
pub const METRICS: [Metric; 9] = [
    Metric::counter(
        "graphql_operations_total",
        &["transport", "operation", "outcome"],
        "Operations that ran, by transport, operation and outcome",
    ),
    Metric::histogram(
        "graphql_operation_duration_seconds",
        &["transport", "operation"],
        "Duration of operations, by transport and operation",
        &[0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0],
    ),
    Metric::gauge(
        "graphql_operations_active",
        &["transport", "operation"],
        "Running operations, by transport and operation",
    ),
    Metric::gauge("graphql_connections", &["transport"], "Open WebSockets and event streams, by transport"),
    Metric::counter(
        "graphql_refusals_total",
        &["transport", "code"],
        "Requests that were refused before they ran, by transport and code",
    ),
    Metric::counter("graphql_limit_rejections_total", &["limit"], "Requests beyond a limit, by limit"),
    Metric::gauge("graphql_requests", &[], "Requests in flight, until the response is sent"),
    Metric::counter("graphql_socket_closes_total", &["code"], "WebSockets that the server closed, by close code"),
    Metric::counter(
        "graphql_untrusted_documents_total",
        &[],
        "Documents that ran although the manifest of trusted documents does not have them",
    ),
];

/// Outcome of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Ok,
    Error,
    Failed,
    Refused,
    Timeout,
    Internal,
    Cancelled,
}

impl Outcome {
    const COUNT: usize = 7;

    fn label(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Error => "error",
            Self::Failed => "failed",
            Self::Refused => "refused",
            Self::Timeout => "timeout",
            Self::Internal => "internal",
            Self::Cancelled => "cancelled",
        }
    }
}

/// Tells the metrics that an operation failed by a fault of the server, although its response may have no `errors`: the
/// payload of a mutation names it. The transport attaches a signal to each request.
#[derive(Debug, Clone, Default)]
pub struct FaultSignal(Arc<AtomicBool>);

impl FaultSignal {
    /// Notes a fault.
    pub fn note(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn noted(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// The recorder's handles of the metrics of operations. Each is looked up when it is first used, because a lookup by
/// name and labels costs more than the update.
#[derive(Default)]
pub(super) struct OperationMetrics {
    /// See [`fault_codes`](super::Edge::fault_codes).
    fault_codes: &'static [&'static str],
    by_kind: [[OnceLock<KindMetrics>; 3]; Transport::COUNT],
}

/// Metrics of the operations of one kind on one transport.
struct KindMetrics {
    transport: &'static str,
    operation: &'static str,
    active: Gauge,
    duration: Histogram,
    outcomes: [OnceLock<Counter>; Outcome::COUNT],
}

impl OperationMetrics {
    pub(super) fn new(fault_codes: &'static [&'static str]) -> Self {
        Self { fault_codes, ..Self::default() }
    }

    fn outcome(&self, reply: &Reply, signal: &FaultSignal) -> Outcome {
        match reply.code() {
            None if signal.noted() => Outcome::Failed,
            None => Outcome::Ok,
            Some("TIMEOUT") => Outcome::Timeout,
            Some("INTERNAL") => Outcome::Internal,
            Some(code) if self.fault_codes.contains(&code) => Outcome::Failed,
            Some(_) if reply.executed() => Outcome::Error,
            Some(_) => Outcome::Refused,
        }
    }

    fn of(&self, transport: Transport, kind: OperationType) -> &KindMetrics {
        self.by_kind[transport as usize][kind as usize].get_or_init(|| {
            let (transport, operation) = (transport.label(), kind_label(kind));
            KindMetrics {
                transport,
                operation,
                active: gauge!("graphql_operations_active", "transport" => transport, "operation" => operation),
                duration: histogram!(
                    "graphql_operation_duration_seconds",
                    "transport" => transport, "operation" => operation
                ),
                outcomes: Default::default(),
            }
        })
    }
}

impl KindMetrics {
    fn count(&self, outcome: Outcome) {
        let (transport, operation, label) = (self.transport, self.operation, outcome.label());
        let counter = self.outcomes[outcome as usize].get_or_init(|| {
            counter!(
                "graphql_operations_total",
                "transport" => transport, "operation" => operation, "outcome" => label
            )
        });
        counter.increment(1);
    }
}

/// A running operation. It counts as cancelled if it is dropped before [`Observed::settle`].
pub(super) struct Observed {
    metrics: Arc<OperationMetrics>,
    transport: Transport,
    kind: OperationType,
    started: Instant,
    signal: FaultSignal,
    outcome: Outcome,
    /// Absent if slow operations are not logged.
    slow: Option<SlowLog>,
}

/// Log line of an operation that took at least a given time.
struct SlowLog {
    least: Duration,
    request_id: RequestId,
    name: Option<String>,
    document: String,
}

impl Observed {
    pub(super) fn start(metrics: &Arc<OperationMetrics>, transport: Transport, kind: OperationType) -> Self {
        metrics.of(transport, kind).active.increment(1);
        let (metrics, signal) = (Arc::clone(metrics), FaultSignal::default());
        Self { metrics, transport, kind, started: Instant::now(), signal, outcome: Outcome::Cancelled, slow: None }
    }

    /// Returns the signal for the operation's request.
    pub(super) fn signal(&self) -> FaultSignal {
        self.signal.clone()
    }

    /// Logs the operation at its end if it took at least `least`. Zero turns this off.
    pub(super) fn log_slow(mut self, least: Duration, operation: &mut Operation, request_id: &RequestId) -> Self {
        if !least.is_zero() {
            let name = operation.name();
            let document = operation.request.query.clone();
            self.slow = Some(SlowLog { least, request_id: request_id.clone(), name, document });
        }
        self
    }

    /// Records the outcome of a reply. The last reply of a subscription determines its outcome.
    pub(super) fn settle(&mut self, reply: &Reply) {
        self.outcome = self.metrics.outcome(reply, &self.signal);
    }

    /// Records the end of a stream.
    pub(super) fn complete(&mut self) {
        if self.outcome == Outcome::Cancelled {
            self.outcome = Outcome::Ok;
        }
    }
}

impl Drop for Observed {
    fn drop(&mut self) {
        let (metrics, elapsed) = (self.metrics.of(self.transport, self.kind), self.started.elapsed());
        if let Some(slow) = self.slow.as_ref().filter(|slow| elapsed >= slow.least) {
            let SlowLog { request_id, name, document, .. } = slow;
            let (transport, kind, document) = (metrics.transport, metrics.operation, hex(&Sha256::digest(document)));
            let (milliseconds, outcome) = (elapsed.as_millis(), self.outcome.label());
            tracing::warn!(%request_id, transport, kind, name, document, milliseconds, outcome, "slow operation");
        }
        metrics.active.decrement(1);
        metrics.duration.record(elapsed);
        metrics.count(self.outcome);
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat()
}

/// Counts an open WebSocket or event stream until it is dropped.
pub(super) struct OpenConnection(&'static str);

impl OpenConnection {
    pub(super) fn new(transport: Transport) -> Self {
        gauge!("graphql_connections", "transport" => transport.label()).increment(1);
        Self(transport.label())
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        gauge!("graphql_connections", "transport" => self.0).decrement(1);
    }
}

/// Counts a refused operation.
pub(super) fn operation_error(transport: Transport, error: &OperationError) {
    let limit = match error {
        OperationError::LimitExceeded { limit, .. } => Some(limit.name()),
        _ => None,
    };
    refusal(transport, error.code(), limit);
}

/// Counts a WebSocket that the server closed.
pub(super) fn socket_close(code: u16) {
    counter!("graphql_socket_closes_total", "code" => code.to_string()).increment(1);
}

/// Counts a refused request or operation. `limit` is the limit that it exceeds.
pub(super) fn refusal(transport: Transport, code: &'static str, limit: Option<&'static str>) {
    tracing::debug!(transport = transport.label(), code, limit, "a request was refused");
    counter!("graphql_refusals_total", "transport" => transport.label(), "code" => code).increment(1);
    if let Some(limit) = limit {
        counter!("graphql_limit_rejections_total", "limit" => limit).increment(1);
    }
}
