//! Identification of callers.

use std::path::PathBuf;

use super::Definition;
use super::reader::Reader;
use noetl_auth::bearer::is_token;
use noetl_auth::oidc::{self, ClientSettings, OidcSettings};
use noetl_auth::tokens::{self, Tokens};

pub(super) const SETTINGS: [Definition; 12] = [
    Definition::text("NOETL_AUTH_TOKENS", "none", "file of static tokens ([Callers](../guide/security.md#callers))"),
    Definition::text("NOETL_INTERNAL_API_TOKEN", "none", "another static token, with the roles worker and importer"),
    Definition::value(
        "NOETL_RESTRICT_INTROSPECTION",
        "whether only callers with the capability `INTROSPECT` (admin) may read the schema",
    ),
    Definition::text(ISSUER, "none", "OpenID provider whose JWTs are accepted"),
    Definition::text(AUDIENCE, "none", "audiences, separated by commas; a JWT must name one"),
    Definition::text(JWKS_URL, "discovered", "address of the provider's keys"),
    Definition::text(ALGORITHMS, "RS256,ES256", "allowed signature algorithms"),
    Definition::text(
        ROLES_CLAIM,
        "roles",
        "claim with the roles: a list, or a text separated by spaces; dots select a nested claim, as in `realm_access.roles`",
    ),
    Definition::text(TENANT_CLAIM, "none", "claim with the tenant; a JWT without it is refused"),
    Definition::text(
        CLIENT_ID,
        "none",
        "client id of the console; users can then sign in to the console at the provider (redirect address: `/signed-in` of this server, below `NOETL_BASE_PATH`)",
    ),
    Definition::text(CLIENT_SECRET, "none", "secret of a confidential client; a public client needs none"),
    Definition::text(SCOPES, "openid", "scopes that the console requests, separated by spaces"),
];

const ISSUER: &str = "NOETL_AUTH_OIDC_ISSUER";
const AUDIENCE: &str = "NOETL_AUTH_OIDC_AUDIENCE";
const JWKS_URL: &str = "NOETL_AUTH_OIDC_JWKS_URL";
const ALGORITHMS: &str = "NOETL_AUTH_OIDC_ALGORITHMS";
const ROLES_CLAIM: &str = "NOETL_AUTH_OIDC_ROLES_CLAIM";
const TENANT_CLAIM: &str = "NOETL_AUTH_OIDC_TENANT_CLAIM";
const CLIENT_ID: &str = "NOETL_AUTH_OIDC_CLIENT_ID";
const CLIENT_SECRET: &str = "NOETL_AUTH_OIDC_CLIENT_SECRET";
const SCOPES: &str = "NOETL_AUTH_OIDC_SCOPES";

/// Minimum length of the internal token in bytes; a shorter token could be guessed.
const MIN_INTERNAL_BYTES: usize = 16;

/// Methods of authentication that the server accepts; without any, callers are not authenticated.
#[derive(Debug, Clone, Default)]
pub struct AuthSettings {
    /// File of static tokens.
    pub token_file: Option<PathBuf>,
    /// SHA-256 of the token that NoETL's workers share; the token itself is not kept.
    pub internal_token: Option<[u8; 32]>,
    /// Provider of JWTs.
    pub oidc: Option<OidcSettings>,
    /// Whether only callers with the capability `INTROSPECT` may read the schema.
    pub restrict_introspection: bool,
}

impl AuthSettings {
    /// Returns whether callers must identify themselves.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.token_file.is_some() || self.internal_token.is_some() || self.oidc.is_some()
    }
}

pub(super) fn read(read: &mut Reader<'_>) -> AuthSettings {
    AuthSettings {
        token_file: token_file(read),
        internal_token: internal_token(read),
        oidc: oidc(read),
        restrict_introspection: read.flag("NOETL_RESTRICT_INTROSPECTION", false),
    }
}

fn token_file(read: &mut Reader<'_>) -> Option<PathBuf> {
    let path = PathBuf::from(read.sources.text("NOETL_AUTH_TOKENS")?);
    if let Err(problem) = Tokens::open(Some(&path), None) {
        read.problem(format!("NOETL_AUTH_TOKENS names {}: {problem}", path.display()));
    }
    Some(path)
}

/// Reads the SHA-256 of the internal token. Problems do not repeat its text.
fn internal_token(read: &mut Reader<'_>) -> Option<[u8; 32]> {
    let token = read.sources.text("NOETL_INTERNAL_API_TOKEN")?;
    let digest = tokens::digest(token);
    if token.len() < MIN_INTERNAL_BYTES || !is_token(token) {
        read.problem(format!(
            "NOETL_INTERNAL_API_TOKEN can't be used; give it at least {MIN_INTERNAL_BYTES} letters, digits and -._~+/="
        ));
    }
    Some(digest)
}

fn oidc(read: &mut Reader<'_>) -> Option<OidcSettings> {
    let text = |name| read.sources.text(name).map(str::to_owned);
    let (issuer, jwks_url, tenant_claim) = (text(ISSUER), text(JWKS_URL), text(TENANT_CLAIM));
    let roles_claim = text(ROLES_CLAIM).unwrap_or_else(|| "roles".to_owned());
    let audiences = read.sources.list(AUDIENCE);
    let (algorithms, client) = (algorithms(read), client(read));
    let Some(issuer) = issuer else {
        for name in [AUDIENCE, JWKS_URL, ALGORITHMS, ROLES_CLAIM, TENANT_CLAIM, CLIENT_ID] {
            if read.sources.text(name).is_some() {
                read.problem(format!("{name} needs {ISSUER}; set it to the issuer of the tokens"));
            }
        }
        return None;
    };
    if audiences.is_empty() {
        read.problem(format!("{AUDIENCE} is missing; set it to the audience of the tokens for this server"));
    }
    for (name, address) in [(ISSUER, Some(&issuer)), (JWKS_URL, jwks_url.as_ref())] {
        if let Some(Err(problem)) = address.map(|address| oidc::check_address(address)) {
            read.problem(format!("{name} can't be used: {problem}"));
        }
    }
    Some(OidcSettings { issuer, audiences, jwks_url, algorithms, roles_claim, tenant_claim, client })
}

fn client(read: &mut Reader<'_>) -> Option<ClientSettings> {
    let text = |name| read.sources.text(name).map(str::to_owned);
    let (id, secret, scopes) = (text(CLIENT_ID), text(CLIENT_SECRET), text(SCOPES));
    let Some(id) = id else {
        for name in [(CLIENT_SECRET, &secret), (SCOPES, &scopes)].into_iter().filter(|(_, set)| set.is_some()) {
            read.problem(format!("{} needs {CLIENT_ID}; set it to the client id of the console", name.0));
        }
        return None;
    };
    Some(ClientSettings { id, secret, scopes: scopes.unwrap_or_else(|| "openid".to_owned()) })
}

fn algorithms(read: &mut Reader<'_>) -> Vec<jsonwebtoken::Algorithm> {
    let mut names = read.sources.list(ALGORITHMS);
    if names.is_empty() {
        names = ["RS256", "ES256"].map(str::to_owned).into();
    }
    let mut allowed = Vec::new();
    for name in names {
        if let Some((_, algorithm)) = oidc::ALGORITHMS.into_iter().find(|(known, _)| *known == name) {
            allowed.push(algorithm);
        } else {
            let known = oidc::ALGORITHMS.map(|(known, _)| known).join(", ");
            read.problem(format!("{ALGORITHMS} lists {name:?}; the algorithms are {known}"));
        }
    }
    allowed
}
