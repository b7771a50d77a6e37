//! What orchestrators, scrapers and scalers ask: `/livez`, `/readyz`, `/metrics`, `/scaler/outbox`.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use futures::future::BoxFuture;
use serde::Serialize;
use serde_json::json;

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

/// The health routes.
pub fn routes(probes: Probes) -> Router {
    Router::new()
        .route("/livez", get(async || "ok\n"))
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics))
        .route("/scaler/outbox", get(outbox))
        .with_state(probes)
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
