//! Sign-in of the console at the provider, by the authorization code flow with PKCE (RFC 6749, section 4.1; RFC 7636).
//!
//! The console sends the user to the provider and receives a code. The server exchanges the code for a token, so that
//! the page sends no request to another host, and so that the client's secret stays in the server. The server keeps
//! nothing of a sign-in.

use std::sync::Arc;
use std::time::Duration;

use moka::future::Cache;
use serde::Deserialize;

use super::provider::{Discovery, FetchError, Provider, address};
use super::{BadProvider, Oidc};
use plain_json::Typed;

/// Maximum age of a discovery document in use. Anyone can begin a sign-in, and must not cause a request to the provider
/// each time.
const DISCOVERY_TTL: Duration = Duration::from_secs(30);

/// Settings of the console as a client of the provider.
#[derive(Clone)]
pub struct ClientSettings {
    /// Id of the client.
    pub id: String,
    /// Secret of a confidential client; `None` for a public one.
    pub secret: Option<String>,
    /// Requested scopes, separated by spaces.
    pub scopes: String,
}

impl std::fmt::Debug for ClientSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClientSettings").field("id", &self.id).field("scopes", &self.scopes).finish_non_exhaustive()
    }
}

/// Parameters with which the console sends a user to the provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invitation {
    /// Address of the provider's authorization endpoint.
    pub authorization_endpoint: String,
    /// Id of the client.
    pub client_id: String,
    /// Requested scopes, separated by spaces.
    pub scopes: String,
}

/// A code that the provider sent to the console.
#[derive(Debug, Clone, Copy)]
pub struct Code<'a> {
    /// The code.
    pub code: &'a str,
    /// The secret whose hash the authorization request contained.
    pub verifier: &'a str,
    /// Address to which the provider sent the code.
    pub redirect_uri: &'a str,
}

/// Maximum number of characters of a provider's text.
const MAX_REASON: usize = 200;

/// Reason why a sign-in failed.
#[derive(Debug, thiserror::Error)]
pub enum SignInError {
    /// The provider does not respond as it should.
    #[error("the provider can't be used: {0}")]
    Unavailable(String),
    /// The provider refused the code.
    #[error("the provider refused the sign-in: {0}")]
    Refused(String),
    /// The provider sent no token that this server accepts.
    #[error("the provider sent no token that this server accepts: {0}")]
    NoToken(String),
}

impl From<FetchError> for SignInError {
    fn from(error: FetchError) -> Self {
        Self::Unavailable(error.to_string())
    }
}

impl From<BadProvider> for SignInError {
    fn from(error: BadProvider) -> Self {
        Self::Unavailable(error.to_string())
    }
}

/// Response of the provider's token endpoint (RFC 6749, sections 5.1 and 5.2).
#[derive(Deserialize)]
struct TokenResponse {
    access_token: Option<String>,
    id_token: Option<String>,
    error: Option<String>,
    error_description: Option<String>,
}

impl Typed for TokenResponse {}

/// Returns the start of the provider's text, without line breaks and other control characters: it is logged and shown.
fn one_line(text: &str) -> String {
    text.chars().take(MAX_REASON).map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
}

/// Sign-in at one provider.
#[derive(Debug)]
pub struct SignIn {
    provider: Provider,
    client: ClientSettings,
    oidc: Arc<Oidc>,
    discovered: Cache<(), Arc<Discovery>>,
}

impl SignIn {
    /// Creates the sign-in of a client. `oidc` verifies the tokens.
    pub fn new(issuer: &str, client: ClientSettings, oidc: Arc<Oidc>) -> Result<Self, BadProvider> {
        let discovered = Cache::builder().time_to_live(DISCOVERY_TTL).build();
        Ok(Self { provider: Provider::new(issuer)?, client, oidc, discovered })
    }

    /// Returns the provider's discovery document, at most [`DISCOVERY_TTL`] old. Concurrent callers wait for the same
    /// request. A failure is not kept.
    async fn discovered(&self) -> Result<Arc<Discovery>, SignInError> {
        let discovery = async { self.provider.discover().await.map(Arc::new) };
        let found = self.discovered.try_get_with((), discovery).await;
        found.map_err(|error: Arc<FetchError>| SignInError::Unavailable(error.to_string()))
    }

    /// Returns the parameters with which the console begins a sign-in.
    pub async fn invitation(&self) -> Result<Invitation, SignInError> {
        let endpoint = endpoint(self.discovered().await?.authorization_endpoint.as_deref(), "authorization_endpoint")?;
        Ok(Invitation {
            authorization_endpoint: endpoint.into(),
            client_id: self.client.id.clone(),
            scopes: self.client.scopes.clone(),
        })
    }

    /// Exchanges a code for a token that this server accepts: the access token, else the id token.
    pub async fn redeem(&self, code: Code<'_>) -> Result<String, SignInError> {
        let endpoint = endpoint(self.discovered().await?.token_endpoint.as_deref(), "token_endpoint")?;
        let mut form = vec![
            ("grant_type", "authorization_code"),
            ("code", code.code),
            ("code_verifier", code.verifier),
            ("redirect_uri", code.redirect_uri),
            ("client_id", &self.client.id),
        ];
        form.extend(self.client.secret.as_deref().map(|secret| ("client_secret", secret)));
        let response: TokenResponse = self.provider.post(endpoint, &form).await?;
        if let Some(error) = response.error {
            return Err(SignInError::Refused(one_line(&response.error_description.unwrap_or(error))));
        }
        self.accepted([response.access_token, response.id_token].into_iter().flatten()).await
    }

    async fn accepted(&self, tokens: impl Iterator<Item = String>) -> Result<String, SignInError> {
        let mut reason = "the response has none".to_owned();
        for token in tokens {
            match self.oidc.verify(&token).await {
                Ok(_) => return Ok(token),
                Err(bad) => reason = bad.to_string(),
            }
        }
        Err(SignInError::NoToken(reason))
    }
}

fn endpoint(found: Option<&str>, name: &str) -> Result<reqwest::Url, SignInError> {
    let found = found.ok_or_else(|| SignInError::Unavailable(format!("its discovery document has no {name}")))?;
    Ok(address(found)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_of_the_provider_is_one_short_line() {
        assert_eq!(
            one_line("denied\n2026-01-31 INFO audit: forged\r\u{1b}[2J"),
            "denied 2026-01-31 INFO audit: forged  [2J"
        );
        assert_eq!(one_line(&"x".repeat(9_000)).len(), MAX_REASON);
    }
}
