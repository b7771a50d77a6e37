//! noetl-graphql.

pub mod app;
pub mod commands;
pub mod config;
pub mod domain;
pub mod graphql;
pub mod http;
pub mod local;
pub mod service;
pub mod storage;
pub mod stream;
pub mod supervisor;
pub mod tasks;
pub mod telemetry;
