//! Connections to the one of several servers that accepts writes: a primary and its standbys, each of which may become
//! the primary. libpq calls this `target_session_attrs=read-write`.
//!
//! The servers are tried in their order, beginning with the one that accepted writes last. Each has a head start over
//! the next one. So a server that does not respond delays a connection by its head start, and a slow one is still used.

use std::borrow::Cow;
use std::error::Error;
use std::io;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use sqlx::error::{DatabaseError, ErrorKind};
use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{Connection, Row};
use tokio::time::timeout;

use super::error::text;
use super::login::{Login, address};

/// Time after which the next server is tried too, if a server has not responded.
const HEAD_START: Duration = Duration::from_millis(300);

/// Opens a connection to the only server, or to the first one that accepts writes. The error names each server that was
/// tried.
pub(super) async fn connect(login: &Login) -> sqlx::Result<PgConnection> {
    let servers = login.servers().await?;
    if let [(_, options)] = servers.as_slice() {
        return PgConnection::connect_with(options).await.map_err(lost);
    }
    let (mut waiting, mut running) = (servers.into_iter(), FuturesUnordered::new());
    let mut failures = Vec::new();
    loop {
        if let Some((index, options)) = waiting.next() {
            running.push(async move { (index, address(&options), connect_writable(&options).await) });
        }
        let ended = if waiting.as_slice().is_empty() {
            running.next().await
        } else if let Ok(ended) = timeout(HEAD_START, running.next()).await {
            ended
        } else {
            continue;
        };
        match ended {
            Some((index, _, Ok(connection))) => {
                login.prefer(index);
                return Ok(connection);
            }
            Some((_, address, Err(error))) => failures.push((address, error)),
            None => return Err(joined(failures)),
        }
    }
}

async fn connect_writable(options: &PgConnectOptions) -> sqlx::Result<PgConnection> {
    let mut connection = PgConnection::connect_with(options).await.map_err(lost)?;
    // Not as a prepared statement, which a pooler may not know in this session.
    let shown = sqlx::raw_sql("SHOW transaction_read_only").fetch_one(&mut connection).await?;
    if shown.try_get::<String, _>(0)? == "off" {
        return Ok(connection);
    }
    connection.close().await?;
    // A later attempt may succeed, as with a server that does not accept connections yet.
    Err(sqlx::Error::Io(io::Error::new(io::ErrorKind::ConnectionRefused, "the server is read-only")))
}

/// Returns the error of an attempt to connect. The driver takes the end of the connection for an invalid response if it
/// waits for the response to its request for TLS. A load balancer without a server closes connections at this point.
fn lost(error: sqlx::Error) -> sqlx::Error {
    match error {
        sqlx::Error::Protocol(_) => sqlx::Error::Io(io::Error::new(io::ErrorKind::UnexpectedEof, error)),
        error => error,
    }
}

/// Refusal by a server, with a text that names each server that was tried.
#[derive(Debug, thiserror::Error)]
#[error("{tried}")]
struct Refusal {
    tried: String,
    cause: Box<dyn DatabaseError>,
}

impl DatabaseError for Refusal {
    fn message(&self) -> &str {
        &self.tried
    }

    fn code(&self) -> Option<Cow<'_, str>> {
        self.cause.code()
    }

    fn as_error(&self) -> &(dyn Error + Send + Sync + 'static) {
        self
    }

    fn as_error_mut(&mut self) -> &mut (dyn Error + Send + Sync + 'static) {
        self
    }

    fn into_error(self: Box<Self>) -> Box<dyn Error + Send + Sync + 'static> {
        self
    }

    fn kind(&self) -> ErrorKind {
        self.cause.kind()
    }
}

/// Returns the errors of all servers as one. It has the kind of the error that says most about a later attempt: that of
/// a server that responded, or else a refused connection.
fn joined(failures: Vec<(String, sqlx::Error)>) -> sqlx::Error {
    let reason = |error: &sqlx::Error| match error {
        sqlx::Error::Io(error) => error.to_string(),
        error => text(error),
    };
    let tried: Vec<_> = failures.iter().map(|(address, error)| format!("{address}: {}", reason(error))).collect();
    let tried = tried.join("; ");
    let rank = |error: &sqlx::Error| match error {
        sqlx::Error::Database(_) => 0,
        sqlx::Error::Io(error) if error.kind() == io::ErrorKind::ConnectionRefused => 1,
        _ => 2,
    };
    match failures.into_iter().map(|(_, error)| error).min_by_key(rank) {
        Some(sqlx::Error::Database(cause)) => sqlx::Error::Database(Box::new(Refusal { tried, cause })),
        Some(sqlx::Error::Io(error)) => sqlx::Error::Io(io::Error::new(error.kind(), tried)),
        Some(sqlx::Error::Tls(_)) => sqlx::Error::Tls(tried.into()),
        _ => sqlx::Error::Configuration(tried.into()),
    }
}
