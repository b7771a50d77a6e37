//! Ids under a leased machine id.
//!
//! Guarantee: no two live replicas make the same id, and the ids of one replica increase.
//!
//! The lease is a row of the cluster database. An id is made only while the lease is known to be valid, and only up to
//! the millisecond that the lease reserved. The validity is measured on the monotonic clock, from before the renewal
//! was sent. A replica that lost its lease makes no ids until it has another lease.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;

use noetl_domain::ids::{Id, IdGenerationError, MAX_FLOOR_LEAD_MS, Snowflakes};
use noetl_runtime::clock;
use noetl_storage::machines::{self, Grant, Holder, KnownMap, Lease};
use noetl_storage::pools::Databases;
use noetl_use_cases::error::{NoIdReason, ServiceError};
use noetl_use_cases::ids::ReserveIds;

/// Time for which a lease is valid without renewal.
pub const LEASE: Duration = Duration::from_secs(15);
/// Milliseconds after the current time up to which a lease reserves ids.
const RESERVED_MS: u64 = 120_000;
const _: () =
    assert!(RESERVED_MS / 1000 > LEASE.as_secs(), "ids stay within the reserved ones if several renewals fail");

/// Generator of ids under a leased machine id.
#[derive(Debug)]
pub struct Ids {
    databases: Databases,
    holder: Holder,
    pinned: Option<u16>,
    leased: Mutex<MachineLease>,
}

/// A leased machine id with its generator.
#[derive(Debug)]
struct MachineLease {
    machine_id: u16,
    snowflakes: Snowflakes,
    valid_until: Instant,
}

#[async_trait]
impl ReserveIds for Ids {
    async fn leases(&self) -> Result<Vec<Lease>, ServiceError> {
        Ok(machines::leases(self.databases.cluster()).await?)
    }

    async fn reserve(&self, count: u32) -> Result<Vec<Id>, ServiceError> {
        let mut ids = Vec::new();
        for _ in 0..count {
            ids.push(self.next().await?);
        }
        Ok(ids)
    }

    fn machine_id(&self) -> u16 {
        self.leased().machine_id
    }
}

impl Ids {
    /// Leases a machine id: `pinned`, or any free one. Returns `Ok(None)` if none is free.
    pub async fn lease(
        databases: Databases,
        holder: Holder,
        pinned: Option<u16>,
    ) -> Result<Option<Self>, ServiceError> {
        let Some(leased) = acquire(&databases, &holder, pinned, 0).await? else {
            return Ok(None);
        };
        Ok(Some(Self { databases, holder, pinned, leased: Mutex::new(leased) }))
    }

    /// Returns the next id.
    pub async fn next(&self) -> Result<Id, ServiceError> {
        self.make_in_range(0, Snowflakes::next).await
    }

    /// Returns the next two ids. They follow each other directly, unless the millisecond has no more ids.
    pub async fn next_two(&self) -> Result<[Id; 2], ServiceError> {
        self.make_in_range(0, |snowflakes, now_ms| Ok([snowflakes.next(now_ms)?, snowflakes.next(now_ms)?])).await
    }

    /// Returns an id larger than `floor`, regardless of the replicas' clocks.
    pub async fn next_after(&self, floor: Id) -> Result<Id, ServiceError> {
        let next = |snowflakes: &mut Snowflakes, now_ms| snowflakes.next_after(floor, now_ms);
        self.make_in_range(floor.millis(), next).await
    }

    /// Makes ids. If the range that the lease reserved is used up, first renews the lease so that it also reserves ids
    /// after `floor_ms`.
    async fn make_in_range<T>(
        &self,
        floor_ms: u64,
        next: impl Fn(&mut Snowflakes, u64) -> Result<T, IdGenerationError>,
    ) -> Result<T, ServiceError> {
        match self.make(&next) {
            Err(NoIdReason::Generator(IdGenerationError::CeilingReached { .. })) => {
                // A later floor does not raise the generator.
                self.renew_past(floor_ms.min(clock::snowflake_ms() + MAX_FLOOR_LEAD_MS)).await?;
                Ok(self.make(next)?)
            }
            made => Ok(made?),
        }
    }

