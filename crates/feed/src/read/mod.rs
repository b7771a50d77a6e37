//! The reading side. One hub per replica and shard reads the stream once, for all readers. A reader first replays stored
//! events, then receives live ones from the hub's ring, and gets a notice for each gap. One worker per replica and shard
//! reads the stored events for all replays.

pub mod delivered;
pub mod error;
mod gap;
mod held;
pub mod hub;
mod interests;
mod opener;
mod page_cache;
mod pages;
mod parked;
pub mod precedence;
pub mod reader;
mod replay;
mod requests;
mod reset;
mod ring;
mod shard_reader;
mod source;
mod stored;
mod worker;
