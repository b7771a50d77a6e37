//! Starts the background tasks of one process.

use std::sync::Arc;

use metrics_exporter_prometheus::PrometheusHandle;

use crate::config::Config;
use crate::tasks::housekeeping::{Housekeeping, TASKS};
use crate::tasks::projector::Projector;
use crate::tasks::relay::{LostNotifications, Relay};
use crate::tasks::{machine_lease, prober, shard_map};
use crate::telemetry;
use graphql_transport::listener::Tls;
use noetl_feed::publish::tailer::{TailSettings, Tailer};
use noetl_feed::read::hub::Hub;
use noetl_feed::wake_ups;
use noetl_feed::wire::names::StreamNames;
use noetl_runtime::supervisor::Supervisor;
use noetl_runtime::wake::WakeUps;
use noetl_service::ids::Ids;
use noetl_storage::pools::Databases;

/// Starts the housekeeping tasks, the probers, the renewal of the machine id's lease, and the reads of the bucket map.
pub(super) fn start_upkeep(supervisor: &mut Supervisor, ids: &Arc<Ids>, housekeeping: &Housekeeping) {
    for database in housekeeping.databases.distinct() {
        let task = prober::run(Arc::clone(database), supervisor.soft());
        supervisor.start("prober", infallible(task));
        let checks = prober::check_connections(Arc::clone(database), supervisor.soft());
        supervisor.start("connection checks", infallible(checks));
    }
    // Begins when the requests have ended.
    let (executions, soft) = (housekeeping.executions.clone(), supervisor.soft());
    supervisor.start(
        "settlements",
        infallible(async move {
            soft.cancelled().await;
            executions.finish_background().await;
        }),
    );
    supervisor.start("machine lease", infallible(machine_lease::run(Arc::clone(ids), supervisor.soft())));
    let map = shard_map::run(housekeeping.databases.clone(), Arc::clone(ids), supervisor.soft());
    supervisor.start("bucket map", infallible(map));
    for task in TASKS {
        supervisor.start(task.name, infallible(housekeeping.clone().repeat(task, supervisor.soft())));
    }
}

/// Starts the projector of each shard.
pub(super) fn start_projectors(supervisor: &mut Supervisor, housekeeping: &Housekeeping) {
    for (database, shard) in housekeeping.databases.shards().iter().zip(0..) {
        let (database, projections) = (Arc::clone(database), housekeeping.projections.clone());
        let projector = Projector { shard, database, projections };
        supervisor.start("projector", infallible(projector.run(supervisor.soft())));
    }
}

/// Starts the task that reloads the certificate when it changes.
pub(super) fn start_certificate_reload(supervisor: &mut Supervisor, tls: &Tls) {
    supervisor.start("certificate", infallible(tls.clone().watch(supervisor.soft())));
}

/// Starts the task that limits the memory of the metrics.
pub(super) fn start_metrics_upkeep(supervisor: &mut Supervisor, metrics: PrometheusHandle) {
    let task = telemetry::keep_small(metrics, telemetry::FOLD_EVERY, supervisor.soft());
    supervisor.start("metrics upkeep", infallible(task));
}

/// Starts the tasks that publish to the broker and read from it: live feeds, relays and tailers.
pub(super) fn start_broker_tasks(
    supervisor: &mut Supervisor,
    housekeeping: &Housekeeping,
    hub: &Hub,
    replica: &str,
    client: &async_nats::Client,
    wake_ups: &WakeUps,
    config: &Config,
) {
    for shard in housekeeping.outbox.shards() {
        supervisor.start("live feed", infallible(hub.clone().run(shard, supervisor.soft())));
        supervisor.start("replays", infallible(hub.clone().replay(shard, supervisor.soft())));
        if config.outbox_relay {
            let (outbox, stream) = (housekeeping.outbox.clone(), config.notifications.clone());
            let lost = LostNotifications::new(shard, outbox.clone(), client.clone(), stream.names.clone());
            supervisor.start("lost notifications", infallible(lost.run(supervisor.soft())));
            let inbox_prefix = config.broker.inbox_prefix.clone();
            let relay = Relay::new(shard, outbox, wake_ups.clone(), client.clone(), stream, inbox_prefix);
            supervisor.start("outbox relay", infallible(relay.run(supervisor.soft())));
        }
    }
    if let Some(settings) = config.event_stream {
        start_tailers(supervisor, &housekeeping.databases, replica, client, wake_ups, settings, &config.stream_names);
    }
}

fn start_tailers(
    supervisor: &mut Supervisor,
    databases: &Databases,
    replica: &str,
    client: &async_nats::Client,
    local: &WakeUps,
    settings: TailSettings,
    names: &StreamNames,
) {
    let remote = WakeUps::new(databases.shards().len());
    for (database, shard) in databases.shards().iter().zip(0..) {
        let tailer = Tailer {
            shard,
            database: Arc::clone(database),
            client: client.clone(),
            names: names.clone(),
            owner: replica.to_owned(),
            settings,
            local: local.clone(),
            remote: remote.clone(),
        };
        supervisor.start("tailer", infallible(tailer.run(supervisor.soft())));
    }
    let (soft, listening) = (supervisor.soft(), wake_ups::listen(client.clone(), names.clone(), remote));
    supervisor.start("wake hints", async move { soft.run_until_cancelled(listening).await.unwrap_or(Ok(())) });
}

/// Wraps a task that ends only when it is cancelled and can't fail.
async fn infallible(task: impl Future<Output = ()>) -> Result<(), std::convert::Infallible> {
    task.await;
    Ok(())
}
