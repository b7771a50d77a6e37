//! Inputs of the transport, and the state that its handlers share.

use std::sync::Arc;
use std::time::Duration;

use async_graphql::Executor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::admission::{Admit, Admitted, Caller, Permits, Prepare};
use super::document::TypeSystem;
use super::engine::{Engine, compose};
use super::limits::Limits;
use super::metric::Metric;
use super::observe::{self, OpenConnection, OperationMetrics};
use super::outcome::OutcomeHint;
use super::rejection::RequestRejection;
use super::request_id::RequestId;
use super::resources::{CallerKey, RequestSlot, Resource, ResourceGuard, ResourceUsage};
use super::sites::Sites;
use super::transport::Transport;
use super::trusted::Trusted;

/// An executor and the terms on which it is served.
#[derive(Clone)]
pub struct Edge<E> {
    /// Executor of the operations. The transport validates them first, so its own validation should be the minimum
    /// ([`ValidationMode::Fast`](async_graphql::ValidationMode::Fast)).
    pub executor: E,
    /// Types of the executor's schema. Documents are validated against them.
    pub types: Arc<TypeSystem>,
    /// Limits on the requests of clients.
    pub limits: Limits,
    /// Attaches the data of one operation to its request.
    pub prepare: Prepare,
    /// Returns the sentence that tells how to find out the outcome of a mutation that reached its deadline.
    pub outcome_hint: OutcomeHint,
    /// Codes of errors that are faults of the server, beside `TIMEOUT` and `INTERNAL`.
    pub fault_codes: &'static [&'static str],
    /// Time after which a query or mutation is logged as slow; zero turns the log off.
    pub slow_operation: Duration,
    /// Admits callers; `None` admits every caller.
    pub admit: Option<Admit>,
    /// Documents that clients may select, and the treatment of all others.
    pub trusted: Trusted,
    /// Host names that are served, and sites whose pages may use this server.
    pub sites: Sites,
    /// Cancelled at the soft shutdown: new live connections are refused, and live WebSockets are closed with 1012.
    pub closing: CancellationToken,
    /// All live WebSockets and event streams; to be awaited after `closing` is cancelled.
    pub connections: TaskTracker,
}

impl<E: Executor> Edge<E> {
    /// Returns an edge with default limits that admits every caller and attaches nothing.
    #[must_use]
    pub fn new(executor: E, types: TypeSystem) -> Self {
        Self {
            executor,
            types: Arc::new(types),
            limits: Limits::default(),
            prepare: Arc::new(|request| request),
            outcome_hint: |_| None,
            fault_codes: &[],
            slow_operation: Duration::ZERO,
            admit: None,
            trusted: Trusted::default(),
            sites: Sites::default(),
            closing: CancellationToken::new(),
            connections: TaskTracker::new(),
        }
    }
}

/// State that the handlers share.
pub(super) struct TransportState<E> {
    engine: Engine<E>,
    admit: Option<Admit>,
    usage: Arc<ResourceUsage>,
    pub(super) closing: CancellationToken,
    pub(super) connections: TaskTracker,
}

impl<E: Executor> TransportState<E> {
    pub(super) fn new(edge: Edge<E>) -> Arc<Self> {
        observe::METRICS.iter().for_each(Metric::describe);
        Arc::new(Self {
            engine: Engine {
                executor: edge.executor,
                limits: edge.limits,
                prepare: edge.prepare,
                types: edge.types,
                outcome_hint: edge.outcome_hint,
                slow: edge.slow_operation,
                request_id: RequestId::fresh(),
                permits: Permits::ALL,
                trusted: edge.trusted,
                metrics: Arc::new(OperationMetrics::new(edge.fault_codes)),
            },
            admit: edge.admit,
            usage: ResourceUsage::new(&edge.limits),
            closing: edge.closing,
            connections: edge.connections,
        })
    }

    pub(super) fn limits(&self) -> &Limits {
        &self.engine.limits
    }

    /// Admits a caller.
    pub(super) async fn admit(&self, caller: Caller) -> Result<AdmittedCaller<E>, RequestRejection> {
        let mut engine = self.engine.clone();
        let anonymous = CallerKey::of(caller.extensions.get());
        if let Some(id) = caller.extensions.get::<RequestId>() {
            engine.request_id = id.clone();
        }
        let admitted = match &self.admit {
            Some(admit) => admit(caller).await?,
            None => Admitted::anonymous(Arc::new(|request| request)),
        };
        if self.admit.is_some() {
            engine.prepare = compose(Arc::clone(&admitted.prepare), engine.prepare);
        }
        engine.permits = admitted.permits;
        let key = admitted.subject.clone().map_or(anonymous, CallerKey::Subject);
        Ok(AdmittedCaller { engine, admitted, key })
    }

    /// Takes a slot for a request of an admitted caller.
    pub(super) fn slot(&self, key: &CallerKey) -> Result<RequestSlot, Resource> {
        RequestSlot::take(&self.usage, key)
    }

    /// Counts one more long-lived connection.
    pub(super) fn connect(&self, transport: Transport, key: &CallerKey) -> Result<LiveConnection, RequestRejection> {
        if self.closing.is_cancelled() {
            return Err(RequestRejection::Closing);
        }
        let guard = self.usage.take(key, Resource::LiveConnections, 1)?;
        Ok(LiveConnection { _open: OpenConnection::new(transport), guard })
    }
}

/// An admitted caller.
pub(super) struct AdmittedCaller<E> {
    /// The engine with the caller's permits and request id.
    pub(super) engine: Engine<E>,
    pub(super) admitted: Admitted,
    /// Key under which the caller's resources are counted.
    pub(super) key: CallerKey,
}

/// A long-lived connection, counted until it is dropped.
pub(super) struct LiveConnection {
    _open: OpenConnection,
    guard: ResourceGuard,
}

impl LiveConnection {
    /// Counts a large message as buffered until the result is dropped. This bounds what clients leave unread.
    pub(super) fn buffer(&self, bytes: usize) -> Result<Option<ResourceGuard>, Resource> {
        self.guard.buffer(bytes)
    }
}
