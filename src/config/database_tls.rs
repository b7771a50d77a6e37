//! TLS of a database: the DSN parameters `sslmode`, `sslrootcert`, `sslcert` and `sslkey` of libpq.

use std::path::PathBuf;

use percent_encoding::percent_decode_str;
use sqlx::postgres::{PgConnectOptions, PgSslMode};

use super::reader::Reader;

/// Checks the TLS parameters of a DSN, and returns the options with a mode that uses the root certificate.
pub(super) fn check(read: &mut Reader<'_>, name: &str, dsn: &str, options: PgConnectOptions) -> PgConnectOptions {
    let path = |key: &str| parameter(dsn, key).map(PathBuf::from);
    let (root, certificate, key) = (path("sslrootcert"), path("sslcert"), path("sslkey"));
    let label = |key: &str| format!("{key} of {name}");
    if let Some(root) = &root {
        read.certificates(&label("sslrootcert"), root);
    }
    match (&certificate, &key) {
        (Some(certificate), Some(key)) => {
            read.certificates(&label("sslcert"), certificate);
            read.private_key(&label("sslkey"), key);
        }
        (None, None) => {}
        _ => read.problem(format!("{name} has only one of sslcert and sslkey; set both, or neither")),
    }
    let given = root.is_some() || certificate.is_some() || key.is_some();
    match options.get_ssl_mode() {
        PgSslMode::Disable | PgSslMode::Allow | PgSslMode::Prefer if given => {
            read.problem(format!(
                "{name} has certificates, but its sslmode does not require TLS; add sslmode=verify-full"
            ));
            options
        }
        // As libpq does: the mode `require` alone would ignore the root certificate.
        PgSslMode::Require if root.is_some() => options.ssl_mode(PgSslMode::VerifyCa),
        _ => options,
    }
}

/// Returns a parameter of a URL's query.
pub(super) fn parameter(dsn: &str, key: &str) -> Option<String> {
    let (_, query) = dsn.split_once('?')?;
    let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    let (_, value) = pairs.rfind(|(name, _)| *name == key)?;
    Some(percent_decode_str(value).decode_utf8_lossy().into_owned())
}
