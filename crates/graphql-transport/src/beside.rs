//! Limits of the routes beside the API. They have slots of their own: requests to them never take one of the API's.

use std::sync::Arc;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use tokio::time::timeout;

use super::limits::Limits;
use super::media::Media;
use super::rejection::RequestRejection;
use super::resources::{CallerKey, RequestSlot, ResourceUsage};
use super::transport::Transport;

/// Part of the API's requests that the other routes may have in flight.
const PART: usize = 8;
/// Maximum number of bytes of a body.
const BODY_BYTES: usize = 64 << 10;

#[derive(Clone)]
struct Bounds {
    limits: Limits,
    usage: Arc<ResourceUsage>,
    /// Paths that take no slot. A replica whose probe is refused would be restarted.
    free: &'static [&'static str],
}

/// Returns the routes with the limits of the API: a request has a deadline, its body a size and a time to arrive, and the
/// requests in flight are limited, in total and for each address. Paths in `free` are always served; their work must not
/// wait for anything.
pub fn limited(routes: Router, limits: &Limits, free: &'static [&'static str]) -> Router {
    let limits = Limits { requests: (limits.requests / PART).max(2), body_bytes: BODY_BYTES, ..*limits };
    let bounds = Bounds { limits, usage: ResourceUsage::of_other_routes(&limits), free };
    routes.layer(from_fn_with_state(bounds, serve))
}

async fn serve(State(bounds): State<Bounds>, request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    let transport = Transport::of(&parts);
    let served = bounds.serve(parts, body, next).await;
    served.unwrap_or_else(|rejection| rejection.refuse(transport, Media::Json))
}

impl Bounds {
    async fn serve(&self, parts: Parts, body: Body, next: Next) -> Result<Response, RequestRejection> {
        let is_free = self.free.contains(&parts.uri.path());
        let key = CallerKey::of(parts.extensions.get());
        let slot = (!is_free).then(|| RequestSlot::take(&self.usage, &key)).transpose()?;
        let body = timeout(self.limits.body_timeout, to_bytes(body, BODY_BYTES)).await;
        let body = body.map_err(|_| RequestRejection::BodyTooSlow)?;
        let body = body.map_err(|_| RequestRejection::BodyTooLarge { limit: BODY_BYTES })?;
        let run = next.run(Request::from_parts(parts, Body::from(body)));
        let response = timeout(self.limits.deadline, run).await.map_err(|_| RequestRejection::TooSlow)?;
        drop(slot);
        Ok(response)
    }
}
