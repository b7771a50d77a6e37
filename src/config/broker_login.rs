//! TLS and the login at the broker. The files are read at start-up, so their problems are reported before any
//! connection. A secret never appears in a problem or in the settings' debug output.

use std::fmt;
use std::path::PathBuf;

use async_nats::{ConnectOptions, ServerAddr};
use nkeys::KeyPair;
use percent_encoding::percent_decode_str;

use super::reader::Reader;
use super::{Definition, broker};
use noetl_feed::wire::names::SubjectPrefix;

pub(super) const SETTINGS: [Definition; 6] = [
    Definition::text("NOETL_NATS_CREDENTIALS", "none", "credentials file (`.creds`) of a user"),
    Definition::text("NOETL_NATS_NKEY", "none", "file with the seed of a user's nkey"),
    Definition::text(
        "NOETL_NATS_ROOT_CERTIFICATE",
        "the system's",
        "PEM file of the authorities that sign the brokers' certificates; if set, TLS is required",
    ),
    Definition::text("NOETL_NATS_CERTIFICATE", "none", "PEM file of this client's certificate"),
    Definition::text("NOETL_NATS_KEY", "none", "PEM file of this client's private key"),
    Definition::text(
        "NOETL_NATS_INBOX_PREFIX",
        "`_INBOX`",
        "prefix of the subjects on which the server receives responses, for a user that may subscribe only to inboxes of its own: 1 to 128 letters, digits, -, _, $ or @, in parts separated by dots",
    ),
];

/// Addresses of the brokers of one cluster, with the settings of connections to them.
#[derive(Debug, Clone, Default)]
pub struct BrokerSettings {
    /// Addresses, without logins; empty: no broker is configured.
    pub addresses: Vec<ServerAddr>,
    /// Login at every broker.
    pub login: Option<Login>,
    /// Whether every connection must use TLS.
    pub tls: bool,
    /// PEM file of the authorities that sign the brokers' certificates; `None`: the system's authorities.
    pub root_certificate: Option<PathBuf>,
    /// PEM files of this client's certificate and key.
    pub client_certificate: Option<(PathBuf, PathBuf)>,
    /// Prefix of the subjects of responses; `None`: that of all clients, `_INBOX`.
    pub inbox_prefix: Option<SubjectPrefix>,
}

/// A login at a broker.
#[derive(Clone)]
pub enum Login {
    /// User and password.
    Password(String, String),
    /// Token.
    Token(String),
    /// Seed of a user's nkey.
    Nkey(String),
    /// Contents of a credentials file: a user's JWT and the seed of its nkey.
    Credentials(String),
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Password(..) => "Password(…)",
            Self::Token(_) => "Token(…)",
            Self::Nkey(_) => "Nkey(…)",
            Self::Credentials(_) => "Credentials(…)",
        })
    }
}

/// Reads the settings of connections to the brokers at `listed`, whose addresses may hold a login.
pub(super) fn read(read: &mut Reader<'_>, listed: &[ServerAddr]) -> BrokerSettings {
    let path = |read: &Reader<'_>, name| read.sources.text(name).map(PathBuf::from);
    let root_certificate = path(read, "NOETL_NATS_ROOT_CERTIFICATE");
    if let Some(path) = &root_certificate {
        read.certificates("NOETL_NATS_ROOT_CERTIFICATE", path);
    }
    let client_certificate = match (path(read, "NOETL_NATS_CERTIFICATE"), path(read, "NOETL_NATS_KEY")) {
        (Some(certificate), Some(key)) => {
            read.certificates("NOETL_NATS_CERTIFICATE", &certificate);
            read.private_key("NOETL_NATS_KEY", &key);
            Some((certificate, key))
        }
        (None, None) => None,
        (certificate, _) => {
            let (given, missing) = ("NOETL_NATS_CERTIFICATE", "NOETL_NATS_KEY");
            let (given, missing) = if certificate.is_some() { (given, missing) } else { (missing, given) };
            read.problem(format!("{given} is set without {missing}; set both, or neither"));
            None
        }
    };
    // If one broker of a cluster needs TLS, all do; otherwise the login would be sent to the others unencrypted.
    let tls = listed.iter().any(ServerAddr::tls_required) || root_certificate.is_some() || client_certificate.is_some();
    let addresses = listed.iter().filter_map(|address| without_login(address).ok()).collect();
    let inbox_prefix = broker::subject_prefix(read, "NOETL_NATS_INBOX_PREFIX");
    BrokerSettings { addresses, login: login(read, listed), tls, root_certificate, client_certificate, inbox_prefix }
}

fn login(read: &mut Reader<'_>, listed: &[ServerAddr]) -> Option<Login> {
    let in_url = listed.iter().find_map(in_address);
    let set = |name| read.sources.text(name).is_some();
    let given = [
        ("NOETL_NATS_CREDENTIALS", set("NOETL_NATS_CREDENTIALS")),
        ("NOETL_NATS_NKEY", set("NOETL_NATS_NKEY")),
        ("NOETL_NATS_URL", in_url.is_some()),
    ];
    let names: Vec<&str> = given.into_iter().filter(|(_, given)| *given).map(|(name, _)| name).collect();
    if names.len() > 1 {
        read.problem(format!("{} each hold a login at the broker; keep one of them", names.join(" and ")));
    }
    let (credentials, nkey) = (credentials(read), nkey(read));
    credentials.or(nkey).or(in_url)
}

/// Returns the user and password, or the token, in an address.
fn in_address(address: &ServerAddr) -> Option<Login> {
    let decoded = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
    let user = decoded(address.username()?);
    Some(match address.password() {
        Some(password) => Login::Password(user, decoded(password)),
        None => Login::Token(user),
    })
}

/// Returns the address without its login, so that it may be logged.
fn without_login(address: &ServerAddr) -> std::io::Result<ServerAddr> {
    let mut url = address.clone().into_inner();
    // These fail for addresses that can't hold a login.
    let _: Result<(), ()> = url.set_username("").and(url.set_password(None));
    ServerAddr::from_url(url)
}

fn credentials(read: &mut Reader<'_>) -> Option<Login> {
    let name = "NOETL_NATS_CREDENTIALS";
    let text = secret(read, name)?;
    if ConnectOptions::with_credentials(&text).is_err() {
        read.problem(format!("{name} names a file without a user's JWT and the seed of its nkey; create it with nsc"));
        return None;
    }
    Some(Login::Credentials(text))
}

fn nkey(read: &mut Reader<'_>) -> Option<Login> {
    let name = "NOETL_NATS_NKEY";
    let seed = secret(read, name)?.trim().to_owned();
    if KeyPair::from_seed(&seed).is_err() {
        read.problem(format!("{name} names a file without the seed of a user's nkey, which begins with SU"));
        return None;
    }
    Some(Login::Nkey(seed))
}

/// Reads the file that a setting names.
fn secret(read: &mut Reader<'_>, name: &str) -> Option<String> {
    let path = PathBuf::from(read.sources.text(name)?);
    let bytes = read.file(name, &path)?;
    let text = String::from_utf8(bytes);
    text.map_err(|_| read.problem(format!("{name} names {}, which is not a UTF-8 text file", path.display()))).ok()
}
