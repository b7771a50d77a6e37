//! Repeatable randomness: everything random in a run is derived from one seed.

use std::time::Duration;

use proptest::prelude::RngExt;
use proptest::test_runner::RngAlgorithm;

pub use proptest::test_runner::TestRng as Random;

/// Returns one of several independent generators of a seed.
pub fn seeded(seed: u64, index: u64) -> Random {
    let numbers = [seed, index, 0, 0].map(u64::to_le_bytes);
    Random::from_seed(RngAlgorithm::ChaCha, numbers.as_flattened())
}

/// Returns a random duration of at most `most` milliseconds.
pub fn moment(random: &mut Random, most: u64) -> Duration {
    Duration::from_millis(below(random, most + 1))
}

/// Returns a random number below `limit`.
pub fn below(random: &mut Random, limit: u64) -> u64 {
    random.random_range(0..limit)
}

/// Returns a random index of a list with `length` items.
pub fn index(random: &mut Random, length: usize) -> usize {
    random.random_range(0..length)
}
