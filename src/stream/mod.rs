//! Delivery of committed events to readers: a tailer per shard publishes them to JetStream, a hub per replica and shard
//! reads the stream once, and readers replay stored events and then receive live ones.
//!
//! Each event is stored exactly once. The cursor in the shard names the current batch, the stream's last message shows
//! how much of it is stored, and each publish names the sequence that it must follow. So the broker refuses every
//! message after a lost one, and every message of a stale leader. The stream always holds a strict prefix of the feed.

mod acks;
pub mod cursor;
pub mod delivered;
pub mod envelope;
mod gap;
pub mod hub;
mod idle;
pub mod names;
mod notice;
mod pages;
pub mod payload;
pub mod publisher;
pub mod reader;
mod recovery;
mod replay;
mod ring;
mod shard_reader;
mod source;
pub mod tailer;
mod trace_links;
pub mod wake;
