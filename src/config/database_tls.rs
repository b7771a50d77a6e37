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

#[cfg(test)]
mod tests {
    use crate::config::{ConfigError, RequiredSettings, Sources};

    fn problems(dsn: &str) -> Vec<String> {
        let sources = Sources::default().with([("NOETL_CLUSTER_DSN", dsn.to_owned())]);
        sources.check(RequiredSettings::Databases).map_or_else(|ConfigError(problems)| problems, |_| Vec::new())
    }

    #[test]
    fn missing_and_unused_certificates_are_reported() {
        let missing =
            problems("postgres://u:secret@h/d?sslmode=verify-full&sslrootcert=/not%2Fthere.pem&sslcert=/c.pem");
        assert_eq!(missing.len(), 2, "{missing:?}");
        assert!(missing[0].starts_with("sslrootcert of NOETL_CLUSTER_DSN names /not/there.pem:"), "{missing:?}");
        assert!(missing[1].contains("one of sslcert and sslkey"), "{missing:?}");
        assert!(!missing.concat().contains("secret"), "{missing:?}");
        let pem = tempfile::NamedTempFile::new().unwrap();
        let certificate = rcgen::generate_simple_self_signed(["h".to_owned()]).unwrap().cert.pem();
        std::fs::write(pem.path(), certificate).unwrap();
        let with = |mode: &str| problems(&format!("postgres://h/d?{mode}sslrootcert={}", pem.path().display()));
        assert_eq!(with("sslmode=verify-full&"), [""; 0]);
        assert!(with("")[0].contains("add sslmode=verify-full"));
    }
}
