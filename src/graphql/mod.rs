//! The GraphQL schema. A resolver parses its input, makes one service call (or uses a loader, which batches), and wraps
//! the result. The rules are in `domain` and `service`.

pub mod access;
pub mod batching;
pub mod connection;
mod counted;
pub mod errors;
pub mod field_spans;
pub mod inputs;
pub mod live;
pub mod loaders;
pub mod mutation;
pub mod query;
pub mod scalars;
pub mod schema;
pub mod types;
