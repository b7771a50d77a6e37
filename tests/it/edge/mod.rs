//! The transport's guarantees over real HTTP, WebSocket and event stream connections, with a schema whose fields fail
//! on purpose.

mod bounds;
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
