//! noetl-graphql.

pub mod domain;
pub mod local;
pub mod service;
pub mod storage;
pub mod stream;
