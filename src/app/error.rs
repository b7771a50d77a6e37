//! Errors that end a process.

use graphql_transport::listener::CertificateError;
use noetl_auth::oidc::BadProvider;
use noetl_auth::tokens::TokenFileError;
use noetl_domain::shard::BadShardMap;
use noetl_runtime::supervisor::EndedEarly;
use noetl_service::moves::MoveError;
use noetl_storage::error::{DatabaseName, StorageError};
use noetl_storage::migrate::MigrationError;
use noetl_storage::suitability::Unsuitable;
use noetl_use_cases::error::ServiceError;

/// Reason why a process can't start or can't continue.
#[derive(Debug, thiserror::Error)]
pub enum AppError {
    /// No databases are configured.
    #[error("no databases are configured; set NOETL_CLUSTER_DSN")]
    NoDatabases,
    /// A database failed.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// A database could not be migrated.
    #[error(transparent)]
    Migration(#[from] MigrationError),
    /// The services could not be started.
    #[error("the services could not be started")]
    Service(#[from] ServiceError),
    /// A database is not migrated to this version.
    #[error(
        "{0} is not migrated; run `noetl-graphql migrate` with the same settings and the role that owns the databases"
    )]
    NotMigrated(DatabaseName),
    /// A pooler shares the sessions of a database.
    #[error(
        "{0} is behind a pooler that gives the transactions of a connection any session of PostgreSQL, but locks and \
         settings belong to a session; use the mode `session` of PgBouncer, or connect to PostgreSQL directly"
    )]
    SharedSessions(DatabaseName),
    /// The database or its sessions have a property with which the server can't work.
    #[error("{database} can't be used: {reason}")]
    Unsuitable {
        /// The database.
        database: DatabaseName,
        /// The property, and what to change.
        reason: Unsuitable,
    },
    /// The role of the settings lacks rights in a database.
    #[error(
        "the role {role} lacks rights in {database}: {rights}; run `noetl-graphql migrate --grant-to {role}` with the role \
         that owns the tables"
    )]
    MissingRights {
        /// The database.
        database: DatabaseName,
        /// Name of the role.
        role: String,
        /// Rights and objects.
        rights: String,
    },
    /// The role that is to get rights does not exist.
    #[error("the role {role} does not exist on the server of {database}; nothing was changed")]
    UnknownRole {
        /// A database on the server.
        database: DatabaseName,
        /// Name of the role.
        role: String,
    },
    /// Tables of a shard reference the catalog table, which has no rows on a shard.
    #[error(
        "{database} can't be a shard: {tables} reference noetl.catalog by a foreign key, and a shard has no catalog; \
         drop those keys and migrate again"
    )]
    ReferencesCatalog {
        /// The database.
        database: DatabaseName,
        /// Names of the tables.
        tables: String,
    },
    /// Buckets were not moved.
    #[error(transparent)]
    Move(#[from] MoveError),
    /// The stored bucket map does not fit the configured shards.
    #[error("NOETL_SHARDS does not fit the stored bucket map: {0}")]
    ShardMap(#[from] BadShardMap),
    /// A database has another identity than the configured one.
    #[error(
        "the database configured as {database} is {found}; NOETL_CLUSTER_DSN and NOETL_SHARDS must name each database in \
         its place"
    )]
    WrongDatabase {
        /// Place at which the database is configured.
        database: DatabaseName,
        /// Identity that is stored in the database.
        found: String,
    },
    /// A database that was never part of this deployment is configured as a shard to which buckets are assigned.
    #[error(
        "the bucket map assigns {buckets} buckets to {database}, but the database configured as {database} was never a \
         part of this deployment; NOETL_SHARDS must name the existing shards in their order, and the new ones after them"
    )]
    UnknownShard {
        /// Place at which the database is configured.
        database: DatabaseName,
        /// Number of buckets that are assigned to it.
        buckets: usize,
    },
    /// A database that was never part of this deployment, and is to become a shard, holds data.
    #[error(
        "{0} can't be added: it holds executions, events or outbox rows, and a shard is added as an empty database"
    )]
    ShardHoldsData(DatabaseName),
    /// All machine ids are in use, or the configured one is.
    #[error("no machine id is free{}", .0.map(|id| format!(": {id}, which NOETL_SERVER_MACHINE_ID names, is held by another replica")).unwrap_or_default())]
    NoMachineId(Option<u16>),
    /// The broker's address can't be used.
    #[error("the broker's address can't be used")]
    Broker(#[from] async_nats::ConnectError),
    /// The token file can't be used.
    #[error("the token file can't be used: {0}")]
    Tokens(#[from] TokenFileError),
    /// The OpenID provider can't be used.
    #[error("the OpenID provider can't be used: {0}")]
    Provider(#[from] BadProvider),
    /// The server's own schema can't be parsed.
    #[error("the server's schema can't be parsed: {0}")]
    Schema(String),
    /// The listener can't be opened.
    #[error("can't listen on {address}: {source}")]
    Bind {
        /// Host and port.
        address: std::net::SocketAddr,
        /// Cause.
        source: std::io::Error,
    },
    /// The listener's certificate can't be used.
    #[error("NOETL_TLS_CERT and NOETL_TLS_KEY: {0}")]
    Certificate(#[from] CertificateError),
    /// A task ended before the shutdown.
    #[error(transparent)]
    EndedEarly(#[from] EndedEarly),
}
