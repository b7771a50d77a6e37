//! JSON is checked, read, carried and written as data.

#![allow(clippy::disallowed_methods, reason = "tests may read JSON directly")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]
#![allow(missing_docs, unreachable_pub, reason = "tests have no public API")]

mod check;
mod raw;
mod read;
mod text;
mod write;
