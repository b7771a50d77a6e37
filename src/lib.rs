//! noetl-graphql, the GraphQL control plane of NoETL: the map of its modules.
//!
//! ```text
//! commands -> app -> http                     the transport; knows no schema
//!              |     graphql -> service -> domain, storage -> domain
//!              |        `----> stream (live subscriptions, the feed's status)
//!              `-> stream, tasks -> service, storage, domain
//! ```
//!
//! Data comes in at [`http`], goes down once through [`graphql`] and [`service`] to [`storage`], and comes out through
//! [`stream`]; no layer calls back up. The row types of [`storage`] are what the services answer with. [`config`] is the
//! only reader of the environment, [`supervisor`] the only one who starts tasks. Every layer reads JSON with the crate
//! `noetl-json`.
//! [`auth`] identifies callers.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests read what they wrote themselves"))]

pub mod app;
pub mod auth;
pub mod commands;
pub mod config;
pub mod domain;
pub mod graphql;
pub mod http;
pub mod local;
pub mod service;
pub mod storage;
pub mod stream;
pub mod supervisor;
pub mod tasks;
pub mod telemetry;
