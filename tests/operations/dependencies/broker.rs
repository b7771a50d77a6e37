//! Brokers that require TLS, client certificates, an nkey, or credentials that an account signed.

use std::net::TcpListener;
use std::path::Path;
use std::process::Stdio;

use nkeys::KeyPair;
use noetl_testkit::Deployment;
use tempfile::TempDir;
use tokio::process::{Child, Command};

use super::Authority;
use super::database::serves;
use super::jwt::operated;

/// Starts a broker with JetStream and the given additional configuration. Returns its process and port.
pub fn broker(folder: &Path, configuration: &str) -> (Child, u16) {
    let store = folder.join("store").display().to_string();
    configured(folder, &format!("jetstream {{ store_dir: {store:?} }}\n{configuration}"))
}

/// Starts a broker with the given configuration and any port. Returns its process and port.
pub(super) fn configured(folder: &Path, configuration: &str) -> (Child, u16) {
    let port = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
    let file = folder.join("nats.conf");
    std::fs::write(&file, format!("listen: 127.0.0.1:{port}\n{configuration}")).unwrap();
    let mut broker = Command::new("nats-server");
    // Debian installs the binary in a folder that is not in a user's PATH.
    broker.env("PATH", format!("{}:/usr/local/sbin:/usr/sbin", std::env::var("PATH").unwrap()));
    broker.arg("-c").arg(file).stdin(Stdio::null()).stdout(Stdio::null()).kill_on_drop(true);
    broker.stderr(std::fs::File::create(folder.join("nats.log")).unwrap());
    (broker.spawn().unwrap(), port)
}

fn write(folder: &TempDir, name: &str, text: &str) -> String {
    let path = folder.path().join(name);
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_broker_that_requires_tls_certificates_and_an_nkey_is_used_and_another_one_gets_no_login() {
    let deployment = Deployment::start(0).await;
    Box::pin(a_broker_that_requires_tls_certificates_and_an_nkey_is_used(&deployment)).await;
    Box::pin(no_login_is_sent_to_a_broker_with_a_certificate_of_another_authority(&deployment)).await;
}

/// A broker that requires TLS, certificates and an nkey is used.
async fn a_broker_that_requires_tls_certificates_and_an_nkey_is_used(deployment: &Deployment) {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new(folder.path(), "right");
    let (certificate, key) = authority.sign("broker", &["127.0.0.1"]);
    let root = authority.certificate();
    let user = KeyPair::new_user();
    let configuration = format!(
        "tls {{ cert_file: {certificate:?}, key_file: {key:?}, ca_file: {root:?}, verify: true }}\n\
         authorization {{ users: [ {{ nkey: {} }} ] }}\n",
        user.public_key()
    );
    let (_running, port) = broker(folder.path(), &configuration);
    let (certificate, key) = authority.sign("noetl", &[]);
    let settings = [
        ("NOETL_NATS_URL", &*format!("tls://127.0.0.1:{port}")),
        ("NOETL_NATS_ROOT_CERTIFICATE", &root),
        ("NOETL_NATS_CERTIFICATE", &certificate),
        ("NOETL_NATS_KEY", &key),
        ("NOETL_NATS_NKEY", &*write(&folder, "user.nk", &user.seed().unwrap())),
    ];
    serves(&deployment.replica_with(&settings).await).await;
}

#[tokio::test]
async fn a_broker_with_signed_accounts_accepts_a_credentials_file() {
    let folder = tempfile::tempdir().unwrap();
    let (configuration, credentials) = operated();
    let (_running, port) = broker(folder.path(), &configuration);
    let settings = [
        ("NOETL_NATS_URL", &*format!("nats://127.0.0.1:{port}")),
        ("NOETL_NATS_CREDENTIALS", &*write(&folder, "user.creds", &credentials)),
    ];
    let deployment = Deployment::start(0).await;
    serves(&deployment.replica_with(&settings).await).await;
}

/// No login is sent to a broker with a certificate of another authority.
async fn no_login_is_sent_to_a_broker_with_a_certificate_of_another_authority(deployment: &Deployment) {
    let folder = tempfile::tempdir().unwrap();
    let (authority, other) = (Authority::new(folder.path(), "right"), Authority::new(folder.path(), "wrong"));
    let (certificate, key) = other.sign("broker", &["127.0.0.1"]);
    let configuration = format!(
        "tls {{ cert_file: {certificate:?}, key_file: {key:?} }}\nauthorization {{ user: noetl, password: secret-word }}\n"
    );
    let (_running, port) = broker(folder.path(), &configuration);
    let log = std::fs::File::create(folder.path().join("server.log")).unwrap();
    let mut command = deployment.command("serve");
    command.env("NOETL_NATS_URL", format!("tls://noetl:secret-word@127.0.0.1:{port}")).stderr(log);
    command.env("NOETL_LOG", "debug").env("NOETL_NATS_ROOT_CERTIFICATE", authority.certificate());
    let server = noetl_testkit::Server::spawn(command).await;
    let said = noetl_testkit::eventually("the error is logged", async || {
        let said = std::fs::read_to_string(folder.path().join("server.log")).unwrap();
        said.contains("the broker can't be used").then_some(said)
    })
    .await;
    assert!(!said.contains("secret-word"), "{said}");
    drop(server);
}
