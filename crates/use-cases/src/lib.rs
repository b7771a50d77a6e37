//! The use cases of the API: the interface of each, with the request, its checks, the result and the errors.
//! `noetl-service` carries the use cases out. The GraphQL layer depends on this crate and not on `noetl-service`, so a
//! change of a service compiles neither the schema nor its resolvers again.
//!
//! Each trait is implemented in the file of `noetl-service` that has its use case.

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
