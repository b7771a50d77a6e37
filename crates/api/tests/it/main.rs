//! Rules of the schema and its resolvers, checked without databases.

#![allow(clippy::disallowed_methods, reason = "tests may use the clock and tasks directly")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]
#![allow(missing_docs, unreachable_pub, reason = "tests have no public API")]

mod access;
mod budget;
mod inputs;
mod outcome_hints;
mod plain_lists;
mod plain_values;
mod render_cache;
mod rendering;
mod shared_reads;
mod stream_cursor;
mod updates;
