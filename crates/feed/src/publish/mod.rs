//! The publishing side. One tailer per shard leads at a time. It reads committed events in batches and publishes each
//! event once, in order; every publish names the sequence that it must follow.

mod acks;
mod batches;
pub mod error;
mod idle;
pub mod inspection;
mod leader;
mod notice;
mod overlap;
mod published;
pub mod publisher;
mod recovery;
mod repeated;
mod rivals;
mod stream_check;
pub mod tailer;
mod trace_links;
