//! The GraphQL control plane of NoETL: the wiring of a process, its background tasks and its command line.
//!
//! ```text
//! commands -> app -> graphql_transport         the transport; knows no schema
//!              |     noetl_api -> noetl_use_cases -> noetl_storage -> noetl_domain
//!              |        `----> noetl_feed::read (live subscriptions, the feed's status)
//!              |     noetl_service -> noetl_use_cases    implements the use cases; `app` gives it to the API
//!              |-> noetl_feed -> noetl_storage, noetl_domain
//!              `-> tasks -> noetl_service, noetl_storage, noetl_domain
//! ```
//!
//! A request enters at the transport and passes through [`noetl_api`] and [`noetl_service`] to the storage crate. Live
//! events reach subscribers through [`noetl_feed`]. No layer calls a layer above it. Use cases return the row types of the
//! storage crate. Only [`config`] reads the environment, and only [`noetl_runtime::supervisor`] starts tasks. Every layer
//! reads JSON with the crate `plain-json`. [`noetl_auth`] identifies callers.

pub mod app;
pub mod commands;
pub mod config;
pub mod tasks;
pub mod telemetry;
pub mod web;

/// Version of the program. `scripts/release` gives it to the build, from the tag of the commit.
pub const VERSION: &str = match option_env!("NOETL_GRAPHQL_VERSION") {
    Some(version) => version,
    None => env!("CARGO_PKG_VERSION"),
};
