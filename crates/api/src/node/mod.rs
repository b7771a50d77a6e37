//! Objects by an id that is unique over all types.

pub mod query;
pub mod types;
