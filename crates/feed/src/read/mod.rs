//! The reading side. One hub per replica and shard reads the stream once, for all readers. A reader first replays stored
//! events, then receives live ones from the hub's ring, and gets a notice for each gap. One worker per replica and shard
//! reads the stored events for all replays.
//!
//! ```text
//! broker ── hub ──────────── ring, interests    live events: once for each replica and shard
//!    │                            │
//!    └── worker ── stored ── shard_reader       one shard for one reader: replays, then live events
//!        pages     requests       │
//!                  page_cache     │
//!                              waiting          order of the events of buckets that have moved
//!                                 │
//!                             incomplete        fields that are too large for a message
//!                                 │
//!                              reader           one cursor over all shards
//! ```

mod delivered;
mod error;
mod gap;
pub mod hub;
mod incomplete;
mod interests;
mod opener;
mod page_cache;
mod pages;
mod precedence;
pub mod reader;
mod replay;
mod requests;
mod reset;
mod ring;
mod shard_reader;
mod source;
mod stored;
mod waiting;
mod worker;
