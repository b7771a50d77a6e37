//! The transport: GraphQL over HTTP, WebSocket and server-sent events, for any executor.
//!
//! These guarantees hold for every schema and for all input from clients:
//!
//! - Every read, queue and wait has a bound; the bounds are [`Limits`].
//! - An operation is measured, validated and merged before it runs, at a bounded cost (`document`). Its kind is known
//!   before it runs, and fields with equal response keys run once.
//! - A query or mutation ends by its deadline. A panic ends only its own operation.
//! - A response has the shape of its operation, even if fields failed ([`Edge::types`]).
//! - Connections, requests in flight and buffered bytes are capped, in total and per caller ([`listener`]). A request
//!   beyond a cap is refused at once with 503.
//! - Every error has an `extensions.code` and contains no internal detail.
//! - A page of another site can't use this server through its visitor's browser, unless its origin is allowed.
//!
//! The module relies on the application in three ways. [`Edge::admit`] admits callers. [`Edge::prepare`] attaches the
//! data that operations need. At a shutdown the application cancels [`Edge::closing`], then waits for
//! [`Edge::connections`].
//!
//! Only the request extractor of async-graphql-axum is used, on a body that was read within its limits. The rest of
//! that crate does not give the guarantees above (`tests/it/integration.rs` shows each difference):
//!
//! - Its responses always have the status 200. Its GET runs mutations and ignores `operationName`. Its POST takes any
//!   content type. [`graphql`] and [`media`] replace these parts.
//! - Its multipart stream lacks the wrapper `payload` and omits an item that can't be serialised. It sends the
//!   delimiter of a part with the next part, so a client sees each item one item late. [`multipart`] replaces it.
//! - Its WebSocket has no back-pressure, timeouts or limits, and uses wrong close codes. It has no server-sent events.
//!   [`websocket`] and [`sse`] replace these parts. They can send an item that was serialised once for many readers
//!   (bytes in a reply's data).
//!
//! ```text
//! router → post/get → body, media ┐
//!        → websocket ─────────────┼→ operation (document) → engine → reply → streaming (sse, multipart)
//!        → sse ───────────────────┘
//! ```

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests read what they wrote themselves"))]

mod admission;
mod body;
mod callers;
mod document;
mod edge;
mod engine;
mod fault;
mod graphql;
mod invalid;
mod lexer;
mod limits;
pub mod listener;
mod media;
mod metric;
mod multipart;
mod observe;
mod operation;
mod outcome;
mod reply;
mod request_id;
mod router;
pub mod sites;
mod size;
mod sse;
mod streaming;
pub mod trace;
pub mod trusted;
mod websocket;

pub use admission::{Admit, Admitted, Caller, Permits, Prepare, Refusal};
pub use document::{InvalidSchema, TypeSystem};
pub use edge::Edge;
pub use invalid::{Broken, Invalid, Limit};
pub use limits::Limits;
pub use metric::{Metric, MetricType};
pub use observe::{CONNECTION_METRICS, METRICS};
pub use operation::check_body;
pub use outcome::Advice;
pub use router::router;
pub use sites::Sites;
