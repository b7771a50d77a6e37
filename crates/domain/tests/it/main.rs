//! The guarantees of the domain's rules, checked over their public API.

#![allow(clippy::disallowed_methods, reason = "tests may read JSON directly")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]
#![allow(missing_docs, unreachable_pub, reason = "tests have no public API")]

mod execution_start;
mod fold;
mod subscription_document;
mod subscription_log;
