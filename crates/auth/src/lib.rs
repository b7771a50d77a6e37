//! Authentication of callers.
//!
//! A caller sends a token ([`bearer`]): a static one ([`tokens`]), or a JWT of an OpenID provider ([`oidc`]). It gets a
//! [`Principal`] ([`principal`]), which is valid until the token expires or is revoked. This crate does not decide
//! about access to fields; the guards of `noetl-api` do. Tokens are never logged.

pub mod bearer;
pub mod oidc;
pub mod principal;
pub mod tokens;

use std::sync::Arc;

use chrono::{DateTime, Utc};
use tokio_util::sync::CancellationToken;

use oidc::{BadJwt, Oidc};
use principal::Principal;
use tokens::Tokens;

/// Authentication of a caller by a valid token.
#[derive(Debug, Clone)]
pub struct Grant {
    /// The caller.
    pub principal: Arc<Principal>,
    /// Cancelled when the token is revoked.
    pub revoked: CancellationToken,
}

impl From<Principal> for Grant {
    fn from(principal: Principal) -> Self {
        Self { principal: Arc::new(principal), revoked: CancellationToken::new() }
    }
}

/// Reason why a token is refused. It is logged, but not sent to the caller.
#[derive(Debug, thiserror::Error)]
pub enum Denied {
    /// The token is not a known static token, nor a JWT if JWTs are accepted.
    #[error("the token is unknown")]
    Unknown,
    /// The token has expired.
    #[error("the token has expired")]
    Expired,
    /// The JWT is invalid.
    #[error(transparent)]
    Jwt(#[from] BadJwt),
}

/// Verifier of all tokens that a server accepts.
#[derive(Debug)]
pub struct Authenticator {
    /// Static tokens.
    pub tokens: Arc<Tokens>,
    /// Verifier of JWTs; `None` if JWTs are not accepted.
    pub oidc: Option<Arc<Oidc>>,
}

impl Authenticator {
    /// Identifies the caller that sends `token` at the time `at`.
    pub async fn authenticate(&self, token: &str, at: DateTime<Utc>) -> Result<Grant, Denied> {
        let grant = match (self.tokens.find(token), &self.oidc) {
            (Some(grant), _) => grant,
            (None, Some(oidc)) if oidc::is_jwt(token) => oidc.verify(token).await?.into(),
            (None, _) => return Err(Denied::Unknown),
        };
        if grant.principal.expires_at.is_some_and(|end| end <= at) { Err(Denied::Expired) } else { Ok(grant) }
    }
}
