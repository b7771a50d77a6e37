//! The routes of the transport.

use async_graphql::Executor;
use axum::Router;
use axum::routing::get;

use super::edge::{Edge, TransportState};
use super::sites::{self, RouteKind};
use super::{graphql, sse, websocket};

/// Returns the routes `/graphql` (POST, GET and WebSocket) and `/graphql/stream` (server-sent events).
pub fn router<E: Executor>(edge: Edge<E>) -> Router {
    let sites = edge.sites.clone();
    let state = TransportState::new(edge);
    let graphql = get(websocket::upgrade_or_get::<E>).post(graphql::serve::<E>).fallback(graphql::refuse_method);
    let stream = get(sse::serve::<E>).post(sse::serve::<E>).fallback(graphql::refuse_method);
    let routes = Router::new().route("/graphql", graphql).route("/graphql/stream", stream).with_state(state);
    sites::protect(routes, &sites, RouteKind::Api)
}
