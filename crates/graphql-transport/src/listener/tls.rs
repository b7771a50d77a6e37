//! TLS of a listener. The certificate is reloaded when its files change. If the files can't be used, the previous
//! certificate stays in use.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::sleep;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::{CryptoProvider, aws_lc_rs};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::{ClientHello, ResolvesServerCert};
use tokio_rustls::rustls::sign::CertifiedKey;
use tokio_rustls::rustls::{self, ServerConfig};
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;

/// Pause between two checks of the files. Their contents are compared, because a file that an orchestrator replaces
/// through a symbolic link may keep its modification time.
const PERIOD: Duration = Duration::from_secs(1);

/// Paths of a certificate chain and its private key, in PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateFiles {
    /// File with the server's certificate, followed by those of its issuers.
    pub certificate: PathBuf,
    /// File with the private key of the first certificate.
    pub key: PathBuf,
}

/// Reason a certificate can't be used.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// A file can't be read.
    #[error("{} can't be read: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A file is not the expected PEM.
    #[error("{} holds no {expected} in PEM", path.display())]
    NotPem {
        /// The file.
        path: PathBuf,
        /// Content that belongs in the file.
        expected: &'static str,
    },
    /// The certificate and the key don't match, or are of an unsupported kind.
    #[error("the certificate can't be used: {0}")]
    Unusable(#[from] rustls::Error),
}

/// TLS of a listener. Cheap to clone.
#[derive(Clone)]
pub struct Tls {
    files: CertificateFiles,
    first: Arc<Contents>,
    current: Arc<Current>,
    config: Arc<ServerConfig>,
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Tls").field("files", &self.files).finish_non_exhaustive()
    }
}

impl Tls {
    /// Reads a certificate.
    pub async fn read(files: CertificateFiles) -> Result<Self, CertificateError> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let first = Arc::new(Contents::read(&files).await?);
        let certified = first.certify(&files, &provider)?;
        let current = Arc::new(Current(RwLock::new(Arc::new(certified))));
        let resolver = Arc::clone(&current) as Arc<dyn ResolvesServerCert>;
        let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
        let mut config = builder.with_no_client_auth().with_cert_resolver(resolver);
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Self { files, first, current, config: Arc::new(config) })
    }

    /// Reads the files about once a second until `closing`, and uses a changed certificate for new connections.
    pub async fn watch(self, closing: CancellationToken) {
        let mut seen = Some(Arc::clone(&self.first));
        while closing.run_until_cancelled(sleep(PERIOD)).await.is_some() {
            let read = Contents::read(&self.files).await.map(Arc::new);
            let changed = match (&read, &seen) {
                (Ok(read), Some(seen)) => read != seen,
                (Ok(_), None) | (Err(_), Some(_)) => true,
                (Err(_), None) => false,
            };
            if !changed {
                continue;
            }
            let problem = match &read {
                Ok(contents) => self.replace(contents).err().map(|error| error.to_string()),
                Err(error) => Some(error.to_string()),
            };
            match problem {
                None => tracing::info!("the TLS certificate was replaced"),
                Some(error) => {
                    tracing::warn!(error, "the changed TLS certificate can't be used; the previous one stays");
                }
            }
            seen = read.ok();
        }
    }

    fn replace(&self, contents: &Contents) -> Result<(), CertificateError> {
        let certified = contents.certify(&self.files, self.config.crypto_provider())?;
        *self.current.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(certified);
        Ok(())
    }

    /// Performs the handshake of a connection.
    pub(super) async fn accept(&self, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        TlsAcceptor::from(Arc::clone(&self.config)).accept(stream).await
    }
}

/// The certificate in use.
#[derive(Debug)]
struct Current(RwLock<Arc<CertifiedKey>>);

impl ResolvesServerCert for Current {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner)))
    }
}

/// Contents of the files.
#[derive(PartialEq, Eq)]
struct Contents {
    certificate: Vec<u8>,
    key: Vec<u8>,
}

impl Contents {
    async fn read(files: &CertificateFiles) -> Result<Self, CertificateError> {
        Ok(Self { certificate: read(&files.certificate).await?, key: read(&files.key).await? })
    }

    fn certify(&self, files: &CertificateFiles, provider: &CryptoProvider) -> Result<CertifiedKey, CertificateError> {
        // The parser's errors may quote a line of the key.
        let not_pem = |path: &Path, expected| CertificateError::NotPem { path: path.to_owned(), expected };
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&self.certificate).collect();
        let chain = chain.ok().filter(|chain| !chain.is_empty());
        let chain = chain.ok_or_else(|| not_pem(&files.certificate, "certificate"))?;
        let key = PrivateKeyDer::from_pem_slice(&self.key).map_err(|_| not_pem(&files.key, "private key"))?;
        Ok(CertifiedKey::from_der(chain, key, provider)?)
    }
}

async fn read(path: &Path) -> Result<Vec<u8>, CertificateError> {
    tokio::fs::read(path).await.map_err(|source| CertificateError::Unreadable { path: path.to_owned(), source })
}
