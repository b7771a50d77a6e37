//! JSON Web Tokens of one OpenID provider.
//!
//! A token is valid under these conditions: its algorithm is allowed; its signature is by a key of the provider that
//! fits the algorithm; it names the issuer and one of the audiences; it has a subject; it has not expired. Symmetric
//! algorithms and `none` can't be allowed, so a public key is never used as a secret.

mod claims;
mod jwks;
mod provider;
mod sign_in;

use std::sync::Arc;
use std::time::Duration;

use jsonwebtoken::{Algorithm, DecodingKey, Header, Validation, decode, decode_header};
use tokio_util::sync::CancellationToken;

use super::principal::Principal;
use jwks::Jwks;
use plain_json::AnyJson;

pub use provider::BadProvider;
pub use sign_in::{ClientSettings, Code, Invitation, SignIn, SignInError};

/// Tolerated clock difference for the start of a token's validity (`nbf`). The expiry has no tolerance.
const LEEWAY: Duration = Duration::from_secs(10);

/// Supported algorithms. All of them verify with a public key.
pub const ALGORITHMS: [(&str, Algorithm); 9] = [
    ("RS256", Algorithm::RS256),
    ("RS384", Algorithm::RS384),
    ("RS512", Algorithm::RS512),
    ("PS256", Algorithm::PS256),
    ("PS384", Algorithm::PS384),
    ("PS512", Algorithm::PS512),
    ("ES256", Algorithm::ES256),
    ("ES384", Algorithm::ES384),
    ("EdDSA", Algorithm::EdDSA),
];

/// Settings of an OpenID provider and of its accepted tokens.
#[derive(Debug, Clone)]
pub struct OidcSettings {
    /// Issuer, exactly as in the tokens.
    pub issuer: String,
    /// Accepted audiences. A token must name at least one of them.
    pub audiences: Vec<String>,
    /// Address of the provider's keys; `None` discovers it from the issuer.
    pub jwks_url: Option<String>,
    /// Allowed algorithms.
    pub algorithms: Vec<Algorithm>,
    /// Claim with the names of roles: a list, or a string of names separated by spaces. Dots select a claim inside
    /// objects.
    pub roles_claim: String,
    /// Claim with the tenant, which each token must have; `None` if tokens have no tenant.
    pub tenant_claim: Option<String>,
    /// The console as a client of the provider; `None`: users can't sign in to the console at the provider.
    pub client: Option<ClientSettings>,
}

/// Reason why a JWT is refused.
#[derive(Debug, thiserror::Error)]
pub enum BadJwt {
    /// The header can't be read, or its algorithm is not allowed.
    #[error("the token's header is malformed, or names an algorithm that is not allowed")]
    Header,
    /// The provider has no key of this id, type and algorithm.
    #[error("the provider has no key for this token")]
    UnknownKey,
    /// The signature or a claim is invalid.
    #[error("the token is invalid: {0}")]
    Invalid(#[from] jsonwebtoken::errors::Error),
    /// A claim is missing, or does not have the form that this server needs.
    #[error("the token's claim {0} is missing or malformed")]
    Claim(&'static str),
}

/// Checks an address of a provider: `https://`, or `http://` on this machine.
pub fn check_address(address: &str) -> Result<(), BadProvider> {
    provider::address(address).map(drop)
}

/// Returns whether a token has the form of a JWT.
#[must_use]
pub fn is_jwt(token: &str) -> bool {
    token.bytes().filter(|byte| *byte == b'.').count() == 2
}

/// Verifier of one provider's tokens.
#[derive(Debug)]
pub struct Oidc {
    settings: OidcSettings,
    jwks: Jwks,
}

impl Oidc {
    /// Creates a verifier with these settings. It has no keys until [`Self::run`] fetches them.
    pub fn new(settings: OidcSettings) -> Result<Self, BadProvider> {
        let jwks = Jwks::new(&settings.issuer, settings.jwks_url.as_deref())?;
        Ok(Self { settings, jwks })
    }

    /// Keeps the provider's keys current until `stop` is cancelled.
    pub async fn run(self: Arc<Self>, stop: CancellationToken) {
        stop.run_until_cancelled(self.jwks.keep_current()).await;
    }

    /// Verifies a token and returns its caller.
    pub async fn verify(&self, token: &str) -> Result<Principal, BadJwt> {
        let header = decode_header(token).map_err(|_| BadJwt::Header)?;
        // A `crit` header names extensions that must be understood (RFC 7515, section 4.1.11); this server supports
        // none.
        if header.crit.is_some() || !self.settings.algorithms.contains(&header.alg) {
            return Err(BadJwt::Header);
        }
        let key = self.key(&header).await.ok_or(BadJwt::UnknownKey)?;
        let AnyJson(claims) = decode(token, &key, &self.validation(header.alg))?.claims;
        let claims = claims.as_object().ok_or(BadJwt::Claim("set"))?;
        claims::principal(claims, &self.settings.roles_claim, self.settings.tenant_claim.as_deref())
    }

    fn validation(&self, algorithm: Algorithm) -> Validation {
        let mut validation = Validation::new(algorithm);
        validation.leeway = LEEWAY.as_secs();
        validation.validate_nbf = true;
        validation.set_issuer(&[&self.settings.issuer]);
        validation.set_audience(&self.settings.audiences);
        validation.set_required_spec_claims(&["exp", "iss", "aud", "sub"]);
        validation
    }

    async fn key(&self, header: &Header) -> Option<DecodingKey> {
        self.jwks.find(header.kid.as_deref(), header.alg).await
    }
}
