//! Host names under which the server is reached, and sites whose pages may use it.
//!
//! A browser sends `Origin` with every WebSocket handshake and every cross-site POST, and `Sec-Fetch-Site` with every
//! request; programs send neither. So a page of another site can't use this server through its visitor's browser,
//! unless its origin is allowed. An attacker may also let a name of its own resolve to this server's address (DNS
//! rebinding). Its pages then count as the same site, and only the list of host names keeps them out.
//!
//! [`Sites`] is the only definition of both lists. The checks of requests and the CORS headers use it.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::header::{self, CACHE_CONTROL, X_CONTENT_TYPE_OPTIONS};
use axum::http::uri::Authority;
use axum::http::{HeaderName, HeaderValue, Method, Uri};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use tower_http::cors::{AllowHeaders, AllowOrigin, CorsLayer};

use super::media::Media;
use super::rejection::RequestRejection;
use super::transport::Transport;

/// Host names and origins that are served.
#[derive(Debug, Clone, Default)]
pub struct Sites {
    /// Origins of other sites whose pages may use this server, such as `https://console.example.org`.
    pub origins: Vec<String>,
    /// Host names that are served, without ports; empty serves any name. A server that does not authenticate its
    /// callers needs this list.
    pub hosts: Vec<String>,
}

/// Purpose of a group of routes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RouteKind {
    /// The API: for pages of this server and of the allowed origins, and for programs.
    Api,
    /// Probes and metrics: for programs.
    Probes,
    /// Pages and their files: other sites may link to them.
    Pages,
}

/// Adds layers to routes that refuse requests which `sites` does not allow, respond to preflights, and set the security
/// headers.
pub fn protect(routes: Router, sites: &Sites, for_use: RouteKind) -> Router {
    let sites = Arc::new(sites.clone());
    let routes =
        if for_use == RouteKind::Api && !sites.origins.is_empty() { routes.layer(cors(&sites)) } else { routes };
    routes.layer(from_fn_with_state((sites, for_use), guard))
}

async fn guard(State((sites, for_use)): State<(Arc<Sites>, RouteKind)>, request: Request, next: Next) -> Response {
    let mut response = match sites.check(&request, for_use) {
        Ok(()) => next.run(request).await,
        Err(rejection) => {
            let (parts, _) = request.into_parts();
            rejection.refuse(Transport::of(&parts), Media::negotiate(&parts.headers).unwrap_or(Media::Json))
        }
    };
    let headers = response.headers_mut();
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if for_use != RouteKind::Pages && !headers.contains_key(CACHE_CONTROL) {
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
    response
}

/// Returns the layer that allows cross-origin requests of the allowed origins, with any headers: libraries of clients add
/// their own, such as `baggage`. Callers send tokens in a header, so the browser's credentials are not allowed.
fn cors(sites: &Arc<Sites>) -> CorsLayer {
    let sites = Arc::clone(sites);
    CorsLayer::new()
        .allow_origin(AllowOrigin::predicate(move |origin, _| origin.to_str().is_ok_and(|origin| sites.lists(origin))))
        .allow_methods([Method::GET, Method::POST])
        .allow_headers(AllowHeaders::mirror_request())
        .expose_headers([REQUEST_ID, header::RETRY_AFTER, header::WWW_AUTHENTICATE])
        .max_age(PREFLIGHT_AGE)
}

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
/// Time for which a browser may cache the response to a preflight.
const PREFLIGHT_AGE: Duration = Duration::from_mins(10);

impl Sites {
    fn check(&self, request: &Request, for_use: RouteKind) -> Result<(), RequestRejection> {
        let host = RequestHost::of(request).filter(|host| self.serves(host)).ok_or(RequestRejection::Host)?;
        let same_site = for_use == RouteKind::Pages || self.same_site(request, &host);
        if same_site { Ok(()) } else { Err(RequestRejection::CrossSite) }
    }

    fn serves(&self, host: &RequestHost<'_>) -> bool {
        let host = match host {
            RequestHost::Absent => None,
            RequestHost::Named(text) => text.parse::<Authority>().ok(),
        };
        let plain = |host: &str| host.trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase();
        self.hosts.is_empty()
            || host.is_some_and(|host| self.hosts.iter().any(|known| plain(known) == plain(host.host())))
    }

    fn same_site(&self, request: &Request, host: &RequestHost<'_>) -> bool {
        if !request.headers().contains_key(header::ORIGIN) {
            return text(request, &FETCH_SITE) != Some("cross-site");
        }
        text(request, &header::ORIGIN).is_some_and(|origin| {
            let own = match host {
                RequestHost::Absent => false,
                RequestHost::Named(host) => authority(origin).is_some_and(|origin| origin.eq_ignore_ascii_case(host)),
            };
            own || self.lists(origin)
        })
    }

    fn lists(&self, origin: &str) -> bool {
        self.origins.iter().any(|known| known.eq_ignore_ascii_case(origin))
    }
}

/// The host and port that a request names.
enum RequestHost<'a> {
    /// No host, as in HTTP/1.0.
    Absent,
    Named(&'a str),
}

impl<'a> RequestHost<'a> {
    /// Reads the host from `:authority` or an absolute target, and from `Host`. `None` if they differ, if `Host` is
    /// repeated, or if it contains user info, because a proxy may read such a request differently.
    fn of(request: &'a Request) -> Option<Self> {
        let target = request.uri().authority().map(Authority::as_str);
        let mut headers = request.headers().get_all(header::HOST).iter();
        let header = headers.next().map(|host| host.to_str().ok()).map_or(Some(None), |host| host.map(Some))?;
        let agree = target.zip(header).is_none_or(|(target, header)| target.eq_ignore_ascii_case(header));
        if headers.next().is_some() || !agree {
            return None;
        }
        match target.or(header) {
            Some(named) if named.contains('@') => None,
            Some(named) => Some(Self::Named(named)),
            None => Some(Self::Absent),
        }
    }
}

fn text<'a>(request: &'a Request, name: &HeaderName) -> Option<&'a str> {
    request.headers().get(name)?.to_str().ok()
}

/// Returns the host and port of an origin; `None` for the opaque origin `null`.
fn authority(origin: &str) -> Option<String> {
    let uri: Uri = origin.parse().ok()?;
    uri.scheme()?;
    Some(uri.authority()?.to_string())
}
