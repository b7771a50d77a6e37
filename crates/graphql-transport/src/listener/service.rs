//! Passes the requests of one connection to the router.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::http::header::{CONNECTION, HeaderValue};
use axum::http::{Request, Response, Version};
use bytes::Bytes;
use futures::future::BoxFuture;
use hyper::body::{Body as HttpBody, Frame, Incoming, SizeHint};
use hyper::service::Service;
use tokio_util::task::TaskTracker;
use tower::ServiceExt;

use super::Shared;
use super::slots::{Busy, ConnectionSlot, Unread};

/// Service that passes the requests of a connection to the router. The connection is busy until the body of each
/// response has been taken.
pub(super) struct Requests {
    pub(super) shared: Arc<Shared>,
    pub(super) slot: ConnectionSlot,
}

impl Service<Request<Incoming>> for Requests {
    type Response = Response<BusyBody>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let busy = self.slot.hold();
        let http2 = request.version() == Version::HTTP_2;
        if http2 {
            self.slot.note_http2();
        }
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(self.slot.peer());
        let response = self.shared.router.clone().oneshot(request);
        let (draining, slot) = (self.shared.draining.clone(), self.slot.clone());
        Box::pin(async move {
            let mut response = response.await?;
            if draining.is_cancelled() && !http2 {
                response.headers_mut().entry(CONNECTION).or_insert(HeaderValue::from_static("close"));
            }
            // HTTP/1 has one response at a time, and the socket watches its progress.
            let unread = http2.then(|| slot.watch_response());
            Ok(response.map(|body| BusyBody { body, unread, _busy: busy }))
        })
    }
}

/// Body of a response that keeps its connection busy.
pub(super) struct BusyBody {
    body: Body,
    unread: Option<Unread>,
    _busy: Busy,
}

impl HttpBody for BusyBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        match &self.unread {
            Some(unread) if polled.is_pending() => unread.wait_for_data(),
            Some(unread) => unread.wait_for_client(),
            None => {}
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Executor that starts the tasks of HTTP/2 streams and tracks them.
#[derive(Debug, Clone)]
pub(super) struct Tracked(pub(super) TaskTracker);

impl<F: Future<Output: Send> + Send + 'static> hyper::rt::Executor<F> for Tracked {
    fn execute(&self, task: F) {
        self.0.spawn(task);
    }
}
