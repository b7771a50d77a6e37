//! Errors of database operations, divided by what the caller can do about them.

use std::fmt;

use sqlx::error::DatabaseError;
use sqlx::postgres::PgDatabaseError;

use super::budget::Exceeded;
use noetl_domain::shard::ShardIndex;

/// SQLSTATE of a statement that writes in a read-only session.
pub(super) const READ_ONLY: &str = "25006";

/// SQLSTATE of a login with a wrong password.
pub(super) const WRONG_PASSWORD: &str = "28P01";

/// SQLSTATE of a write for which the disk has no space.
pub(super) const DISK_FULL: &str = "53100";

/// SQLSTATE of a statement for which the role has no right.
pub(super) const DENIED: &str = "42501";

/// Maximum number of combinations of a path and a status that a list of executions with a path prefix searches in one
/// shard. A prefix with more of them is refused. `execution_along` has the same number.
pub const MAX_PATH_KINDS: u32 = 4000;

/// Name of a database in a deployment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DatabaseName {
    /// The database of all data that does not belong to one execution.
    Cluster,
    /// The shard with this index.
    Shard(ShardIndex),
}

impl fmt::Display for DatabaseName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cluster => f.write_str("the cluster database"),
            Self::Shard(index) => write!(f, "shard {index}"),
        }
    }
}

/// A failed database operation.
#[derive(Debug, thiserror::Error)]
pub enum StorageError {
    /// The database can't be reached or did not respond in time. A write may have taken place. A later attempt may
    /// succeed.
    #[error("{database} is unavailable: {reason}")]
    Unavailable {
        /// The database.
        database: DatabaseName,
        /// Reason, for the log and not for users.
        reason: String,
    },
    /// The database is up, but did not finish a statement in time. A write may have taken place. A later attempt may
    /// succeed.
    #[error("{database} did not finish a statement in time: {reason}")]
    TimedOut {
        /// The database.
        database: DatabaseName,
        /// Reason, for the log and not for users.
        reason: String,
    },
    /// The shard refused a row, because its bucket is being moved or has moved to another shard. Nothing was written by
    /// the statement. A later attempt, at the shard that the map then names, may succeed.
    #[error("{database} refused a row of a bucket that is being moved or has moved")]
    BucketMoves {
        /// The database.
        database: DatabaseName,
    },
    /// Stored data that this server can't read.
    #[error("{database} holds {what}")]
    Corrupt {
        /// The database.
        database: DatabaseName,
        /// Description of the data.
        what: String,
    },
    /// A value that the database can't store, such as a text with a NUL character or a year out of range.
    #[error("{database} can't store a value")]
    Unstorable {
        /// The database.
        database: DatabaseName,
    },
    /// A list of executions would search more than [`MAX_PATH_KINDS`] combinations of a path and a status.
    #[error("more than {MAX_PATH_KINDS} combinations of a path and a status begin with the path prefix")]
    TooManyPaths,
    /// The operation exceeded a limit of its budget.
    #[error(transparent)]
    LimitExceeded(Exceeded),
    /// The database refused the statement: a defect here or in its schema.
    #[error("{database} refused a statement: {}", text(cause))]
    Refused {
        /// The database.
        database: DatabaseName,
        /// The driver's error, which the message contains.
        cause: sqlx::Error,
    },
}

impl StorageError {
    /// Classifies a driver's error.
    pub(super) fn classify(database: DatabaseName, source: sqlx::Error) -> Self {
        if let Some(exceeded) = exceeded(&source) {
            Self::LimitExceeded(exceeded)
        } else if has_code(&source, &[FENCED]) {
            Self::BucketMoves { database }
        } else if has_code(&source, &[TOO_MANY_PATHS]) {
            Self::TooManyPaths
        } else if is_timeout(&source) {
            Self::TimedOut { database, reason: text(&source) }
        } else if is_unavailability(&source) {
            Self::Unavailable { database, reason: text(&source) }
        } else if is_unstorable(&source) {
            Self::Unstorable { database }
        } else {
            Self::Refused { database, cause: source }
        }
    }

    /// Returns the reason, in words for users, if the database refused the statement's values: by a constraint, a type,
    /// a size limit or a trigger. The same statement with other values may succeed.
    #[must_use]
    pub fn refused_values(&self) -> Option<String> {
        match self {
            Self::Unstorable { .. } => Some("a value can't be stored".to_owned()),
            Self::Refused { cause, .. } => refused_values(cause.as_database_error()?),
            Self::Unavailable { .. }
            | Self::TimedOut { .. }
            | Self::BucketMoves { .. }
            | Self::Corrupt { .. }
            | Self::TooManyPaths
            | Self::LimitExceeded(_) => None,
        }
    }

    /// Returns the exceeded limit, if that is the error.
    #[must_use]
    pub fn exceeded(&self) -> Option<Exceeded> {
        match self {
            Self::LimitExceeded(exceeded) => Some(*exceeded),
            _ => None,
        }
    }