    fn make<T>(&self, next: impl Fn(&mut Snowflakes, u64) -> Result<T, IdGenerationError>) -> Result<T, NoIdReason> {
        let mut leased = self.leased();
        if Instant::now() >= leased.valid_until {
            return Err(NoIdReason::LeaseLost);
        }
        Ok(next(&mut leased.snowflakes, clock::snowflake_ms())?)
    }

    /// Renews the lease, or leases another machine id if the lease is lost. The caller repeats this every third of
    /// [`LEASE`].
    pub async fn renew(&self) -> Result<(), ServiceError> {
        self.renew_past(0).await
    }

    /// Renews the lease so that it also reserves ids after `floor_ms`.
    async fn renew_past(&self, floor_ms: u64) -> Result<(), ServiceError> {
        let (machine_id, position_ms) = {
            let leased = self.leased();
            (leased.machine_id, leased.snowflakes.position_ms().max(floor_ms))
        };
        let ceiling_ms = position_ms.max(clock::snowflake_ms()) + RESERVED_MS;
        let requested_at = Instant::now();
        let (cluster, map) = (self.databases.cluster(), known_map(&self.databases));
        if machines::renew(cluster, self.holder.owner, map, machine_id, ceiling_ms, LEASE.as_secs_f64()).await? {
            let mut leased = self.leased();
            leased.valid_until = requested_at + LEASE;
            leased.snowflakes.raise_ceiling(ceiling_ms);
            return Ok(());
        }
        tracing::warn!(machine_id, "the lease on the machine id is lost; leasing another");
        self.leased().valid_until = requested_at;
        let mut acquired =
            acquire(&self.databases, &self.holder, self.pinned, position_ms).await?.ok_or(NoIdReason::LeaseLost)?;
        let mut leased = self.leased();
        acquired.snowflakes.start_above(leased.snowflakes.position_ms());
        *leased = acquired;
        Ok(())
    }

    /// Stores in the lease that this process uses the current bucket map.
    pub async fn acknowledge_map(&self) -> Result<(), ServiceError> {
        let map = known_map(&self.databases);
        Ok(machines::acknowledge_map(self.databases.cluster(), self.holder.owner, map).await?)
    }

    /// Returns the machine id to the cluster database. No ids are made afterwards.
    pub async fn release(&self) -> Result<(), ServiceError> {
        let (machine_id, position_ms) = {
            let mut leased = self.leased();
            leased.valid_until = Instant::now();
            (leased.machine_id, leased.snowflakes.position_ms())
        };
        Ok(machines::release(self.databases.cluster(), self.holder.owner, machine_id, position_ms).await?)
    }

    fn leased(&self) -> MutexGuard<'_, MachineLease> {
        self.leased.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the bucket map that this process uses.
fn known_map(databases: &Databases) -> KnownMap {
    let shards = u16::try_from(databases.shards().len()).unwrap_or(u16::MAX);
    KnownMap { version: databases.map().version(), shards }
}

async fn acquire(
    databases: &Databases,
    holder: &Holder,
    pinned: Option<u16>,
    position_ms: u64,
) -> Result<Option<MachineLease>, ServiceError> {
    let requested_at = Instant::now();
    let now_ms = clock::snowflake_ms().max(position_ms);
    let (cluster, map) = (databases.cluster(), known_map(databases));
    let grant = machines::acquire(cluster, holder, map, pinned, now_ms, RESERVED_MS, LEASE.as_secs_f64()).await?;
    Ok(grant.map(|Grant { machine_id, floor_ms, ceiling_ms }| MachineLease {
        machine_id,
        snowflakes: Snowflakes::new(machine_id, floor_ms.max(position_ms), ceiling_ms),
        valid_until: requested_at + LEASE,
    }))
}
