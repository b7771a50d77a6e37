//! Admission of callers by the application, and the terms on which they are admitted.

use std::future::pending;
use std::sync::Arc;

use async_graphql::Request;
use axum::http::{Extensions, HeaderMap};
use futures::future::BoxFuture;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

/// Attaches the data of one operation to its request, such as loaders. Called once per operation, just before it runs.
pub type Prepare = Arc<dyn Fn(Request) -> Request + Send + Sync>;

/// Admits a caller: once per HTTP request, and once per WebSocket at its `connection_init`.
pub type Admit = Arc<dyn Fn(Caller) -> BoxFuture<'static, Result<Admitted, Refusal>> + Send + Sync>;

/// Terms on which a caller is admitted.
#[derive(Clone)]
pub struct Admitted {
    /// Applied to each of the caller's operations, before the edge's own [`Prepare`].
    pub prepare: Prepare,
    /// Stable name under which the caller's requests and live connections are counted, such as its subject. If absent,
    /// they are counted under the peer's address.
    pub subject: Option<Arc<str>>,
    /// Time at which the caller's sockets close with 4403 and its event streams end.
    pub expires_at: Option<Instant>,
    /// Cancelled when the admission is withdrawn, such as when a token is removed. Live connections then end as on
    /// expiry.
    pub revoked: CancellationToken,
    /// Permissions for restricted parts of the transport.
    pub permits: Permits,
}

/// Permissions for parts of the transport.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Permits {
    /// Read the schema: `__schema` and `__type`.
    pub introspection: bool,
    /// Run documents that are not in the manifest while it is enforced.
    pub any_document: bool,
    /// Read the application's metrics.
    pub metrics: bool,
}

impl Permits {
    /// All permissions.
    pub const ALL: Self = Self { introspection: true, any_document: true, metrics: true };
}

impl Admitted {
    /// Returns the admission of an anonymous caller: without expiry and with all permits.
    #[must_use]
    pub fn anonymous(prepare: Prepare) -> Self {
        Self { prepare, subject: None, expires_at: None, revoked: CancellationToken::new(), permits: Permits::ALL }
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

/// Data from which the application identifies a caller.
#[derive(Debug, Clone, Default)]
pub struct Caller {
    /// The headers of the HTTP request or the WebSocket handshake.
    pub headers: HeaderMap,
    /// Data that outer layers attached to the request, such as the peer's address.
    pub extensions: Extensions,
    /// The payload of a WebSocket's `connection_init`.
    pub init: Option<serde_json::Map<String, serde_json::Value>>,
}

/// Reason a caller is not admitted. Sent as status 401 or 403 over HTTP, and as close code 4403 on a WebSocket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The caller sent no credentials, or invalid ones.
    #[error("Authenticate with a valid token.")]
    Unauthenticated,
    /// The caller is identified, but may not use this server.
    #[error("This caller may not use this server.")]
    Forbidden,
}

impl Refusal {
    /// Returns the stable code for `errors[].extensions.code`.
    #[must_use]
    pub fn code(self) -> &'static str {
        match self {
            Self::Unauthenticated => "UNAUTHENTICATED",
            Self::Forbidden => "FORBIDDEN",
        }
    }
}
