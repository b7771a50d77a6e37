//! What orchestrators, scrapers and scalers ask: `/livez`, `/readyz`, `/metrics`, `/scaler/outbox`.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use futures::future::BoxFuture;
use serde::Serialize;
use serde_json::json;

use super::admission::{Admit, Caller, Refusal};
use super::fault::Fault;
use super::sites::{self, Sites, Use};

/// Whether the replica should get traffic, and why not.
#[derive(Debug, Clone, Serialize)]
pub struct Readiness {
    /// Whether it should.
    pub ready: bool,
    /// Parts that are down; some of them may leave the replica useful.
    pub down: Vec<String>,
}

/// How much waits in the outbox, for a scaler.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OutboxBacklog {
    /// Rows that are claimable now, on the shards that can be reached; up to 100,000 of each are counted.
    pub pending: i64,
    /// Since when the oldest of them waits; 0 when there is none.
    pub oldest_age_seconds: f64,
    /// Shards that could not be asked.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unavailable_shards: Vec<u16>,
}

/// An answer that takes a question elsewhere; `Err` says why there is none.
pub type Asked<T> = BoxFuture<'static, Result<T, String>>;

/// What the health routes ask the application.
#[derive(Clone)]
pub struct Probes {
    /// Whether the replica should get traffic.
    pub readiness: Arc<dyn Fn() -> Readiness + Send + Sync>,
    /// All metrics in Prometheus' text format.
    pub metrics: Arc<dyn Fn() -> String + Send + Sync>,
    /// How much waits in the outbox.
    pub outbox: Arc<dyn Fn() -> Asked<OutboxBacklog> + Send + Sync>,
}

/// The terms on which a listener answers probes.
#[derive(Clone)]
pub struct Terms {
    /// Host names that are served.
    pub sites: Sites,
    /// Admits those that read metrics and backlogs; none admits every caller. `/livez` and `/readyz` are open.
    pub admit: Option<Admit>,
}

/// The health routes of a listener.
pub fn routes(probes: Probes, terms: &Terms) -> Router {
    let measured = Router::new().route("/metrics", get(metrics)).route("/scaler/outbox", get(outbox));
    let measured = measured.with_state(probes.clone());
    let measured = match &terms.admit {
        Some(admit) => measured.layer(from_fn_with_state(Arc::clone(admit), admitted)),
        None => measured,
    };
    let open = Router::new().route("/livez", get(async || "ok\n")).route("/readyz", get(ready)).with_state(probes);
    sites::protect(open.merge(measured), &terms.sites, Use::Probes)
}

async fn admitted(State(admit): State<Admit>, request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    let refusal = match admit(Caller::from(&parts)).await {
        Ok(admitted) if admitted.permits.metrics => return next.run(Request::from_parts(parts, body)).await,
        Ok(_) => Refusal::Forbidden,
        Err(refusal) => refusal,
    };
    Fault::from(refusal).into_response()
}

async fn ready(State(probes): State<Probes>) -> Response {
    let readiness = (probes.readiness)();
    let status = if readiness.ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, Json(readiness)).into_response()
}

async fn metrics(State(probes): State<Probes>) -> Response {
    ([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], (probes.metrics)()).into_response()
}

/// A part that is missing makes the number smaller; 503 only where there is no number, so that a scaler keeps its own.
async fn outbox(State(probes): State<Probes>) -> Response {
    match (probes.outbox)().await {
        Ok(backlog) => Json(backlog).into_response(),
        Err(reason) => (StatusCode::SERVICE_UNAVAILABLE, Json(json!({ "error": reason }))).into_response(),
    }
}
