//! Rules of the whole schema, checked by executing it without databases.

#![allow(clippy::disallowed_methods, reason = "tests may use the clock and tasks directly")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]
#![allow(missing_docs, unreachable_pub, reason = "tests have no public API")]

mod access;
mod budget;
mod plain_lists;
