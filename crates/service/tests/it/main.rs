//! Services of a process whose knowledge of the deployment is outdated.

#![allow(clippy::disallowed_methods, reason = "tests may use the clock and tasks directly")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]
#![allow(clippy::similar_names, reason = "similar names such as `paused` and `pauses` are clear in tests")]
#![allow(missing_docs, unreachable_pub, reason = "tests have no public API")]

mod machine_ids;
mod moved_outbox_rows;
mod shards;
