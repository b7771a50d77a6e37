//! What can go wrong with a database, told apart by what the caller can do about it.

use std::fmt;

use sqlx::error::DatabaseError;
use sqlx::postgres::PgDatabaseError;

use super::budget::Exceeded;
use crate::domain::shard::ShardIndex;

/// Which database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DatabaseName {
    /// The one that holds what is not per execution.
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
    /// The database can't be reached or did not answer in time; whether a write took place is unknown. Trying again
    /// later may help.
    #[error("{database} is unavailable: {reason}")]
    Unavailable {
        /// Which one.
        database: DatabaseName,
        /// For the log, not for users.
        reason: String,
    },
    /// Stored data that this server can't read.
    #[error("{database} holds {what}")]
    Corrupt {
        /// Which one.
        database: DatabaseName,
        /// What was found.
        what: String,
    },
    /// A value is one that the database can't store: a text with a NUL character, a year that it does not know.
    #[error("{database} can't store a value")]
    Unstorable {
        /// Which one.
        database: DatabaseName,
    },
    /// The operation passed a limit on what it may read.
    #[error(transparent)]
    LimitExceeded(Exceeded),
    /// The database refused the statement: a defect here or in its schema.
    #[error("{database} refused a statement")]
    Refused {
        /// Which one.
        database: DatabaseName,
        /// The driver's error.
        #[source]
        source: sqlx::Error,
    },
}

impl StorageError {
    /// Sorts a driver's error.
    pub(super) fn classify(database: DatabaseName, source: sqlx::Error) -> Self {
        if let Some(exceeded) = exceeded(&source) {
            Self::LimitExceeded(exceeded)
        } else if is_unavailability(&source) {
            Self::Unavailable { database, reason: source.to_string() }
        } else if is_unstorable(&source) {
            Self::Unstorable { database }
        } else {
            Self::Refused { database, source }
        }
    }

    /// What the values of a statement were refused for, where that is the trouble and the others' are not to blame: a
    /// constraint, a type, a size, a trigger. Says what of it users may know.
    #[must_use]
    pub fn refused_values(&self) -> Option<String> {
        match self {
            Self::Unstorable { .. } => Some("a value can't be stored".to_owned()),
            Self::Refused { source, .. } => refused_values(source.as_database_error()?),
            Self::Unavailable { .. } | Self::Corrupt { .. } | Self::LimitExceeded(_) => None,
        }
    }

    /// The limit that the operation passed, where that is the trouble.
    #[must_use]
    pub fn exceeded(&self) -> Option<Exceeded> {
        match self {
            Self::LimitExceeded(exceeded) => Some(*exceeded),
            _ => None,
        }
    }

    /// The shard that can't be reached, where that is the trouble.
    #[must_use]
    pub fn unavailable(&self) -> Option<DatabaseName> {
        match self {
            Self::Unavailable { database, .. } => Some(*database),
            _ => None,
        }
    }
}

/// The limit whose passing broke a statement off (see [`super::metered`]).
fn exceeded(error: &sqlx::Error) -> Option<Exceeded> {
    match error {
        sqlx::Error::Decode(source) => source.downcast_ref().copied(),
        _ => None,
    }
}

/// SQLSTATE `character_not_in_repertoire` (a NUL in a text), `untranslatable_character` (one in a JSON text) and
/// `datetime_field_overflow`.
fn is_unstorable(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(DatabaseError::code);
    code.is_some_and(|code| ["22021", "22P05", "22008"].contains(&code.as_ref()))
}

/// SQLSTATE classes of PostgreSQL's manual, appendix A: data exceptions, integrity constraints, check options of views,
/// exceptions raised by triggers, limits such as the size of an index's row.
fn refused_values(error: &dyn DatabaseError) -> Option<String> {
    let code = error.code()?;
    if !["22", "23", "44", "P0", "54"].iter().any(|class| code.starts_with(class)) {
        return None;
    }
    let column = error.try_downcast_ref::<PgDatabaseError>().and_then(PgDatabaseError::column);
    Some(match (error.constraint(), column) {
        (Some(constraint), _) => format!("the database's constraint {constraint:?} does not allow it"),
        (None, Some(column)) => format!("the database does not allow its {column:?}"),
        (None, None) => format!("the database does not allow a value of it (SQLSTATE {code})"),
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

/// SQLSTATE classes of PostgreSQL's manual, appendix A: connection exceptions, too many connections, the server going
/// down or coming up, a disk that is full, a standby that takes no writes, a lock or a statement that took too long, a
/// deadlock, a serialization failure.
fn is_unavailable_state(code: &str) -> bool {
    code.starts_with("08")
        || code.starts_with("57P")
        || ["53100", "53300", "25006", "25P03", "55P03", "57014", "40P01", "40001"].contains(&code)
}
