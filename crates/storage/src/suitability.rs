//! Properties of a database and of its sessions with which the server can't work, and which its sessions can't change.

use super::error::StorageError;
use super::pools::Database;

/// Property with which the server can't work, and what to change.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unsuitable {
    /// The database has another encoding than UTF8.
    #[error("its encoding is {0}, which can't keep every text; create the database with the encoding UTF8")]
    Encoding(String),
    /// Its sessions act as those of logical replication, in which ordinary triggers and foreign keys have no effect.
    #[error(
        "its sessions have session_replication_role = replica, which turns triggers off; remove the setting from the \
         role, the database or PostgreSQL's configuration"
    )]
    ReplicationRole,
}

/// Returns a property with which the server can't work, if the database has one.
#[tracing::instrument(level = "debug", name = "sql.suitability.find", skip_all, fields(database = %database.name()))]
pub async fn find(database: &Database) -> Result<Option<Unsuitable>, StorageError> {
    let found = sqlx::query!(
        r#"SELECT current_setting('server_encoding') AS "encoding!",
                  current_setting('session_replication_role') = 'replica' AS "is_replica!""#,
    );
    let found = database.run(found.fetch_one(database.pool())).await?;
    if found.encoding != "UTF8" {
        return Ok(Some(Unsuitable::Encoding(found.encoding)));
    }
    Ok(found.is_replica.then_some(Unsuitable::ReplicationRole))
}
