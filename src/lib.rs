//! The GraphQL control plane of NoETL.
//!
//! ```text
//! commands -> app -> graphql_transport         the transport; knows no schema
//!              |     graphql -> service -> noetl_domain, noetl_storage -> noetl_domain
//!              |        `----> feed::read (live subscriptions, the feed's status)
//!              `-> feed, tasks -> service, noetl_storage, noetl_domain
//! ```
//!
//! A request enters at the transport and passes through [`graphql`] and [`service`] to the storage crate. Live events
//! reach subscribers through [`feed`]. No layer calls a layer above it. Services return the row types of the storage
//! crate. Only [`config`] reads the environment, and only [`runtime::supervisor`] starts tasks. Every layer reads JSON
//! with the crate `plain-json`. [`auth`] identifies callers.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests may call functions banned in production code"))]

pub mod app;
pub mod auth;
pub mod commands;
pub mod config;
pub mod feed;
pub mod graphql;
pub mod runtime;
pub mod service;
pub mod tasks;
pub mod web;
