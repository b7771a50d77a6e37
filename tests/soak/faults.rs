//! The schedule of the faults, which follows from the seed alone.

use std::fmt;
use std::time::Duration;

use noetl_testkit::proxy::ForwardingMode;
use noetl_testkit::random::{Random, below, index, moment, seeded};

use super::site::{DATABASES, REPLICAS};

/// A fault. Databases are numbered: 0 is the cluster database, the others are the shards. Each database has a server of
/// its own. Replica 0 is never ended, so that the memory of a process that lived through all faults is measured.
#[derive(Debug, Clone, Copy)]
pub enum Fault {
    /// Kill -9 of a replica.
    KillReplica(usize),
    /// SIGTERM of a replica, which must end successfully.
    StopReplica(usize),
    /// SIGSTOP of a replica.
    FreezeReplica(usize),
    /// Kill -9 of a database server.
    KillDatabase(usize),
    /// SIGSTOP of a database server.
    FreezeDatabase(usize),
    /// Each message between the replicas and a database takes longer.
    SlowDatabase(usize, Duration),
    /// Kill -9 of the broker.
    KillBroker,
    /// SIGSTOP of the broker.
    FreezeBroker,
    /// The network between a replica and a database.
    DatabaseNetwork(usize, usize, ForwardingMode),
    /// The network between a replica and the broker.
    BrokerNetwork(usize, ForwardingMode),
    /// Many live readers of a replica vanish at the same time.
    ReadersVanish(usize),
}

/// Faults that begin one after the other and end together.
pub struct Round {
    pub faults: Vec<Fault>,
    /// Time until the faults end.
    pub lasting: Duration,
    /// Time until the next round.
    pub pause: Duration,
}

impl fmt::Display for Round {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { faults, lasting, pause } = self;
        write!(formatter, "{faults:?} for {lasting:?}, then {pause:?} without faults")
    }
}

/// Returns rounds whose times add up to the given time.
pub fn schedule(seed: u64, time: Duration) -> Vec<Round> {
    let (mut random, mut rounds, mut planned) = (seeded(seed, 0), Vec::new(), Duration::ZERO);
    while planned < time {
        let round = round(&mut random);
        planned += round.lasting + round.pause;
        rounds.push(round);
    }
    rounds
}

/// Returns a round with one to three faults of different parts.
fn round(random: &mut Random) -> Round {
    let mut parts: [fn(&mut Random) -> Fault; 4] = [of_replica, of_database, of_broker, of_network];
    for last in (1..parts.len()).rev() {
        parts.swap(last, index(random, last + 1));
    }
    // Half of the rounds have one fault.
    let count = [1, 1, 2, 3][index(random, 4)];
    let faults = parts.into_iter().take(count).map(|part| part(random)).collect();
    let longest = [1_500, 6_000][index(random, 2)];
    let lasting = Duration::from_millis(200) + moment(random, longest);
    Round { faults, lasting, pause: Duration::from_millis(300) + moment(random, 2_500) }
}

fn of_replica(random: &mut Random) -> Fault {
    let mortal = 1 + index(random, REPLICAS - 1);
    match below(random, 4) {
        0 => Fault::KillReplica(mortal),
        1 => Fault::StopReplica(mortal),
        2 => Fault::FreezeReplica(index(random, REPLICAS)),
        _ => Fault::ReadersVanish(index(random, REPLICAS)),
    }
}

fn of_database(random: &mut Random) -> Fault {
    let database = index(random, DATABASES);
    match below(random, 4) {
        0 | 1 => Fault::KillDatabase(database),
        2 => Fault::FreezeDatabase(database),
        _ => Fault::SlowDatabase(database, Duration::from_millis(5) + moment(random, 60)),
    }
}

fn of_broker(random: &mut Random) -> Fault {
    if below(random, 3) == 0 { Fault::FreezeBroker } else { Fault::KillBroker }
}

fn of_network(random: &mut Random) -> Fault {
    let (replica, mode) = (index(random, REPLICAS), mode(random));
    match below(random, 3) {
        0 => Fault::BrokerNetwork(replica, mode),
        _ => Fault::DatabaseNetwork(replica, index(random, DATABASES), mode),
    }
}

fn mode(random: &mut Random) -> ForwardingMode {
    match below(random, 3) {
        0 => ForwardingMode::Closed,
        1 => ForwardingMode::Stalled,
        _ => ForwardingMode::Delayed(moment(random, 150)),
    }
}
