//! Who may come in, and with what: refuses browsers that act for another site, and asks the application to admit the
//! caller.
//!
//! A browser sends `Origin` with every WebSocket handshake and every cross-site POST, and `Sec-Fetch-Site` with every
//! request; programs send neither. So a page of another site can neither read nor drive this server through the browser of
//! somebody who can reach it, unless its origin is among the allowed [`Sites`].

use std::future::pending;
use std::sync::Arc;

use async_graphql::Request;
use axum::http::request::Parts;
use axum::http::uri::Authority;
use axum::http::{Extensions, HeaderMap, HeaderName, Uri, header};
use futures::future::BoxFuture;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

/// Attaches to a request what lives for one operation, such as loaders. Called once per operation, just before it runs.
pub type Prepare = Arc<dyn Fn(Request) -> Request + Send + Sync>;

/// Admits a caller: once per HTTP request, and once per WebSocket at its `connection_init`.
pub type Admit = Arc<dyn Fn(Caller) -> BoxFuture<'static, Result<Admitted, Refusal>> + Send + Sync>;

/// Terms on which a caller is admitted.
#[derive(Clone)]
pub struct Admitted {
    /// Applied to each of the caller's operations, before the edge's own [`Prepare`].
    pub prepare: Prepare,
    /// Stable name under which the caller's requests and live connections are counted, such as its subject. Without one
    /// they are counted under the peer's address.
    pub subject: Option<Arc<str>>,
    /// Time at which the caller's sockets close with 4403 and its event streams end.
    pub expires_at: Option<Instant>,
    /// Cancelled when the admission is withdrawn, such as when a token is removed; it ends live connections like the expiry.
    pub revoked: CancellationToken,
}

impl Admitted {
    /// An anonymous caller, admitted without an end.
    #[must_use]
    pub fn anonymous(prepare: Prepare) -> Self {
        Self { prepare, subject: None, expires_at: None, revoked: CancellationToken::new() }
    }

    /// Waits until the admission ends.
    pub(super) async fn ended(&self) {
        let expired = async {
            match self.expires_at {
                Some(at) => sleep_until(at).await,
                None => pending().await,
            }
        };
        tokio::select! {
            () = expired => {}
            () = self.revoked.cancelled() => {}
        }
    }
}

/// What a transport knows of who is calling.
#[derive(Debug, Clone, Default)]
pub struct Caller {
    /// The headers of the HTTP request or the WebSocket handshake.
    pub headers: HeaderMap,
    /// What outer layers attached to the request, such as the peer's address.
    pub extensions: Extensions,
    /// The payload of a WebSocket's `connection_init`.
    pub init: Option<serde_json::Map<String, serde_json::Value>>,
}

/// Why a caller is not admitted. Over HTTP 401 and 403, on a WebSocket the close code 4403.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The caller did not show who it is, or what it showed is not valid.
    #[error("Authenticate with a valid token.")]
    Unauthenticated,
    /// The caller is known and may not use this server.
    #[error("This caller may not use this server.")]
    Forbidden,
}

impl Refusal {
    /// The stable code of `errors[].extensions.code`.
    #[must_use]
    pub fn code(self) -> &'static str {
        match self {
            Self::Unauthenticated => "UNAUTHENTICATED",
            Self::Forbidden => "FORBIDDEN",
        }
    }
}

impl From<&Parts> for Caller {
    fn from(parts: &Parts) -> Self {
        Self { headers: parts.headers.clone(), extensions: parts.extensions.clone(), init: None }
    }
}

/// The sites whose pages may use this server through their visitors' browsers.
#[derive(Debug, Clone, Default)]
pub struct Sites {
    /// Origins of other sites, such as `https://console.example.org`.
    pub origins: Vec<String>,
    /// The host names, without ports, under which this server is addressed; empty for any. A server that asks nobody to
    /// authenticate needs them: a site may point a name of its own at this server's address, and is then no other site.
    pub hosts: Vec<String>,
}

impl Sites {
    /// Whether a request may come in.
    pub(super) fn admit(&self, parts: &Parts) -> bool {
        let host = text(parts, &header::HOST).or(parts.uri.authority().map(Authority::as_str));
        self.addressed(host) && self.same_site(parts, host)
    }

    fn addressed(&self, host: Option<&str>) -> bool {
        let host = host.and_then(|host| host.parse::<Authority>().ok());
        self.hosts.is_empty()
            || host.is_some_and(|host| self.hosts.iter().any(|known| known.eq_ignore_ascii_case(host.host())))
    }

    fn same_site(&self, parts: &Parts, host: Option<&str>) -> bool {
        if !parts.headers.contains_key(header::ORIGIN) {
            return text(parts, &FETCH_SITE) != Some("cross-site");
        }
        text(parts, &header::ORIGIN).is_some_and(|origin| {
            let own = authority(origin).zip(host).is_some_and(|(origin, host)| origin.eq_ignore_ascii_case(host));
            own || self.origins.iter().any(|known| known.eq_ignore_ascii_case(origin))
        })
    }
}

const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

fn text<'a>(parts: &'a Parts, name: &HeaderName) -> Option<&'a str> {
    parts.headers.get(name)?.to_str().ok()
}

/// The host and port of an origin; none of the opaque origin `null`.
fn authority(origin: &str) -> Option<String> {
    let uri: Uri = origin.parse().ok()?;
    uri.scheme()?;
    Some(uri.authority()?.to_string())
}
