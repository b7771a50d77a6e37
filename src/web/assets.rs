//! The browser console, embedded in the binary. The content security policy ensures that no page sends a request to
//! another host.
//!
//! The build of the console compresses its files, so the server never compresses one while it runs.

use axum::Router;
use axum::extract::Path;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, VARY,
};
use axum::http::{HeaderMap, HeaderName, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use rust_embed::RustEmbed;

use graphql_transport::accepts_gzip;
use graphql_transport::sites::{self, RouteKind, Sites};

#[derive(RustEmbed)]
#[folder = "playground/dist"]
#[allow_missing = true]
struct Console;

const POLICY: &str = "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self' data:; \
     base-uri 'none'; object-src 'none'; frame-ancestors 'none'; form-action 'none'";

/// Caching of files under `assets/`, whose names contain the hash of their content.
const FOREVER: &str = "public, max-age=31536000, immutable";

/// Caching of files whose names stay the same.
const REVALIDATED: &str = "no-cache";
const PAGE: &str = "index.html";

/// Views of the console. Each has an address of its own, and addresses below it for its objects. The page shows the view
/// of its address, so all of them are the same file.
const VIEWS: [&str; 9] =
    ["catalog", "events", "execute", "executions", "graphiql", "outbox", "signed-in", "subscriptions", "system"];

const NOT_BUILT: &str =
    "The console is not part of this build. Run `make playground`, build the server again, and reload.\n";

/// Returns the console's routes.
pub fn routes(sites: &Sites) -> Router {
    let files = Router::new()
        .route("/", get(page))
        .route("/assets/{*path}", get(asset))
        .route("/favicon.svg", get(async |headers: HeaderMap| file("favicon.svg", REVALIDATED, &headers)));
    let routes = VIEWS.iter().fold(files, |routes, view| {
        routes.route(&format!("/{view}"), get(page)).route(&format!("/{view}/{{*object}}"), get(page))
    });
    sites::protect(routes, sites, RouteKind::Pages)
}

async fn page(headers: HeaderMap) -> Response {
    if Console::get(PAGE).is_none() {
        return (StatusCode::NOT_FOUND, NOT_BUILT).into_response();
    }
    file(PAGE, REVALIDATED, &headers)
}

async fn asset(Path(path): Path<String>, headers: HeaderMap) -> Response {
    file(&format!("assets/{path}"), FOREVER, &headers)
}

/// Returns a file, compressed if the build compressed it and the client accepts that.
fn file(path: &str, caching: &'static str, request: &HeaderMap) -> Response {
    let Some(file) = Console::get(path) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let headers: [(HeaderName, &str); 5] = [
        (CONTENT_TYPE, file.metadata.mimetype()),
        (CACHE_CONTROL, caching),
        (CONTENT_SECURITY_POLICY, POLICY),
        (REFERRER_POLICY, "no-referrer"),
        (VARY, "accept-encoding"),
    ];
    let compressed = accepts_gzip(request).then(|| Console::get(&format!("{path}.gz"))).flatten();
    match compressed {
        Some(compressed) => (headers, [(CONTENT_ENCODING, "gzip")], compressed.data).into_response(),
        None => (headers, file.data).into_response(),
    }
}
