//! Runs checked operations, for every transport.
//!
//! A query or mutation ends by its deadline. A panic in a resolver ends only its own operation, with `INTERNAL`. The
//! panic is logged here, once; its text is not sent to the client. Dropping the result of [`Engine::run`] or
//! [`Engine::replies`] cancels the operation.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use async_graphql::parser::types::OperationType;
use async_graphql::{Executor, Response};
use futures::stream::{self, BoxStream};
use futures::{FutureExt, Stream, StreamExt};
use tokio::time::timeout;

use super::admission::{Permits, Prepare};
use super::document::{Shape, TypeSystem};
use super::limits::Limits;
use super::observe::{self, Observed, OperationMetrics};
use super::operation::{Operation, Parameters};
use super::operation_error::{Limit, OperationError};
use super::outcome::{OutcomeHint, outcome_hints};
use super::reply::Reply;
use super::request_id::RequestId;
use super::trace::{self, OperationSpans};
use super::transport::Transport;
use super::trusted::Trusted;

/// An executor with the limits and permits of its operations.
#[derive(Clone)]
pub(super) struct Engine<E> {
    pub(super) executor: E,
    pub(super) limits: Limits,
    pub(super) prepare: Prepare,
    pub(super) types: Arc<TypeSystem>,
    pub(super) outcome_hint: OutcomeHint,
    /// Time after which a query or mutation is logged as slow; zero turns the log off.
    pub(super) slow: Duration,
    /// Id of the request to which the operations belong.
    pub(super) request_id: RequestId,
    pub(super) permits: Permits,
    pub(super) trusted: Trusted,
    pub(super) metrics: Arc<OperationMetrics>,
}

impl<E: Executor> Engine<E> {
    /// Checks a request against the trusted documents, the limits, the schema and the caller's permits.
    pub(super) fn check(&self, parameters: Parameters, transport: Transport) -> Result<Operation, OperationError> {
        let resolved = self.trusted.resolve(parameters, self.permits);
        let checked = resolved.and_then(|parameters| Operation::check(parameters, &self.limits, &self.types));
        checked
            .and_then(|operation| self.permit(operation))
            .map_err(|error| if self.permits.introspection { error } else { error.without_schema() })
            .inspect_err(|error| observe::operation_error(transport, error))
    }

    fn permit(&self, operation: Operation) -> Result<Operation, OperationError> {
        if operation.introspects && !self.permits.introspection {
            Err(OperationError::Introspection)
        } else {
            Ok(operation)
        }
    }

    /// Returns the engine for one operation of a socket, with a request id of its own.
    pub(super) fn for_operation(&self, id: &str) -> Self {
        Self { request_id: self.request_id.operation(id), ..self.clone() }
    }

    /// Runs a query or mutation.
    pub(super) async fn run(&self, mut operation: Operation, transport: Transport) -> Reply {
        let spans = trace::operation(&mut operation, &self.request_id, transport);
        spans.around(self.run_within(operation, transport)).await
    }

    async fn run_within(&self, mut operation: Operation, transport: Transport) -> Reply {
        let observed = Observed::start(&self.metrics, transport, operation.kind);
        let mut observed = observed.log_slow(self.slow, &mut operation, &self.request_id);
        let of_mutation = operation.kind == OperationType::Mutation;
        let hints = of_mutation.then(|| outcome_hints(&mut operation.request, self.outcome_hint));
        let (signal, cost) = (observed.signal(), operation.cost);
        let run = async {
            let request = (self.prepare)(operation.request.data(signal));
            self.executor.execute(request).await
        };
        let caught = AssertUnwindSafe(run).catch_unwind();
        let mut reply = match timeout(self.limits.deadline, caught).await {
            Ok(Ok(response)) => reply_from_response(response, &operation.shape, cost, &self.limits, transport),
            Ok(Err(panic)) => reply_from_panic(panic.as_ref()),
            Err(_) => hints.map_or_else(Reply::timeout, |hints| Reply::outcome_unknown(&hints)),
        };
        reply.name_request(&self.request_id);
        observed.settle(&reply);
        reply
    }

    /// Runs an operation of any kind and returns the stream of its replies. A query or mutation has one reply.
    pub(super) fn replies(self, mut operation: Operation, transport: Transport) -> BoxStream<'static, Reply> {
        // Created here because the request's span is the current one here.
        let spans = trace::operation(&mut operation, &self.request_id, transport);
        match operation.kind {
            OperationType::Subscription => within(spans, self.subscribe(operation, transport)).boxed(),
            _ => stream::once(spans.around(async move { self.run_within(operation, transport).await })).boxed(),
        }
    }

    fn subscribe(self, operation: Operation, transport: Transport) -> impl Stream<Item = Reply> + Send {
        let mut observed = Observed::start(&self.metrics, transport, operation.kind);
        let request_id = self.request_id.clone();
        let (shape, cost, limits) = (operation.shape, operation.cost, self.limits);
        // The executor's stream is created inside this one, so that a panic during its creation is caught as well. The
        // future is boxed because it is needed only until then.
        let made = async move {
            let request = (self.prepare)(operation.request);
            self.executor.execute_stream(request, None)
        };
        let responses = stream::once(made.boxed());
        let ending = stream::once(async { None });
        let caught = AssertUnwindSafe(responses.flatten()).catch_unwind().map(Some).chain(ending);
        caught.filter_map(move |item| {
            let reply = item.map(|result| match result {
                Ok(response) => reply_from_response(response, &shape, cost, &limits, transport),
                Err(panic) => reply_from_panic(panic.as_ref()),
            });
            let reply = reply.map(|mut reply| {
                reply.name_request(&request_id);
                reply
            });
            match &reply {
                Some(reply) => observed.settle(reply),
                None => observed.complete(),
            }
            std::future::ready(reply)
        })
    }
}

/// Returns a function that applies `first`, then `then`.
pub(super) fn compose(first: Prepare, then: Prepare) -> Prepare {
    Arc::new(move |request| then(first(request)))
}

/// Returns a stream that is polled inside spans.
fn within<T>(spans: OperationSpans, items: impl Stream<Item = T>) -> impl Stream<Item = T> {
    let mut items = Box::pin(items);
    stream::poll_fn(move |context| spans.in_scope(|| items.poll_next_unpin(context)))
}

/// Returns the reply for a response. `cost` is the cost to show in it.
fn reply_from_response(
    mut response: Response,
    shape: &Shape,
    cost: Option<u64>,
    limits: &Limits,
    transport: Transport,
) -> Reply {
    shape.apply(&mut response);
    let mut reply = Reply::from(response);
    if let Some(cost) = cost {
        reply.add_cost(cost, limits.cost);
    }
    if reply.fits(limits.response_bytes) {
        return reply;
    }
    let allowed = limits.response_bytes as u64;
    let error = OperationError::LimitExceeded { limit: Limit::ResponseBytes, allowed, actual: allowed + 1 };
    observe::operation_error(transport, &error);
    error.into()
}

fn reply_from_panic(panic: &(dyn Any + Send)) -> Reply {
    let text = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
    tracing::error!(panic = text.unwrap_or("no text"), "an operation panicked");
    Reply::internal()
}
