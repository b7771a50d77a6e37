//! Moves of buckets between shards: the journal in the cluster database ([`journal`]), the fence on the source
//! ([`fence`]), the copy of the rows ([`transfer`]), and the deletion of copied or moved rows ([`residue`]).
//!
//! Each fence has an attempt number, which only increases for a bucket. Every statement that ends or follows a fence
//! compares it. So a process that was stopped and continues later changes nothing.

pub mod fence;
pub mod journal;
mod outbox;
pub mod residue;
mod rows;
pub mod session;
pub mod transfer;
