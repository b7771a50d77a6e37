//! Checks at start-up that PEM files contain certificates and private keys.

use std::path::Path;

use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::reader::Reader;

impl Reader<'_> {
    /// Checks that a file contains certificates; `setting` names it in a problem.
    pub(super) fn certificates(&mut self, setting: &str, path: &Path) {
        let Some(text) = self.file(setting, path) else { return };
        let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
        if !certificates.is_ok_and(|certificates| !certificates.is_empty()) {
            self.problem(format!("{setting} names {}, which has no certificate in PEM format", path.display()));
        }
    }

    /// Checks that a file contains a private key.
    pub(super) fn private_key(&mut self, setting: &str, path: &Path) {
        let Some(text) = self.file(setting, path) else { return };
        if PrivateKeyDer::from_pem_slice(&text).is_err() {
            self.problem(format!("{setting} names {}, which has no private key in PEM format", path.display()));
        }
    }

    /// Reads a file; a failure becomes a problem.
    pub(super) fn file(&mut self, setting: &str, path: &Path) -> Option<Vec<u8>> {
        let read = std::fs::read(path);
        let unreadable = |error| self.problem(format!("{setting} names {}: {error}", path.display()));
        read.map_err(unreadable).ok()
    }
}
