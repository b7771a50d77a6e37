//! Background tasks. Each task is idempotent and may run on every replica at once. Its only input is the database or
//! shard that it works on.

pub mod housekeeping;
pub mod machine_lease;
pub mod partitions;
pub mod prober;
pub mod projector;
pub mod relay;
pub mod shard_map;

use std::time::Duration;

use tokio::time::{Interval, MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

/// Turns of a task: one at once, then one every period, until the process stops.
struct Turns {
    ticks: Interval,
    stop: CancellationToken,
}

impl Turns {
    fn every(period: Duration, stop: CancellationToken) -> Self {
        let mut ticks = interval(period);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self { ticks, stop }
    }

    /// Waits for the next turn. Returns false if the process stops.
    async fn next(&mut self) -> bool {
        self.stop.run_until_cancelled(self.ticks.tick()).await.is_some()
    }
}