    /// Returns the unavailable database, if that is the error.
    #[must_use]
    pub fn unavailable(&self) -> Option<DatabaseName> {
        match self {
            Self::Unavailable { database, .. } => Some(*database),
            _ => None,
        }
    }

    /// Returns the database that did not finish a statement in time, if that is the error.
    #[must_use]
    pub fn timed_out(&self) -> Option<DatabaseName> {
        match self {
            Self::TimedOut { database, .. } => Some(*database),
            _ => None,
        }
    }

    /// Returns the shard that refused a row of a bucket that is being moved or has moved, if that is the error.
    #[must_use]
    pub fn bucket_moves(&self) -> Option<DatabaseName> {
        match self {
            Self::BucketMoves { database } => Some(*database),
            _ => None,
        }
    }

    /// Returns whether a later attempt may succeed: the database is unavailable, or was too slow, or a bucket is being
    /// moved.
    #[must_use]
    pub fn is_temporary(&self) -> bool {
        matches!(self, Self::Unavailable { .. } | Self::TimedOut { .. } | Self::BucketMoves { .. })
    }
}

/// Returns the text of a driver's error. That of a database has its SQLSTATE; the driver's own text has a line number of
/// PostgreSQL's sources instead.
pub(super) fn text(error: &sqlx::Error) -> String {
    match error.as_database_error().map(|refusal| (refusal.message(), refusal.code())) {
        Some((message, Some(code))) => format!("{message} (SQLSTATE {code})"),
        Some((message, None)) => message.to_owned(),
        None => error.to_string(),
    }
}

/// SQLSTATE of `noetl.check_bucket_fence()` (`migrations/0009_bucket_fence.sql`).
const FENCED: &str = "NB001";

/// SQLSTATE of `noetl.refuse_path_prefix()` (`migrations/0004_execution.sql`).
const TOO_MANY_PATHS: &str = "NL001";

/// Returns whether a database returned one of these SQLSTATEs.
pub(super) fn has_code(error: &sqlx::Error, codes: &[&str]) -> bool {
    error.as_database_error().and_then(DatabaseError::code).is_some_and(|code| codes.contains(&code.as_ref()))
}

/// Returns whether the database ended the statement because it took too long, or because it waited too long for a lock:
/// SQLSTATE `query_canceled` and `lock_not_available`.
fn is_timeout(error: &sqlx::Error) -> bool {
    has_code(error, &["57014", "55P03"])
}

/// Returns the exceeded limit that ended a statement early (see [`super::metered`]).
fn exceeded(error: &sqlx::Error) -> Option<Exceeded> {
    match error {
        sqlx::Error::Decode(source) => source.downcast_ref().copied(),
        _ => None,
    }
}

/// Returns whether the SQLSTATE is `character_not_in_repertoire` (a NUL in a text), `untranslatable_character` (a NUL
/// in a JSON text) or `datetime_field_overflow`.
fn is_unstorable(error: &sqlx::Error) -> bool {
    has_code(error, &["22021", "22P05", "22008"])
}

/// Returns a description for users if the SQLSTATE class concerns the values (PostgreSQL manual, appendix A): data
/// exceptions, integrity constraints, check options of views, exceptions raised by triggers, and limits such as the
/// size of an index row.
fn refused_values(error: &dyn DatabaseError) -> Option<String> {
    let code = error.code()?;
    if !["22", "23", "44", "P0", "54"].iter().any(|class| code.starts_with(class)) {
        return None;
    }
    let column = error.try_downcast_ref::<PgDatabaseError>().and_then(PgDatabaseError::column);
    Some(match (error.constraint(), column) {
        (Some(constraint), _) => format!("the database's constraint {constraint:?} does not allow it"),
        (None, Some(column)) => format!("the database does not allow this value of column {column:?}"),
        (None, None) => format!("the database does not allow one of its values (SQLSTATE {code})"),
    })
}

fn is_unavailability(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Io(_)
        | sqlx::Error::Tls(_)
        | sqlx::Error::PoolTimedOut
        | sqlx::Error::PoolClosed
        | sqlx::Error::WorkerCrashed => true,
        sqlx::Error::Database(refusal) => refusal.code().is_some_and(|code| is_unavailable_state(&code)),
        _ => false,
    }
}

/// Returns whether the SQLSTATE means that the database accepts no connections: its server is starting or stopping, its
/// connections are not allowed (`ALLOW_CONNECTIONS false`), it does not exist, for example while it is restored, or it
/// rejects the login.
pub(super) fn is_refused_connection(code: &str) -> bool {
    code.starts_with("57P") || ["55000", "3D000", "28000", WRONG_PASSWORD].contains(&code)
}

/// Returns whether the SQLSTATE means that the database is unavailable (PostgreSQL manual, appendix A): connection
/// exceptions, too many connections, a server that is starting or stopping, a full disk, a read-only standby, a
/// deadlock, a serialization failure.
fn is_unavailable_state(code: &str) -> bool {
    code.starts_with("08")
        || is_refused_connection(code)
        || [DISK_FULL, "53300", READ_ONLY, "25P03", "40P01", "40001"].contains(&code)
}
