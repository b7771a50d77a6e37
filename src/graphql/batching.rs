//! Runs operations so that a loader collects its batch until the operation can't continue, not for a fixed time.
//!
//! A loader's fetch starts when the operation can't continue without it. By then, every row has requested the objects
//! that it refers to. The fetches run within the task of the operation, and end with it.
//!
//! Each operation, and each item of a subscription, has a budget. A query that exceeds a limit ends at once: its
//! statements are cancelled, and the rows that it has read are freed. A mutation continues, because its response
//! reports the writes; only the fields that would read more fail.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use async_graphql::dataloader::DataLoader;
use async_graphql::futures_util::stream::BoxStream;
use async_graphql::parser::types::OperationType;
use async_graphql::{Data, Executor, Request, Response, ServerError};
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use futures::task::AtomicWaker;
use futures::{FutureExt, Stream, StreamExt, stream};
use tracing::Instrument;

use super::errors::limit_exceeded;
use super::live::rendered::Selection;
use super::loaders::{BatchLoader, Loaders};
use super::schema::{ControlPlane, Services};
use noetl_storage::budget::{Budget, Exceeded};

/// The schema. Each operation has its own loaders.
#[derive(Clone)]
pub struct Batching {
    schema: ControlPlane,
    services: Services,
}

impl Batching {
    /// Returns an executor of `schema` whose loaders call `services`.
    #[must_use]
    pub fn new(schema: ControlPlane, services: Services) -> Self {
        Self { schema, services }
    }

    fn prepare(&self, request: Request) -> (Request, Fetches) {
        let fetches = Fetches::default();
        let asked = Arc::clone(&fetches.asked);
        let spawn = move |fetch: BoxFuture<'static, ()>| {
            asked.lock().unwrap_or_else(PoisonError::into_inner).push(fetch.in_current_span().boxed());
        };
        let loader: BatchLoader = DataLoader::new(Loaders(self.services.clone()), spawn).delay(Duration::ZERO);
        (request.data(loader), fetches)
    }

    fn drive<'a>(&self, operation: BoxStream<'a, Response>, fetches: Fetches, stops: bool) -> Driven<'a> {
        let budget = Budget::new(self.services.replica.budget);
        Driven { operation, fetches, bell: Arc::default(), budget, stops }
    }
}

impl Executor for Batching {
    async fn execute(&self, mut request: Request) -> Response {
        let stops = is_query(&mut request);
        let (request, fetches) = self.prepare(request);
        let response = stream::once(self.schema.execute(request).boxed());
        self.drive(response.boxed(), fetches, stops).next().await.unwrap_or_default()
    }

    fn execute_stream(&self, mut request: Request, session: Option<Arc<Data>>) -> BoxStream<'static, Response> {
        let variables = std::mem::take(&mut request.variables);
        let selection = request.parsed_query().ok().and_then(|document| Selection::of(document, &variables));
        request.variables = variables;
        if let Some(selection) = selection {
            request = request.data(selection);
        }
        let (request, fetches) = self.prepare(request);
        let operation = self.schema.execute_stream_with_session_data(request, session.unwrap_or_default()).boxed();
        self.drive(operation, fetches, false).boxed()
    }
}

/// Returns whether all operations of a document are queries.
fn is_query(request: &mut Request) -> bool {
    let document = request.parsed_query();
    document.is_ok_and(|document| {
        document.operations.iter().all(|(_, operation)| operation.node.ty == OperationType::Query)
    })
}

/// Returns the response of a query that exceeded a limit.
fn stopped(exceeded: Exceeded) -> Response {
    let error = limit_exceeded(exceeded);
    let error = ServerError { extensions: error.extensions, ..ServerError::new(error.message, None) };
    Response::from_errors(vec![error])
}

/// Fetches that the loaders of an operation have requested.
#[derive(Default)]
struct Fetches {
    asked: Arc<Mutex<Vec<BoxFuture<'static, ()>>>>,
    running: FuturesUnordered<BoxFuture<'static, ()>>,
}

/// Wakes the task, and records whether the operation woke itself. A long list does so, because it is polled in
/// portions.
#[derive(Default)]
struct Bell {
    rung: AtomicBool,
    task: AtomicWaker,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.rung.store(true, Ordering::Release);
        self.task.wake();
    }
}

/// An operation that runs as far as it can before its fetches start.
struct Driven<'a> {
    operation: Pin<Box<dyn Stream<Item = Response> + Send + 'a>>,
    fetches: Fetches,
    bell: Arc<Bell>,
    budget: Arc<Budget>,
    /// Whether the operation ends when it exceeds a limit.
    stops: bool,
}

impl Driven<'_> {
    fn poll_operation(&mut self, cx: &mut Context<'_>) -> Poll<Option<Response>> {
        let polled = self.budget.enter(|| self.operation.poll_next_unpin(cx));
        let exceeded = self.budget.check().err().filter(|_| self.stops);
        exceeded.map_or(polled, |exceeded| Poll::Ready(Some(stopped(exceeded))))
    }
}

impl Stream for Driven<'_> {
    type Item = Response;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Response>> {
        let waker = Waker::from(Arc::clone(&self.bell));
        self.bell.task.register(cx.waker());
        loop {
            self.bell.rung.store(false, Ordering::Release);
            if let Poll::Ready(response) = self.poll_operation(&mut Context::from_waker(&waker)) {
                self.budget.renew();
                return Poll::Ready(response);
            }
            let this = &mut *self;
            // After a fetch has ended, the operation can continue.
            if this.bell.rung.load(Ordering::Acquire) || this.budget.enter(|| this.fetches.poll(cx)).is_pending() {
                return Poll::Pending;
            }
        }
    }
}

impl Fetches {
    /// Starts the requested fetches. Returns ready when one has ended.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.running.extend(self.asked.lock().unwrap_or_else(PoisonError::into_inner).drain(..));
        match self.running.poll_next_unpin(cx) {
            Poll::Ready(Some(())) => Poll::Ready(()),
            Poll::Ready(None) | Poll::Pending => Poll::Pending,
        }
    }
}
