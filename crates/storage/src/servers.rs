//! Connections to the one of several servers that accepts writes: a primary and its standbys, each of which may become
//! the primary. libpq calls this `target_session_attrs=read-write`.
//!
//! The servers are tried in their order, beginning with the one that accepted writes last. Each has a head start over
//! the next one. So a server that does not respond delays a connection by its head start, and a slow one is still used.
//! A server after the first one is used only if each one before it refused or did not respond within its head start.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::error::Error;
use std::time::Duration;
use std::{io, mem};

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use sqlx::error::{DatabaseError, ErrorKind};
use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{Connection, Row};
use tokio::time::timeout;

use super::error::{READ_ONLY, has_code, is_refused_connection, text};
use super::login::{Login, address};

/// Time after which the second server is tried too, if the first one, which accepted writes last, has not responded.
pub(super) const FIRST_HEAD_START: Duration = Duration::from_millis(600);
/// Time after which the next server is tried too, if one of the others has not responded.
pub(super) const HEAD_START: Duration = Duration::from_millis(150);
const _: () = assert!(FIRST_HEAD_START.as_millis() > HEAD_START.as_millis(), "a slow primary is kept");

/// Opens a connection to the only server, or to the first one that accepts writes. The error names each server that was
/// tried.
pub(super) async fn connect(login: &Login) -> sqlx::Result<PgConnection> {
    let servers = login.servers().await?;
    if let [(_, options)] = servers.as_slice() {
        return PgConnection::connect_with(options).await.map_err(lost);
    }
    let preferred = servers.first().map(|(index, _)| *index);
    let (mut waiting, mut running) = (servers.into_iter(), FuturesUnordered::new());
    let (mut failures, mut head_start) = (Vec::new(), FIRST_HEAD_START);
    loop {
        if let Some((index, options)) = waiting.next() {
            running.push(async move { (index, address(&options), connect_writable(&options).await) });
        }
        let ended = if waiting.as_slice().is_empty() {
            running.next().await
        } else if let Ok(ended) = timeout(mem::replace(&mut head_start, HEAD_START), running.next()).await {
            ended
        } else {
            continue;
        };
        match ended {
            Some((index, _, Ok(connection))) => {
                login.prefer(index);
                return Ok(connection);
            }
            Some((index, address, Err(error))) => {
                failures.push(Failure { address, error, is_preferred: Some(index) == preferred });
            }
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
    let (message, code) = ("the server is read-only".to_owned(), Some(READ_ONLY.to_owned()));
    Err(sqlx::Error::Database(Box::new(Refusal { message, code, is_certain: true })))
}

/// Returns the error of an attempt to connect. The driver takes the end of the connection for an invalid response if it
/// waits for the response to its request for TLS. A load balancer without a server closes connections at this point.
fn lost(error: sqlx::Error) -> sqlx::Error {
    match error {
        sqlx::Error::Protocol(_) => sqlx::Error::Io(io::Error::new(io::ErrorKind::UnexpectedEof, error)),
        error => error,
    }
}

/// Returns whether the error of an attempt to connect comes from a database that is up, such as too many connections. If
/// the server that accepted writes last has not responded, the database counts as down, although others have.
pub(super) fn is_up(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(DatabaseError::code);
    is_certain(error) && !code.is_some_and(|code| code == READ_ONLY || is_refused_connection(&code))
}

/// Returns whether every server has responded and is read-only.
pub(super) fn is_read_only(error: &sqlx::Error) -> bool {
    has_code(error, &[READ_ONLY]) && is_certain(error)
}

/// Returns whether an error is a response that tells the state of the database.
fn is_certain(error: &sqlx::Error) -> bool {
    let Some(refusal) = error.as_database_error() else { return false };
    refusal.try_downcast_ref::<Refusal>().is_none_or(|refusal| refusal.is_certain)
}

/// A failed attempt to connect.
struct Failure {
    address: String,
    error: sqlx::Error,
    /// Whether the server is the one that accepted writes last.
    is_preferred: bool,
}

/// Refusal by a read-only server, or by several servers.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
struct Refusal {
    /// Reason; of several servers, it names each one that was tried.
    message: String,
    /// SQLSTATE.
    code: Option<String>,
    /// Whether it tells the state of the database: each server has responded, or the preferred one, which is up.
    is_certain: bool,
}

impl DatabaseError for Refusal {
    fn message(&self) -> &str {
        &self.message
    }

    fn code(&self) -> Option<Cow<'_, str>> {
        self.code.as_deref().map(Cow::Borrowed)
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
        ErrorKind::Other
    }
}

/// Returns the errors of all servers as one. It has the kind and the SQLSTATE of the error that says most about a later
/// attempt, which its text names last.
fn joined(mut failures: Vec<Failure>) -> sqlx::Error {
    failures.sort_by_key(|failure| Reverse(rank(&failure.error)));
    let is_certain = failures.iter().all(|failure| is_certain(&failure.error))
        || failures.iter().any(|failure| failure.is_preferred && is_up(&failure.error));
    let tried = failures.iter().map(|Failure { address, error, .. }| format!("{address}: {}", reason(error)));
    let mut tried: Vec<_> = tried.collect();
    let Some(Failure { address, error: last, .. }) = failures.pop() else {
        return sqlx::Error::Configuration("no server".into());
    };
    if let Some(refusal) = last.as_database_error() {
        // The reader of the error adds the SQLSTATE.
        tried.pop();
        tried.push(format!("{address}: {}", refusal.message()));
    }
    let message = tried.join("; ");
    match last {
        sqlx::Error::Database(cause) => {
            let code = cause.code().map(Cow::into_owned);
            sqlx::Error::Database(Box::new(Refusal { message, code, is_certain }))
        }
        sqlx::Error::Io(error) => sqlx::Error::Io(io::Error::new(error.kind(), message)),
        sqlx::Error::Tls(_) => sqlx::Error::Tls(message.into()),
        _ => sqlx::Error::Configuration(message.into()),
    }
}

/// Returns the rank of an error; the lowest one says most about a later attempt. A read-only server ranks after those
/// that may be the primary, because it can be a standby in normal operation.
fn rank(error: &sqlx::Error) -> u8 {
    match error {
        error if is_up(error) => 0,
        sqlx::Error::Database(_) if !has_code(error, &[READ_ONLY]) => 1,
        sqlx::Error::Database(_) => 2,
        sqlx::Error::Io(error) if error.kind() == io::ErrorKind::ConnectionRefused => 3,
        _ => 4,
    }
}

fn reason(error: &sqlx::Error) -> String {
    match error {
        sqlx::Error::Io(error) => error.to_string(),
        error => text(error),
    }
}
