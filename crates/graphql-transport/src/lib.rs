#![doc = include_str!("../README.md")]
//!
//! # Modules
//!
//! ```text
//! router → graphql → body, media ─┐
//!        → websocket ─────────────┼→ operation (document) → engine → reply → compression, streaming (sse, multipart)
//!        → sse ───────────────────┘
//! ```
//!
//! Each handler admits its caller first (`edge`), and then takes what its request uses (`resources`). A request that is
//! refused before its operation is checked is a `rejection`; an operation that may not run is an `operation_error`.
//! A value of a reply that holds bytes is JSON text: it can be serialised once and sent to many readers.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests read what they wrote themselves"))]

mod absent_values;
mod admission;
mod beside;
mod body;
mod compression;
mod document;
mod edge;
mod engine;
mod extensions;
mod given_variables;
mod graphql;
mod lexer;
mod limits;
pub mod listener;
mod media;
mod metric;
mod multipart;
mod observe;
mod operation;
mod operation_error;
mod outcome;
mod rejection;
mod reply;
mod request_id;
mod resources;
mod router;
pub mod sites;
mod size;
mod sse;
mod streaming;
pub mod trace;
mod transport;
pub mod trusted;
mod websocket;

pub use absent_values::AbsentValues;
pub use admission::{Admit, Admitted, Caller, Permits, Prepare, Refusal};
pub use beside::limited;
pub use body::check_body;
pub use compression::accepts_gzip;
pub use document::{CheckedScalar, InvalidSchema, TypeSystem};
pub use edge::Edge;
pub use limits::Limits;
pub use metric::{Metric, MetricType};
pub use observe::{FaultSignal, METRICS};
pub use operation_error::{Limit, OperationError, RuleViolation};
pub use outcome::OutcomeHint;
pub use reply::RETRYABLE;
pub use router::router;
pub use sites::Sites;
