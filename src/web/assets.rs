//! The browser console, embedded in the binary. The content security policy ensures that no page sends a request to
//! another host.
//!
//! The build of the console compresses its files, so the server never compresses one while it runs.
//!
//! All addresses in the page are relative to its `<base>`, which the server writes: it names the path below which the
//! browser reaches the server.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, State};
use axum::http::header::{
    ACCEPT, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, VARY,
};
use axum::http::{HeaderMap, HeaderName, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use rust_embed::{Metadata, RustEmbed};

use graphql_transport::accepts_gzip;
use graphql_transport::sites::{self, RouteKind, Sites};

#[derive(RustEmbed)]
#[folder = "playground/dist"]
#[allow_missing = true]
struct Console;

const POLICY: &str = "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self' data:; \
     base-uri 'self'; object-src 'none'; frame-ancestors 'none'; form-action 'none'";

/// Caching of files under `assets/`, whose names contain the hash of their content.
const FOREVER: &str = "public, max-age=31536000, immutable";

/// Caching of files whose names stay the same.
const REVALIDATED: &str = "no-cache";
const PAGE: &str = "index.html";

/// Element of the built page that names the path of the server.
const BASE: &str = r#"<base href="/" />"#;

/// Views of the console. Each has an address of its own, and addresses below it for its objects. The page shows the view
/// of its address, so all of them are the same file.
const VIEWS: [&str; 10] = [
    "audit",
    "catalog",
    "events",
    "execute",
    "executions",
    "graphiql",
    "outbox",
    "signed-in",
    "subscriptions",
    "system",
];

const NOT_BUILT: &str =
    "The console is not part of this build. Run `make playground`, build the server again, and reload.\n";

/// Returns the console's routes, and a response for each other address. The base path is the one of the settings; empty:
/// none is configured.
pub fn routes(sites: &Sites, base_path: &str) -> Router {
    let files = Router::<Arc<str>>::new()
        .route("/", get(page))
        .route("/assets/{*path}", get(asset))
        .route("/favicon.svg", get(async |headers: HeaderMap| file("favicon.svg", REVALIDATED, &headers)));
    let routes = VIEWS.iter().fold(files, |routes, view| {
        routes.route(&format!("/{view}"), get(page)).route(&format!("/{view}/{{*object}}"), get(page))
    });
    sites::protect(routes.fallback(unknown).with_state(Arc::from(base_path)), sites, RouteKind::Pages)
}

/// Returns the page to a browser that opens an address that does not exist, with the status 404. A program gets no page.
async fn unknown(base_path: State<Arc<str>>, address: Uri, headers: HeaderMap) -> Response {
    let accepts_page =
        headers.get_all(ACCEPT).iter().any(|list| list.to_str().is_ok_and(|list| list.contains("text/html")));
    if !accepts_page {
        return StatusCode::NOT_FOUND.into_response();
    }
    (StatusCode::NOT_FOUND, page(base_path, address).await).into_response()
}

async fn page(State(base_path): State<Arc<str>>, address: Uri) -> Response {
    let Some(page) = Console::get(PAGE) else {
        return (StatusCode::NOT_FOUND, NOT_BUILT).into_response();
    };
    let base = format!(r#"<base href="{}" />"#, path_of_server(address.path(), &base_path));
    let text = String::from_utf8_lossy(&page.data).replacen(BASE, &base, 1);
    (headers(&page.metadata, REVALIDATED), text).into_response()
}

/// Returns the path of the server for the page at a path. Without a configured one, it is relative to the page, so that
/// it is also right behind a proxy that strips a prefix from the path.
fn path_of_server(page: &str, base_path: &str) -> String {
    if !base_path.is_empty() {
        return format!("{base_path}/");
    }
    match page.matches('/').count() {
        0 | 1 => "./".to_owned(),
        slashes => "../".repeat(slashes - 1),
    }
}

async fn asset(Path(path): Path<String>, headers: HeaderMap) -> Response {
    file(&format!("assets/{path}"), FOREVER, &headers)
}

/// Returns a file, compressed if the build compressed it and the client accepts that.
fn file(path: &str, caching: &'static str, request: &HeaderMap) -> Response {
    let Some(file) = Console::get(path) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let headers = headers(&file.metadata, caching);
    let compressed = accepts_gzip(request).then(|| Console::get(&format!("{path}.gz"))).flatten();
    match compressed {
        Some(compressed) => (headers, [(CONTENT_ENCODING, "gzip")], compressed.data).into_response(),
        None => (headers, file.data).into_response(),
    }
}

fn headers<'a>(file: &'a Metadata, caching: &'static str) -> [(HeaderName, &'a str); 5] {
    [
        (CONTENT_TYPE, file.mimetype()),
        (CACHE_CONTROL, caching),
        (CONTENT_SECURITY_POLICY, POLICY),
        (REFERRER_POLICY, "no-referrer"),
        (VARY, "accept-encoding"),
    ]
}
