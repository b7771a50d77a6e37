//! The committed events on their way to readers: a tailer per shard publishes them to JetStream, a hub per replica and
//! shard takes them back once, and readers replay and follow.
//!
//! Exactly once: the cursor in the shard says which batch is under way, the stream's last message says how much of it is
//! stored, and each publish names the sequence that it must follow. A message that is lost makes the broker refuse all
//! behind it, and a stale leader is refused the same way, so what is stored is always a strict prefix of the feed.

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
