//! The routes of the transport.

use std::sync::Arc;

use async_graphql::Executor;
use axum::Router;
use axum::routing::get;

use super::edge::{Edge, TransportState};
use super::sites::{self, RouteKind};
use super::{graphql, sse, websocket};

/// Returns the routes `/graphql` (POST, GET and WebSocket) and `/graphql/stream` (server-sent events). Each is also served
/// with a slash at the end, without a redirect, because clients do not repeat a POST.
pub fn router<E: Executor>(edge: Edge<E>) -> Router {
    let sites = edge.sites.clone();
    let state = TransportState::new(edge);
    let graphql = get(websocket::upgrade_or_get::<E>).post(graphql::serve::<E>).fallback(graphql::refuse_method);
    let stream = get(sse::serve::<E>).post(sse::serve::<E>).fallback(graphql::refuse_method);
    let mut routes: Router<Arc<TransportState<E>>> = Router::new();
    for slash in ["", "/"] {
        routes = routes.route(&format!("/graphql{slash}"), graphql.clone());
        routes = routes.route(&format!("/graphql/stream{slash}"), stream.clone());
    }
    sites::protect(routes.with_state(state), &sites, RouteKind::Api)
}
