//! The listener of a process: its limits, its certificate, and the file descriptors that it may use.

use std::time::Duration;

use nix::sys::resource::{Resource, getrlimit, setrlimit};

use super::background;
use super::error::AppError;
use crate::config::{ConnectionSettings, TlsSettings};
use graphql_transport::Limits;
use graphql_transport::listener::{CertificateFiles, Listener, Tls};
use noetl_domain::page::{DEFAULT_COUNT, DEFAULT_PAGE, MAX_COUNT, MAX_PAGE};
use noetl_runtime::supervisor::{ShutdownTimeouts, Supervisor};
use noetl_use_cases::outbox::MAX_ROWS;

/// File descriptors that are reserved for databases, the broker and files; the others are for clients' connections.
const RESERVED: u64 = 1_024;

/// Time for sending the response of an operation that used its whole deadline.
const RESPONSE_SEND_TIME: Duration = Duration::from_secs(5);

/// Returns the transport's limits. The limit on connections is lowered to what the limit on open files allows.
pub(super) fn limits(settings: &ConnectionSettings) -> Limits {
    let possible = connections_within(raise_file_limit());
    if possible < settings.connections {
        tracing::info!(
            possible,
            configured = settings.connections,
            "the limit on open files (ulimit -n) allows fewer connections than NOETL_MAX_CONNECTIONS"
        );
    }
    Limits {
        deadline: settings.deadline,
        header_timeout: settings.header_timeout,
        connections: settings.connections.min(possible),
        live_connections: settings.live_connections,
        requests: settings.requests,
        buffered_bytes: settings.buffered_bytes,
        live_bytes: settings.live_bytes,
        caller_share: settings.caller_share,
        ..document_limits()
    }
}

/// Returns the transport's limits with the lengths of the API's lists.
#[must_use]
pub fn document_limits() -> Limits {
    Limits {
        default_page: DEFAULT_PAGE.into(),
        largest_page: MAX_PAGE.into(),
        largest_limit: MAX_ROWS as u64,
        default_count: DEFAULT_COUNT.into(),
        largest_count: MAX_COUNT.into(),
        ..Limits::default()
    }
}

/// Returns the listener, and starts the task that reloads the certificate when it changes.
pub(super) fn new(supervisor: &mut Supervisor, limits: &Limits, tls: Option<Tls>) -> Listener {
    if let Some(tls) = &tls {
        background::start_certificate_reload(supervisor, tls);
    }
    Listener { limits: *limits, tls, draining: supervisor.draining(), closing: supervisor.closing() }
}

/// Returns the durations of a shutdown. An operation that starts just before it keeps its full deadline.
pub(super) fn shutdown_timeouts(settings: &ConnectionSettings, limits: &Limits) -> ShutdownTimeouts {
    ShutdownTimeouts { delay: settings.shutdown_delay, drain: limits.deadline + RESPONSE_SEND_TIME }
}

/// Raises the soft limit on open files to the hard one and returns it.
fn raise_file_limit() -> u64 {
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return RESERVED };
    match setrlimit(Resource::RLIMIT_NOFILE, hard, hard) {
        Ok(()) => hard,
        Err(error) => {
            tracing::warn!(%error, "could not raise the limit on open files");
            soft
        }
    }
}

fn connections_within(files: u64) -> usize {
    usize::try_from(files.saturating_sub(RESERVED).max(files / 2)).unwrap_or(usize::MAX)
}

/// Reads the configured certificate.
pub(super) async fn tls(settings: Option<&TlsSettings>) -> Result<Option<Tls>, AppError> {
    let Some(TlsSettings { certificate, key }) = settings.cloned() else { return Ok(None) };
    Ok(Some(Tls::read(CertificateFiles { certificate, key }).await?))
}
