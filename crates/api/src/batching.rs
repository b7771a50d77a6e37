//! Runs operations so that a loader collects its batch until the operation can't continue, not for a fixed time.
//!
//! A loader's fetch starts when the operation can't continue without it. By then, every row has requested the objects
//! that it refers to. The fetches run within the task of the operation, and end with it. In a live subscription, they end
//! with the item that requested them: an item that reached its deadline leaves no fetch.
//!
//! Each operation, and each item of a subscription, has a budget. A query that exceeds a limit ends at once: its
//! statements are cancelled, and the rows that it has read are freed. A mutation continues, because its response
//! reports the writes; only the fields that would read more fail.

use std::any::TypeId;
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

use super::access::scope_of;
use super::context::Services;
use super::errors::limit_exceeded;
use super::loaders::{BatchLoader, CurrentItem, ItemLoaders, Loaders};
use super::selection::Selection;
use noetl_auth::principal::Principal;
use noetl_storage::budget::{Budget, Exceeded};

/// Executor of a schema. Each operation has its own loaders.
#[derive(Clone)]
pub struct BatchingExecutor<E> {
    schema: E,
    services: Arc<Services>,
}

impl<E: Executor> BatchingExecutor<E> {
    /// Returns an executor of `schema` whose loaders call `services`.
    #[must_use]
    pub fn new(schema: E, services: Services) -> Self {
        Self { schema, services: Arc::new(services) }
    }

    fn prepare(&self, request: Request) -> (Request, Fetches) {
        let fetches = Fetches::default();
        let requested = Arc::clone(&fetches.requested);
        let spawn = move |fetch: BoxFuture<'static, ()>| {
            requested.lock().unwrap_or_else(PoisonError::into_inner).push(fetch.in_current_span().boxed());
        };
        // Without a principal there is no loader. The guards refuse such an operation before.
        let Some(principal) = principal(&request) else { return (request, fetches) };
        let loaders = Loaders { services: Arc::clone(&self.services), scope: scope_of(principal) };
        let loaders = ItemLoaders { loaders, item: fetches.item.clone() };
        let loader: BatchLoader = DataLoader::new(loaders, spawn).delay(Duration::ZERO);
        (request.data(loader), fetches)
    }

    fn run<'a>(
        &self,
        operation: BoxStream<'a, Response>,
        fetches: Fetches,
        caller: Option<Arc<str>>,
        ends_at_limit: bool,
    ) -> RunningOperation<'a> {
        let budget = Budget::new(self.services.replica.budget, caller);
        RunningOperation { operation, fetches, operation_waker: Arc::default(), budget, ends_at_limit }
    }
}

impl<E: Executor> Executor for BatchingExecutor<E> {
    async fn execute(&self, mut request: Request) -> Response {
        let (ends_at_limit, caller) = (is_query(&mut request), caller(&request));
        let (request, fetches) = self.prepare(request);
        let response = stream::once(self.schema.execute(request).boxed());
        self.run(response.boxed(), fetches, caller, ends_at_limit).next().await.unwrap_or_default()
    }

    fn execute_stream(&self, mut request: Request, session: Option<Arc<Data>>) -> BoxStream<'static, Response> {
        let variables = std::mem::take(&mut request.variables);
        let selection = request.parsed_query().ok().and_then(|document| Selection::of(document, &variables));
        request.variables = variables;
        if let Some(selection) = selection {
            request = request.data(selection);
        }
        let caller = caller(&request);
        let (request, fetches) = self.prepare(request);
        let operation = self.schema.execute_stream(request, session);
        self.run(operation, fetches, caller, false).boxed()
    }
}

fn principal(request: &Request) -> Option<&Arc<Principal>> {
    request.data.get(&TypeId::of::<Arc<Principal>>())?.downcast_ref()
}

/// Returns the subject of an authenticated caller.
fn caller(request: &Request) -> Option<Arc<str>> {
    principal(request).filter(|principal| principal.authenticated).map(|principal| Arc::clone(&principal.subject))
}

/// Returns whether all operations of a document are queries.
fn is_query(request: &mut Request) -> bool {
    let document = request.parsed_query();
    document.is_ok_and(|document| {
        document.operations.iter().all(|(_, operation)| operation.node.ty == OperationType::Query)
    })
}

/// Returns the response of a query that exceeded a limit.
fn limit_response(exceeded: Exceeded) -> Response {
    let error = limit_exceeded(exceeded);
    let error = ServerError { extensions: error.extensions, ..ServerError::new(error.message, None) };
    Response::from_errors(vec![error])
}

/// Fetches that the loaders of an operation have requested.
#[derive(Default)]
struct Fetches {
    requested: Arc<Mutex<Vec<BoxFuture<'static, ()>>>>,
    running: FuturesUnordered<BoxFuture<'static, ()>>,
    /// Item that requests them.
    item: CurrentItem,
}

/// Wakes the task, and records whether the operation woke itself. A long list does so, because it is polled in
/// portions.
#[derive(Default)]
struct OperationWaker {
    woken: AtomicBool,
    task: AtomicWaker,
}

impl Wake for OperationWaker {
    fn wake(self: Arc<Self>) {
        self.woken.store(true, Ordering::Release);
        self.task.wake();
    }
}

/// An operation that runs as far as it can before its fetches start.
struct RunningOperation<'a> {
    operation: Pin<Box<dyn Stream<Item = Response> + Send + 'a>>,
    fetches: Fetches,
    operation_waker: Arc<OperationWaker>,
    budget: Arc<Budget>,
    /// Whether the operation ends when it exceeds a limit.
    ends_at_limit: bool,
}

impl RunningOperation<'_> {
    fn poll_operation(&mut self, cx: &mut Context<'_>) -> Poll<Option<Response>> {
        let polled = self.budget.enter(|| self.operation.poll_next_unpin(cx));
        let exceeded = self.budget.check().err().filter(|_| self.ends_at_limit);
        exceeded.map_or(polled, |exceeded| Poll::Ready(Some(limit_response(exceeded))))
    }
}

impl Stream for RunningOperation<'_> {
    type Item = Response;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Response>> {
        let waker = Waker::from(Arc::clone(&self.operation_waker));
        self.operation_waker.task.register(cx.waker());
        loop {
            self.operation_waker.woken.store(false, Ordering::Release);
            if let Poll::Ready(response) = self.poll_operation(&mut Context::from_waker(&waker)) {
                self.budget.renew();
                self.fetches.end_item(cx);
                return Poll::Ready(response);
            }
            let this = &mut *self;
            // After a fetch has ended, the operation can continue.
            if this.operation_waker.woken.load(Ordering::Acquire)
                || this.budget.enter(|| this.fetches.poll(cx)).is_pending()
            {
                return Poll::Pending;
            }
        }
    }
}

impl Fetches {
    /// Starts the requested fetches. Returns ready when one has ended.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.running.extend(self.requested.lock().unwrap_or_else(PoisonError::into_inner).drain(..));
        match self.running.poll_next_unpin(cx) {
            Poll::Ready(Some(())) => Poll::Ready(()),
            Poll::Ready(None) | Poll::Pending => Poll::Pending,
        }
    }

    /// Ends the fetches of the item. They are polled here, because the operation may not be polled again for long.
    fn end_item(&mut self, cx: &mut Context<'_>) {
        self.item.end();
        while let Poll::Ready(Some(())) = self.running.poll_next_unpin(cx) {}
    }
}
