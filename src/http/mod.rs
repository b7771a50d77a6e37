//! The transport: GraphQL over HTTP, WebSocket and server-sent events, for any executor.
//!
//! What it guarantees, whatever the schema does and whatever a client sends:
//!
//! - Nothing is read, queued or awaited without a bound; the bounds are [`Limits`].
//! - An operation is counted, weighed, validated and merged before it runs, at a bounded cost (`document`); its kind is
//!   known before it runs, and fields with equal response keys run once.
//! - A query or mutation ends by its deadline; a panic ends its operation alone.
//! - An answer has the shape that its operation asked for, also where fields failed ([`Edge::types`]).
//! - Connections, requests in flight and buffered bytes are capped, in total and per caller ([`listener`]); what goes
//!   beyond is refused at once with 503.
//! - Every error has an `extensions.code`, and tells nothing internal.
//! - A page of another site can't use this server through its visitor's browser.
//!
//! It relies on the application for admitting callers ([`Edge::admit`]), for what operations need ([`Edge::prepare`]), and
//! for the two ends of a shutdown: it cancels [`Edge::closing`], then waits for [`Edge::connections`].
//!
//! Of async-graphql-axum it uses the request extractor, over a body that was read within its bounds. The rest of that
//! crate does not keep the promises above (`tests/it/edge/integration.rs` shows each difference):
//!
//! - Its responses have the status 200 whatever happened, its GET runs mutations and ignores `operationName`, and its POST
//!   takes any content type. So [`graphql`] and [`media`] are our own.
//! - Its multipart stream lacks the wrapper `payload`, leaves out an item that can't be written, and sends the delimiter of
//!   a part with the next part, so a client sees each item one item late. So [`multipart`] is our own.
//! - Its WebSocket has no back-pressure, timeouts or limits, and the wrong close codes; it has no server-sent events. Both
//!   are our own, and so share an item that is written once for many readers (bytes in a reply's data).
//!
//! ```text
//! router → post/get → body, media ┐
//!        → websocket ─────────────┼→ operation (document) → engine → reply → streaming (sse, multipart)
//!        → sse ───────────────────┘
//! ```

mod admission;
pub mod assets;
mod body;
mod callers;
mod document;
mod edge;
mod engine;
mod fault;
mod graphql;
pub mod health;
mod invalid;
mod lexer;
mod limits;
pub mod listener;
mod media;
mod multipart;
mod observe;
mod operation;
mod outcome;
mod reply;
mod request_id;
mod router;
mod sites;
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
pub use operation::check_body;
pub use outcome::Advice;
pub use router::router;
pub use sites::Sites;
