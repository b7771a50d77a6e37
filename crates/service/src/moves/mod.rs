//! Moves of buckets between shards while replicas serve (docs/design/moving-buckets.md): the mover, which the command
//! `shards move` runs; the completion of moves whose command has ended; and the repetition of statements that a fence
//! refused.

mod completion;
mod copy;
mod error;
mod mover;
mod progress;
mod repetition;
mod run;
mod switch;

pub use completion::complete;
pub use error::MoveError;
pub use mover::Mover;
pub use progress::{Progress, Report};
pub(crate) use repetition::{Repetition, repeated, repeated_for_each};
