//! Callers: who asks, and what they may do.
//!
//! A caller shows a token ([`bearer`]): a static one ([`tokens`]), or a JWT of an OpenID provider ([`oidc`]). What it gets
//! is a [`Principal`] ([`principal`]), which holds until the token expires or is revoked. This module decides nothing
//! about fields; the guards of `graphql` do. A token never reaches the log.

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

/// A caller's rights, as long as its token is valid.
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

/// Reason why a token is refused. Only the log names it.
#[derive(Debug, thiserror::Error)]
pub enum Denied {
    /// Neither a static token nor, where JWTs are accepted, one of those.
    #[error("the token is unknown")]
    Unknown,
    /// It was valid once.
    #[error("the token has expired")]
    Expired,
    /// A JWT that does not hold.
    #[error(transparent)]
    Jwt(#[from] BadJwt),
}

/// Everything that a server accepts as proof of identity.
#[derive(Debug)]
pub struct Authenticator {
    /// Static tokens.
    pub tokens: Arc<Tokens>,
    /// Provider of JWTs.
    pub oidc: Option<Arc<Oidc>>,
}

impl Authenticator {
    /// Identifies the caller that shows `token` at a time.
    pub async fn authenticate(&self, token: &str, at: DateTime<Utc>) -> Result<Grant, Denied> {
        let grant = match (self.tokens.find(token), &self.oidc) {
            (Some(grant), _) => grant,
            (None, Some(oidc)) if oidc::is_jwt(token) => oidc.verify(token).await?.into(),
            (None, _) => return Err(Denied::Unknown),
        };
        if grant.principal.expires_at.is_some_and(|end| end <= at) { Err(Denied::Expired) } else { Ok(grant) }
    }
}
