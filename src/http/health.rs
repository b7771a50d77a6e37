//! What orchestrators and scrapers ask: `/livez`, `/readyz`, `/metrics`.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde::Serialize;

/// Whether the replica should get traffic, and why not.
#[derive(Debug, Clone, Serialize)]
pub struct Readiness {
    /// Whether it should.
    pub ready: bool,
    /// Parts that are down; some of them may leave the replica useful.
    pub down: Vec<String>,
}

/// What the health routes ask the application.
#[derive(Clone)]
pub struct Probes {
    /// Whether the replica should get traffic.
    pub readiness: Arc<dyn Fn() -> Readiness + Send + Sync>,
    /// All metrics in Prometheus' text format.
    pub metrics: Arc<dyn Fn() -> String + Send + Sync>,
}

/// The health routes.
pub fn routes(probes: Probes) -> Router {
    Router::new()
        .route("/livez", get(async || "ok\n"))
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics))
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
