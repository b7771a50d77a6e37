//! Routes for orchestrators, metric scrapers and autoscalers: `/livez`, `/readyz`, `/metrics`,
//! `/scaler/outbox`, `/scaler/subscriptions`.

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

use graphql_transport::sites::{self, RouteKind, Sites};
use graphql_transport::{Admit, Caller, Refusal};

/// Paths of the probes, which need no slot of a request.
pub const FREE: [&str; 2] = ["/livez", "/readyz"];

/// Readiness of the replica for traffic.
#[derive(Debug, Clone, Serialize)]
pub struct Readiness {
    /// Whether the replica should get traffic.
    pub ready: bool,
    /// Parts that are down. A replica with parts down may still be ready.
    pub down: Vec<String>,
}

/// Outbox backlog, for an autoscaler.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OutboxBacklog {
    /// Number of rows to deliver on the reachable shards, counted up to 100,000 per shard: claimable rows, and those that
    /// wait for their next attempt.
    pub pending: i64,
    /// Age in seconds of the oldest of them; 0 if there is none.
    pub oldest_age_seconds: f64,
    /// Shards that could not be reached.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unavailable_shards: Vec<u16>,
}

/// Active source subscriptions and their backlog, for an autoscaler.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SubscriptionBacklog {
    /// Number of active subscriptions on the reachable shards, up to 1000 per shard.
    pub active: usize,
    /// Number of executions that the active subscriptions started and that have not ended. Up to 100,000 executions are
    /// counted per shard.
    pub backlog: i64,
    /// The active subscriptions, ordered by path.
    pub subscriptions: Vec<ActiveSubscription>,
    /// Shards that could not be reached.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unavailable_shards: Vec<u16>,
}

/// An active source subscription and its backlog.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ActiveSubscription {
    /// Id of the subscription.
    pub id: String,
    /// Catalog path.
    pub path: String,
    /// Number of executions that it started and that have not ended.
    pub backlog: i64,
}

/// The backlog could not be read, because no shard is available.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("no shard is available")]
pub struct NoShardAvailable;

/// Functions by which the health routes query the application.
#[derive(Clone)]
pub struct Probes {
    /// Returns the readiness of the replica.
    pub readiness: Arc<dyn Fn() -> Readiness + Send + Sync>,
    /// Returns all metrics in Prometheus' text format.
    pub metrics: Arc<dyn Fn() -> String + Send + Sync>,
    /// Returns the outbox backlog.
    pub outbox: Arc<dyn Fn() -> BoxFuture<'static, Result<OutboxBacklog, NoShardAvailable>> + Send + Sync>,
    /// Returns the active source subscriptions and their backlog.
    pub subscriptions: Arc<dyn Fn() -> BoxFuture<'static, Result<SubscriptionBacklog, NoShardAvailable>> + Send + Sync>,
}

/// Conditions under which a listener serves the health routes.
#[derive(Clone)]
pub struct Terms {
    /// Host names that are served.
    pub sites: Sites,
    /// Admits callers of `/metrics` and of the routes for autoscalers; `None` admits every caller. `/livez` and `/readyz`
    /// are open.
    pub admit: Option<Admit>,
}

/// Returns the health routes of a listener.
pub fn routes(probes: Probes, terms: &Terms) -> Router {
    let measured = Router::new().route("/metrics", get(metrics));
    let measured = measured.route("/scaler/outbox", get(outbox)).route("/scaler/subscriptions", get(subscriptions));
    let measured = measured.with_state(probes.clone());
    let measured = match &terms.admit {
        Some(admit) => measured.layer(from_fn_with_state(Arc::clone(admit), admitted)),
        None => measured,
    };
    let open = Router::new().route("/livez", get(async || "ok\n")).route("/readyz", get(ready)).with_state(probes);
    sites::protect(open.merge(measured), &terms.sites, RouteKind::Probes)
}

async fn admitted(State(admit): State<Admit>, request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    let caller = Caller { headers: parts.headers.clone(), extensions: parts.extensions.clone(), init: None };
    let refusal = match admit(caller).await {
        Ok(admitted) if admitted.permits.metrics => return next.run(Request::from_parts(parts, body)).await,
        Ok(_) => Refusal::Forbidden,
        Err(refusal) => refusal,
    };
    refusal.into_response()
}

async fn ready(State(probes): State<Probes>) -> Response {
    let readiness = (probes.readiness)();
    let status = if readiness.ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, Json(readiness)).into_response()
}

async fn metrics(State(probes): State<Probes>) -> Response {
    ([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], (probes.metrics)()).into_response()
}

async fn outbox(State(probes): State<Probes>) -> Response {
    backlog((probes.outbox)().await)
}

async fn subscriptions(State(probes): State<Probes>) -> Response {
    backlog((probes.subscriptions)().await)
}

/// Returns the backlog of the reachable shards, or 503 if no shard is reachable, so that an autoscaler keeps its scale.
fn backlog(read: Result<impl Serialize, NoShardAvailable>) -> Response {
    match read {
        Ok(backlog) => Json(backlog).into_response(),
        Err(error) => (StatusCode::SERVICE_UNAVAILABLE, Json(json!({ "error": error.to_string() }))).into_response(),
    }
}
