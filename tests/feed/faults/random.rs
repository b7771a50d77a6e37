//! Repeatable randomness. Set `NOETL_TEST_FAULT_SEED` to the seed that a failed run printed to repeat that run.

use std::sync::OnceLock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use noetl_testkit::proxy::ForwardingMode;
use noetl_testkit::random::{self, Random, below, index, moment};

use super::deployment::{Fault, SHARDS};

/// Default number of seconds of random faults. `NOETL_TEST_FAULT_SECONDS` overrides it.
const SECONDS: u64 = 8;

fn setting(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is not a number: {text}")))
}

pub fn duration() -> Duration {
    Duration::from_secs(setting("NOETL_TEST_FAULT_SECONDS").unwrap_or(SECONDS))
}

fn seed() -> u64 {
    static SEED: OnceLock<u64> = OnceLock::new();
    *SEED.get_or_init(|| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros();
        let seed = setting("NOETL_TEST_FAULT_SEED").unwrap_or(u64::try_from(now).unwrap());
        eprintln!("NOETL_TEST_FAULT_SEED={seed}");
        seed
    })
}

/// Returns one of several independent random generators.
pub fn seeded(index: u64) -> Random {
    random::seeded(seed(), index)
}

pub fn fault(random: &mut Random) -> Fault {
    let shard = index(random, SHARDS);
    match below(random, 6) {
        0 => Fault::KillLeader(shard),
        1 => Fault::FreezeLeader(shard),
        2 => Fault::Broker(shard, network(random)),
        3 => Fault::Shard(shard, network(random)),
        4 => Fault::KillBroker,
        _ => Fault::KillPostgres,
    }
}

fn network(random: &mut Random) -> ForwardingMode {
    match below(random, 3) {
        0 => ForwardingMode::Closed,
        1 => ForwardingMode::Stalled,
        _ => ForwardingMode::Delayed(moment(random, 100)),
    }
}
