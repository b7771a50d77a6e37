//! TLS on the server's own listener.

use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;

use noetl_testkit::{Deployment, WAIT_TIMEOUT, eventually};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::process::Child;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// Writes a certificate and its key, and returns the certificate.
fn write_certificate(folder: &Path) -> CertificateDer<'static> {
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    std::fs::write(folder.join("key.pem"), signing_key.serialize_pem()).unwrap();
    std::fs::write(folder.join("cert.pem"), cert.pem()).unwrap();
    cert.der().clone()
}

/// A server with TLS.
struct Secure {
    _child: Child,
    port: u16,
}

impl Secure {
    async fn start(deployment: &Deployment, folder: &Path) -> Self {
        let mut command = deployment.command("serve");
        command.env("NOETL_TLS_CERT", folder.join("cert.pem")).env("NOETL_TLS_KEY", folder.join("key.pem"));
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let line = tokio::time::timeout(WAIT_TIMEOUT, lines.next_line()).await.unwrap().unwrap().unwrap();
        let address = line.strip_prefix("listening on https://").expect("the server announces an https address");
        let port = address.rsplit_once(':').unwrap().1.parse().unwrap();
        Self { _child: child, port }
    }

    /// Connects with a client that trusts only the given certificate.
    async fn handshake(&self, trusted: &CertificateDer<'static>, alpn: &str) -> std::io::Result<TlsStream<TcpStream>> {
        let mut roots = RootCertStore::empty();
        roots.add(trusted.clone()).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()));
        let config = config.with_safe_default_protocol_versions().unwrap().with_root_certificates(roots);
        let mut config = config.with_no_client_auth();
        config.alpn_protocols = vec![alpn.into()];
        let stream = TcpStream::connect(("127.0.0.1", self.port)).await?;
        let name = ServerName::try_from("localhost").unwrap();
        TlsConnector::from(Arc::new(config)).connect(name, stream).await
    }

    /// Sends a query over HTTP/1.1 and returns the response.
    async fn query(&self, stream: &mut TlsStream<TcpStream>) -> Value {
        let body = json!({ "query": "{ server { version } }" }).to_string();
        let head = format!("POST /graphql HTTP/1.1\r\nhost: localhost:{}\r\ncontent-type: application/json", self.port);
        let request = format!("{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
        stream.write_all(request.as_bytes()).await.unwrap();
        let (mut text, mut buffer) = (String::new(), [0; 4096]);
        while !text.ends_with('}') {
            let count = stream.read(&mut buffer).await.unwrap();
            assert!(count > 0, "{text}");
            text.push_str(std::str::from_utf8(&buffer[..count]).unwrap());
        }
        serde_json::from_str(text.split_once("\r\n\r\n").unwrap().1).unwrap()
    }
}

#[tokio::test]
async fn a_tls_listener_reads_a_replaced_certificate_refuses_plain_http_and_needs_a_valid_certificate() {
    let deployment = Deployment::start(0).await;
    let folder = tempfile::tempdir().unwrap();
    let first = write_certificate(folder.path());
    let server = Secure::start(&deployment, folder.path()).await;
    Box::pin(a_certificate_can_be_replaced_while_connections_stay_open(&server, folder.path(), first)).await;
    let plain = reqwest::get(format!("http://127.0.0.1:{}/livez", server.port)).await;
    assert!(plain.is_err(), "{plain:?}");
    Box::pin(a_server_does_not_start_without_a_valid_certificate(&deployment, folder.path())).await;
}

/// A certificate can be replaced while connections stay open. Another file that is not usable does not replace it.
async fn a_certificate_can_be_replaced_while_connections_stay_open(
    server: &Secure,
    folder: &Path,
    first: CertificateDer<'static>,
) {
    let mut kept = server.handshake(&first, "http/1.1").await.unwrap();
    assert_eq!(kept.get_ref().1.alpn_protocol(), Some(&b"http/1.1"[..]));
    assert!(server.query(&mut kept).await["data"]["server"]["version"].is_string());
    let http2 = server.handshake(&first, "h2").await.unwrap();
    assert_eq!(http2.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));

    // An unusable certificate does not replace the first one.
    std::fs::write(folder.join("cert.pem"), "-----BEGIN CERTIFICATE-----\nbroken").unwrap();
    noetl_testkit::sleep_in_scenario(std::time::Duration::from_millis(2_500)).await;
    server.handshake(&first, "http/1.1").await.unwrap();

    let second = write_certificate(folder);
    eventually("the new certificate is in use", async || server.handshake(&second, "http/1.1").await.ok()).await;
    assert!(server.handshake(&first, "http/1.1").await.is_err(), "the old certificate is still in use");
    assert!(server.query(&mut kept).await["data"]["server"]["version"].is_string(), "the open connection ended");
}

/// A server does not start with the key of another certificate, without a key, or with a file that has none.
async fn a_server_does_not_start_without_a_valid_certificate(deployment: &Deployment, folder: &Path) {
    // The key of another certificate.
    let key = std::fs::read(folder.join("key.pem")).unwrap();
    write_certificate(folder);
    std::fs::write(folder.join("key.pem"), key).unwrap();
    for (name, problem) in
        [("key.pem", "can't be used"), ("missing.pem", "can't be read"), ("cert.pem", "no private key")]
    {
        let mut command = deployment.command("serve");
        command.env("NOETL_TLS_CERT", folder.join("cert.pem"));
        let output = command.env("NOETL_TLS_KEY", folder.join(name)).output().await.unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("NOETL_TLS_CERT and NOETL_TLS_KEY") && said.contains(problem), "{said}");
    }
}
