//! Requests to an OpenID provider. Each has a time limit and a limit on the size of its response.

use std::time::Duration;

use reqwest::redirect::Policy;
use reqwest::{Client, RequestBuilder, Url};
use serde::Deserialize;
use tokio::time::timeout;

use plain_json::{self as json, Typed};

/// Maximum duration of a request.
const DEADLINE: Duration = Duration::from_secs(5);
/// Maximum number of bytes in a response.
const MAX_BYTES: usize = 1 << 20;

/// Reason why a provider can't be used.
#[derive(Debug, thiserror::Error)]
pub enum BadProvider {
    /// An address is invalid.
    #[error("{0:?} is neither an https:// address nor an http:// address of this machine")]
    Address(String),
    /// The HTTP client can't be created.
    #[error("the HTTP client for the provider can't be created: {0}")]
    Client(#[from] reqwest::Error),
}

/// Reason why a request to the provider failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum FetchError {
    #[error("{0}")]
    Http(#[from] reqwest::Error),
    #[error("it took longer than {DEADLINE:?}")]
    Slow,
    #[error("the response has more than {MAX_BYTES} bytes")]
    TooLarge,
    #[error("the response can't be read: {0}")]
    Malformed(#[from] serde_json::Error),
    #[error("the discovery document names another issuer: {0:?}")]
    OtherIssuer(String),
    #[error(transparent)]
    Provider(#[from] BadProvider),
}

/// The parts of a provider's discovery document that the server uses (OpenID Connect Discovery 1.0, section 3).
#[derive(Debug, Deserialize)]
pub(super) struct Discovery {
    issuer: String,
    pub(super) jwks_uri: String,
    pub(super) authorization_endpoint: Option<String>,
    pub(super) token_endpoint: Option<String>,
}

impl Typed for Discovery {}

/// An OpenID provider. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Provider {
    client: Client,
    pub(super) issuer: String,
}

impl Provider {
    pub(super) fn new(issuer: &str) -> Result<Self, BadProvider> {
        address(issuer)?;
        let client = Client::builder().redirect(Policy::none()).connect_timeout(DEADLINE).build()?;
        Ok(Self { client, issuer: issuer.to_owned() })
    }

    /// Reads the discovery document (OpenID Connect Discovery 1.0, section 4).
    pub(super) async fn discover(&self) -> Result<Discovery, FetchError> {
        let url = format!("{}/.well-known/openid-configuration", self.issuer.trim_end_matches('/'));
        let found: Discovery = self.get(address(&url)?).await?;
        if found.issuer == self.issuer { Ok(found) } else { Err(FetchError::OtherIssuer(found.issuer)) }
    }

    pub(super) async fn get<T: Typed>(&self, url: Url) -> Result<T, FetchError> {
        fetch(self.client.get(url), |_| false).await
    }

    /// Sends a form. A response with the status 400 or 401 is read too, because it says why the provider refused.
    pub(super) async fn post<T: Typed>(&self, url: Url, form: &[(&str, &str)]) -> Result<T, FetchError> {
        fetch(self.client.post(url).form(form), |status| matches!(status, 400 | 401)).await
    }
}

async fn fetch<T: Typed>(request: RequestBuilder, is_read: impl Fn(u16) -> bool) -> Result<T, FetchError> {
    let work = async {
        let response = request.send().await?;
        let mut response = if is_read(response.status().as_u16()) { response } else { response.error_for_status()? };
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await? {
            body.extend_from_slice(&chunk);
            if body.len() > MAX_BYTES {
                return Err(FetchError::TooLarge);
            }
        }
        Ok(json::parse(&body)?)
    };
    timeout(DEADLINE, work).await.unwrap_or(Err(FetchError::Slow))
}

/// Checks an address of the provider. Without TLS an attacker could replace the keys, so plain HTTP is allowed only on
/// this machine.
pub(super) fn address(text: &str) -> Result<Url, BadProvider> {
    let wrong = || BadProvider::Address(text.to_owned());
    let url: Url = text.parse().map_err(|_| wrong())?;
    let local = matches!(url.host_str(), Some("localhost" | "127.0.0.1" | "[::1]"));
    if url.scheme() == "https" || (url.scheme() == "http" && local) { Ok(url) } else { Err(wrong()) }
}
