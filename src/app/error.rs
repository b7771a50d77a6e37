//! Why a process can't serve.

use crate::auth::oidc::BadProvider;
use crate::auth::tokens::TokenFileError;
use crate::domain::shard::BadShardMap;
use crate::http::listener::CertificateError;
use crate::service::error::ServiceError;
use crate::storage::error::{DatabaseName, StorageError};
use crate::storage::migrate::MigrationError;
use crate::supervisor::EndedEarly;

/// Why a process can't serve.
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
    /// A database lacks what this server needs.
    #[error("{0} is not migrated; run `noetl-graphql migrate` with the same settings")]
    NotMigrated(DatabaseName),
    /// A shard that once was a whole database of NoETL's.
    #[error(
        "{database} has no catalog of its own, but {tables} reference noetl.catalog by a foreign key, so nothing could be \
         written; drop those keys and migrate again"
    )]
    ReferencesCatalog {
        /// The database.
        database: DatabaseName,
        /// Names of the tables.
        tables: String,
    },
    /// The map does not fit the shards.
    #[error("NOETL_SHARDS does not fit the stored bucket map: {0}")]
    ShardMap(#[from] BadShardMap),
    /// A database belongs elsewhere.
    #[error("{database} belongs to {found}; NOETL_CLUSTER_DSN and NOETL_SHARDS must name each database in its place")]
    WrongDatabase {
        /// Place in which it is configured.
        database: DatabaseName,
        /// Identity that the database states.
        found: String,
    },
    /// All machine ids, or the pinned one, are taken.
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
    /// The schema has no nullability table.
    #[error("the schema can't be read back: {0}")]
    Schema(String),
    /// The port can't be listened on.
    #[error("{address} can't be listened on: {source}")]
    Bind {
        /// Host and port.
        address: std::net::SocketAddr,
        /// Why.
        source: std::io::Error,
    },
    /// The listener's certificate can't be used.
    #[error("NOETL_TLS_CERT and NOETL_TLS_KEY: {0}")]
    Certificate(#[from] CertificateError),
    /// A task ended before it was asked to.
    #[error(transparent)]
    EndedEarly(#[from] EndedEarly),
}
