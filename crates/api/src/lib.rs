//! The GraphQL schema. A resolver parses its input, calls one use case (or uses a loader, which batches), and wraps the
//! result. The rules are in `noetl-domain`, the use cases in `noetl-use-cases`.
//!
//! Each aggregate has a folder with its types, inputs, payloads, resolvers and loaders. A folder uses the folders before
//! it in this order: `catalog`, `event`, `subscription`, `execution`, `outbox`, `server`, `node`; only the edges of events
//! lead to later ones. Of the shared files, only `schema`, `live_item` and `context` use aggregates.

pub mod access;
pub mod audience;
mod audit;
pub mod batching;
pub mod catalog;
pub mod connection;
pub mod context;
pub mod deadline;
pub mod errors;
pub mod event;
pub mod execution;
pub mod field_spans;
mod filters;
mod guards;
pub mod labels;
mod live;
pub mod live_item;
pub mod loaders;
pub mod moved_input;
pub mod node;
pub mod outbox;
pub mod outcome_hint;
pub mod plain;
pub mod rendering;
mod response_budget;
pub mod scalars;
pub mod schema;
pub mod selection;
mod selector;
pub mod server;
pub mod shared_item;
pub mod shared_reads;
pub mod subscription;
pub mod trace;
pub mod updates;
