//! The connection to the broker.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_nats::{Client, ConnectError, ConnectErrorKind, ConnectOptions, Event};
use tokio_rustls::rustls::crypto::aws_lc_rs;

use crate::config::{BrokerSettings, Login};

/// Connects once the broker is up, and again whenever the connection is lost. A login that the broker refuses, or TLS that
/// fails, is logged and tried again: the broker may be the one that has to change.
pub(super) async fn connect(settings: &BrokerSettings, name: &str) -> Result<Client, ConnectError> {
    // The client takes the process's library of cryptography. More than one is linked, so it has to be chosen; a choice
    // that was made before stands.
    let _: Result<(), _> = aws_lc_rs::default_provider().install_default();
    // A request on its way when the broker dies is never answered.
    let options = ConnectOptions::new().name(name).request_timeout(Some(Duration::from_secs(2)));
    let mut options = options.retry_on_initial_connect().require_tls(settings.tls).event_callback(tell());
    if let Some(path) = &settings.root_certificate {
        options = options.add_root_certificates(path.clone());
    }
    if let Some((certificate, key)) = &settings.client_certificate {
        options = options.add_client_certificate(certificate.clone(), key.clone());
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

/// Logs the connection's errors, each once until the connection is up again.
fn tell() -> impl Fn(Event) -> std::future::Ready<()> + Send + Sync + 'static {
    let last = Arc::new(Mutex::new(String::new()));
    move |event| {
        let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            Event::ServerError(_) | Event::ClientError(_) => {
                let error = event.to_string();
                if *last != error {
                    tracing::warn!(error, "the broker can't be used; NOETL_LOG=async_nats=debug tells more");
                    *last = error;
                }
            }
            Event::Connected => {
                tracing::info!("connected to the broker");
                last.clear();
            }
            event => tracing::debug!(%event, "the broker's connection"),
        }
        std::future::ready(())
    }
}
