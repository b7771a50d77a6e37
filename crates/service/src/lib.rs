//! The use cases, carried out. Each loads rows, decides with the rules of `domain`, and writes. Only this layer joins
//! databases. A use case of the API implements a trait of [`noetl_use_cases`]; the other files have
//! background work and what several use cases share.

mod bisection;
pub mod catalog;
pub mod check;
mod document_labels;
pub mod executions;
mod fan_out;
pub mod history;
pub mod ids;
pub mod ingest;
pub mod moves;
pub mod outbox;
pub mod projections;
pub mod read_model;
pub mod retention;
pub mod shards;
pub mod subscriptions;
pub mod sweep;
mod tenancy;
mod trace;
