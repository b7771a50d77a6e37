//! The browser console, embedded in the binary. The content security policy ensures that no page sends a request to
//! another host.

use axum::Router;
use axum::extract::Path;
use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY};
use axum::http::{HeaderName, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use rust_embed::{EmbeddedFile, RustEmbed};
use tower_http::compression::CompressionLayer;

use graphql_transport::sites::{self, RouteKind, Sites};

#[derive(RustEmbed)]
#[folder = "playground/dist"]
#[allow_missing = true]
struct Console;

const POLICY: &str = "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self' data:; \
     base-uri 'none'; object-src 'none'; frame-ancestors 'none'; form-action 'none'";

/// Caching of files under `assets/`, whose names contain the hash of their content.
const FOREVER: &str = "public, max-age=31536000, immutable";

const NOT_BUILT: &str =
    "The console is not part of this build. Run `make playground`, build the server again, and reload.\n";

/// Returns the console's routes.
pub fn routes(sites: &Sites) -> Router {
    let routes = Router::new()
        .route("/", get(page))
        .route("/graphiql", get(page))
        .route("/assets/{*path}", get(asset))
        .route("/favicon.svg", get(async || found(Console::get("favicon.svg"), "no-cache")))
        .layer(CompressionLayer::new());
    sites::protect(routes, sites, RouteKind::Pages)
}

async fn page() -> Response {
    match Console::get("index.html") {
        Some(page) => found(Some(page), "no-cache"),
        None => (StatusCode::NOT_FOUND, NOT_BUILT).into_response(),
    }
}

async fn asset(Path(path): Path<String>) -> Response {
    found(Console::get(&format!("assets/{path}")), FOREVER)
}

fn found(file: Option<EmbeddedFile>, caching: &'static str) -> Response {
    let Some(file) = file else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let headers: [(HeaderName, &str); 4] = [
        (CONTENT_TYPE, file.metadata.mimetype()),
        (CACHE_CONTROL, caching),
        (CONTENT_SECURITY_POLICY, POLICY),
        (REFERRER_POLICY, "no-referrer"),
    ];
    (headers, file.data).into_response()
}
