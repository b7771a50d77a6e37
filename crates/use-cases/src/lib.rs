//! What the server can do: the interface of each use case, with its request, its result and its errors, and the checks of
//! requests that need no database. `noetl-service` carries the use cases out; the GraphQL layer depends on this crate
//! only, so a change of a service compiles neither the schema nor its resolvers again.
//!
//! Each trait is implemented in the file of `noetl-service` that has its use case.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests may call functions banned in production code"))]

pub mod bounds;
pub mod catalog;
pub mod error;
pub mod executions;
pub mod ids;
pub mod ingest;
pub mod listing;
pub mod outbox;
pub mod projections;
pub mod subscriptions;
pub mod tenancy;
