//! Output types.

pub mod catalog;
pub mod event;
pub mod execution;
pub mod feed;
pub mod outbox;
pub mod projection;
pub mod server;
pub mod subscription;
