//! noetl-graphql.

pub mod domain;
