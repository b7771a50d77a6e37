//! Delivery of committed events to readers: a tailer per shard publishes them to JetStream, a hub per replica and shard
//! reads the stream once, and readers replay stored events and then receive live ones.
//!
//! Each event is stored exactly once. The cursor in the shard names the current batch, the stream's last message shows
//! how much of it is stored, and each publish names the sequence that it must follow. So the broker refuses every
//! message after a lost one, and every message of a stale leader. The stream always holds a strict prefix of the feed.
//!
//! [`publish`] and [`read`] do not use each other. They share only [`wire`], the form of a message.

pub mod publish;
pub mod read;
pub mod wake_ups;
pub mod wire;
