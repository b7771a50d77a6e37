//! The connection to the broker.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_nats::{Client, ConnectError, ConnectErrorKind, ConnectOptions, Event, ServerError};
use tokio_rustls::rustls::crypto::aws_lc_rs;

use crate::config::{BrokerSettings, Login};

/// Maximum number of different errors that are logged between two connects.
const MAX_LOGGED: usize = 64;

/// Returns a client that connects in the background and reconnects when the connection is lost. A refused login or a
/// TLS failure is logged and tried again, because the broker's configuration may be fixed meanwhile.
pub(super) async fn connect(settings: &BrokerSettings, name: &str) -> Result<Client, ConnectError> {
    // The client uses the process's default cryptography provider. More than one is linked, so one must be installed.
    // If one is installed already, it stays.
    let _: Result<(), _> = aws_lc_rs::default_provider().install_default();
    metrics::gauge!("noetl_broker_up").set(0);
    // A request that is in flight when the broker dies never gets a response.
    let options = ConnectOptions::new().name(name).request_timeout(Some(Duration::from_secs(2)));
    // A connection whose host has vanished counts as lost after three pings without an answer.
    let options = options.ping_interval(Duration::from_secs(5));
    let mut options = options.retry_on_initial_connect().require_tls(settings.tls).event_callback(tell());
    if let Some(path) = &settings.root_certificate {
        options = options.add_root_certificates(path.clone());
    }
    if let Some((certificate, key)) = &settings.client_certificate {
        options = options.add_client_certificate(certificate.clone(), key.clone());
    }
    if let Some(prefix) = &settings.inbox_prefix {
        options = options.custom_inbox_prefix(prefix);
    }
    options = match settings.login.clone() {
        Some(Login::Password(user, password)) => options.user_and_password(user, password),
        Some(Login::Token(token)) => options.token(token),
        Some(Login::Nkey(seed)) => options.nkey(seed),
        Some(Login::Credentials(text)) => {
            let unusable = |error| ConnectError::with_source(ConnectErrorKind::Authentication, error);
            options.credentials(&text).map_err(unusable)?
        }
        None => options,
    };
    options.max_reconnects(None).connect(&settings.addresses[..]).await
}

/// Returns a callback that logs the connection's errors, and reports its state as a metric. Until the connection is up
/// again, a repeated error is logged once.
fn tell() -> impl Fn(Event) -> std::future::Ready<()> + Send + Sync + 'static {
    let logged = Mutex::new(BTreeSet::<String>::new());
    move |event| {
        let mut logged = logged.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            Event::ServerError(_) | Event::ClientError(_) => log_once(&event, &mut logged),
            Event::Connected => {
                metrics::gauge!("noetl_broker_up").set(1);
                tracing::info!("connected to the broker");
                logged.clear();
            }
            Event::Disconnected | Event::Closed => {
                metrics::gauge!("noetl_broker_up").set(0);
                tracing::debug!(%event, "event of the broker connection");
            }
            event => tracing::debug!(%event, "event of the broker connection"),
        }
        std::future::ready(())
    }
}

/// Logs an error of the connection, unless it is in `logged`. So the refusals of several requests that are tried again and
/// again are one line each.
fn log_once(event: &Event, logged: &mut BTreeSet<String>) {
    let error = event.to_string();
    // The later parts of a refused subject differ for each message or reader.
    let key = error.splitn(6, '.').take(5).collect::<Vec<_>>().join(".");
    if logged.len() >= MAX_LOGGED || !logged.insert(key) {
        tracing::debug!(error, "the broker returned an error");
    } else if lacks_right(event) {
        tracing::warn!(
            error,
            "the user lacks a right at the broker; docs/operations/infrastructure.md lists the rights that a server needs"
        );
    } else {
        tracing::warn!(error, "the broker can't be used; NOETL_LOG=async_nats=debug logs the details");
    }
}

/// Returns whether the broker refused a subject to the user. The protocol has only a text for it (`-ERR` of the NATS client
/// protocol).
fn lacks_right(event: &Event) -> bool {
    matches!(event, Event::ServerError(ServerError::Other(text)) if text.starts_with("Permissions Violation"))
}
