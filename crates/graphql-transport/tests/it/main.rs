//! The transport's guarantees over real HTTP, WebSocket and event stream connections, with a schema whose fields fail
//! on purpose.

#![allow(clippy::disallowed_methods, reason = "tests may use the clock, tasks and the environment directly")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]
#![allow(missing_docs, unreachable_pub, reason = "tests have no public API")]

mod beside;
mod bounds;
mod compression;
mod connections;
mod event_stream;
mod expiry;
mod faults;
mod http;
mod integration;
mod merging;
mod multipart;
mod observed;
mod schema;
mod server;
mod sites;
mod socket;
mod socket_codes;
mod socket_pressure;
mod trusted;
