//! Status of the server: its event stream, its shards, the replica and the caller.

use crate::auth::principal::{Capability, Principal};
use crate::graphql::inputs::Permission;
use crate::graphql::schema::Services;
use crate::graphql::types::feed::{EventStreamShard, EventStreamStatus, UnreadableShard};
use crate::graphql::types::server::{ServerInfo, Shard, Viewer};
use crate::runtime::clock;
use crate::service::error::ServiceError;
use crate::service::feed::{self, FeedStatus};

/// Returns the status of the event stream of each shard.
pub(in crate::graphql) async fn event_stream(services: &Services) -> EventStreamStatus {
    let statuses = feed::status(&services.databases).await;
    let shard = |(shard, status): (u16, Result<FeedStatus, ServiceError>)| {
        let status = status.map_err(|error| {
            tracing::warn!(shard, %error, "the tail cursor can't be read");
            UnreadableShard(shard)
        });
        EventStreamShard { shard, status }
    };
    EventStreamStatus {
        enabled: services.replica.publishes,
        connected: services.hub.as_ref().is_some_and(crate::feed::read::hub::Hub::connected),
        shards: statuses.into_iter().map(shard).collect(),
    }
}

/// Returns the health of the shards, as found by their latest probes.
pub(in crate::graphql) fn shards(services: &Services) -> Vec<Shard> {
    let databases = &services.databases;
    let shard = |(database, index): (&std::sync::Arc<noetl_storage::pools::Database>, u16)| {
        let health = database.health();
        let (pool_size, pool_idle) = database.pool_size();
        Shard {
            index,
            available: health.down.is_none(),
            latency_ms: health.latency.map(|latency| latency.as_secs_f64() * 1000.0),
            pool_size,
            pool_idle: u32::try_from(pool_idle).unwrap_or(u32::MAX),
            buckets: u32::try_from(databases.map().buckets_of(index)).unwrap_or(u32::MAX),
            error: health.down.map(|_| format!("{} can't be reached", database.name())),
        }
    };
    databases.shards().iter().zip(0..).map(shard).collect()
}

/// Returns information about this replica.
pub(super) fn server(services: &Services) -> ServerInfo {
    let replica = &services.replica;
    let up = clock::now() - replica.started_at;
    let feature = |on: bool, name: &str| on.then(|| name.to_owned());
    let features = [
        feature(services.hub.is_some(), "live-events"),
        feature(replica.publishes, "event-stream"),
        feature(replica.relays, "outbox-relay"),
    ];
    ServerInfo {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        started_at: replica.started_at,
        uptime_seconds: up.as_seconds_f64(),
        replica: replica.name.clone(),
        machine_id: services.ids.machine_id(),
        limits: replica.into(),
        features: features.into_iter().flatten().collect(),
    }
}

/// Returns the description of a caller.
pub(super) fn viewer(principal: &Principal) -> Viewer {
    let reads = [Capability::Read, Capability::Live];
    let writes = |one: Capability| !reads.contains(&one) && !one.is_about_requests();
    let permissions = [
        principal.has_any(&reads).then_some(Permission::Read),
        principal.capabilities.iter().any(writes).then_some(Permission::Write),
    ];
    Viewer {
        name: principal.authenticated.then(|| principal.subject.to_string()),
        authenticated: principal.authenticated,
        permissions: permissions.into_iter().flatten().collect(),
        subject: principal.subject.to_string(),
        roles: principal.roles.iter().copied().map(Into::into).collect(),
        capabilities: principal.capabilities.iter().map(Into::into).collect(),
        tenant: principal.tenant.as_deref().map(str::to_owned),
        expires_at: principal.expires_at,
    }
}
