//! The reading side. One hub per replica and shard reads the stream once, for all readers. A reader first replays stored
//! events, then receives live ones from the hub's ring, and gets a notice for each gap.

pub mod delivered;
pub mod error;
mod gap;
pub mod hub;
mod pages;
pub mod reader;
mod replay;
mod reset;
mod ring;
mod shard_reader;
mod source;
