//! Ingress of a push subscription: where the gateway receives messages, and how it verifies them.

use super::field::{Choice, Field, InvalidField, Named, Problem};

/// Settings of the gateway for a push subscription.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ingress {
    /// Path at which the gateway receives messages; begins with `/`.
    pub gateway_path: String,
    /// Verification of each message.
    pub verification: Verification,
}

/// Verification of pushed messages. Secrets are named by their alias.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verification {
    /// A header has the HMAC-SHA256 of the message.
    HmacSha256 {
        /// Name of the header.
        header: String,
        /// Alias of the secret.
        secret: String,
    },
    /// A bearer token.
    Bearer {
        /// Alias of the token.
        secret: String,
    },
    /// A token that Google signs for a push subscription of Pub/Sub.
    PubsubOidc {
        /// Audience of the token.
        audience: String,
        /// Service account that the token names.
        service_account: String,
    },
    /// Another scheme, in a document that another program stored.
    Other {
        /// Name of the scheme.
        scheme: String,
    },
}

/// Scheme of a verification.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    /// HMAC-SHA256 of the message in a header.
    HmacSha256,
    /// Bearer token.
    Bearer,
    /// Token that Google signs for a push subscription of Pub/Sub.
    PubsubOidc,
}

impl Named for Scheme {
    const NAMES: &'static [(&'static str, Self)] =
        &[("hmac_sha256", Self::HmacSha256), ("bearer", Self::Bearer), ("pubsub_oidc", Self::PubsubOidc)];
}

impl Ingress {
    /// Reads the ingress of a push subscription.
    pub(super) fn read(ingress: &Field<'_>) -> Result<Self, InvalidField> {
        let gateway_path = ingress.field("gateway_path");
        let path = gateway_path.required()?;
        if !path.starts_with('/') {
            return Err(gateway_path.refused(Problem::NotAbsolute));
        }
        Ok(Self { gateway_path: path.to_owned(), verification: Verification::read(&ingress.field("verify"))? })
    }
}

impl Verification {
    fn read(verify: &Field<'_>) -> Result<Self, InvalidField> {
        let text = |name: &str| verify.field(name).required().map(str::to_owned);
        let Choice { name, known } = verify.field("type").required_name()?;
        Ok(match known {
            Some(Scheme::HmacSha256) => Self::HmacSha256 { header: text("header")?, secret: text("secret")? },
            Some(Scheme::Bearer) => Self::Bearer { secret: text("secret")? },
            Some(Scheme::PubsubOidc) => {
                Self::PubsubOidc { audience: text("audience")?, service_account: text("service_account")? }
            }
            None => Self::Other { scheme: name },
        })
    }

    /// Returns the scheme with its name.
    #[must_use]
    pub fn scheme(&self) -> Choice<Scheme> {
        match self {
            Self::HmacSha256 { .. } => Choice::of(Scheme::HmacSha256),
            Self::Bearer { .. } => Choice::of(Scheme::Bearer),
            Self::PubsubOidc { .. } => Choice::of(Scheme::PubsubOidc),
            Self::Other { scheme } => Choice { name: scheme.clone(), known: None },
        }
    }
}
