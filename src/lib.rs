//! The GraphQL control plane of NoETL.
//!
//! ```text
//! commands -> app -> http                     the transport; knows no schema
//!              |     graphql -> service -> domain, storage -> domain
//!              |        `----> stream (live subscriptions, the feed's status)
//!              `-> stream, tasks -> service, storage, domain
//! ```
//!
//! A request enters at [`http`] and passes through [`graphql`] and [`service`] to [`storage`]. Live events reach
//! subscribers through [`stream`]. No layer calls a layer above it. Services return the row types of [`storage`]. Only
//! [`config`] reads the environment, and only [`supervisor`] starts tasks. Every layer reads JSON with the
//! crate `plain-json`.
//! [`auth`] identifies callers.

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
