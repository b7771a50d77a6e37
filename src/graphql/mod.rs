//! The GraphQL schema. A resolver parses its input, makes one service call (or asks a loader, which batches), and wraps
//! the answer; rules live in `domain` and `service`.

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
