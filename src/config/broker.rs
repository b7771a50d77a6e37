//! The broker's addresses, and the settings of publishing.

use std::time::Duration;

use async_nats::ServerAddr;

use super::Definition;
use super::reader::Reader;
use noetl_feed::publish::publisher::StreamSettings;
use noetl_feed::publish::tailer::TailSettings;
use noetl_feed::wire::names::{BadSubjectPrefix, StreamNames, SubjectPrefix};
use noetl_feed::wire::notifications::NotificationStream;

pub(super) const SETTINGS: [Definition; 14] = [
    Definition::text(
        "NOETL_NATS_URL",
        "none",
        "URL of the broker, or URLs of a cluster's brokers, separated by commas; may contain a login (`nats://user:password@host:4222`)",
    ),
    Definition::text(
        "NOETL_NATS_JETSTREAM_DOMAIN",
        "none",
        "domain of JetStream that has the streams, if it is not that of the brokers to which the server connects: 1 to 64 letters, digits, - or _. All replicas of a deployment must have the same one",
    ),
    Definition::text(
        "NOETL_NATS_API_PREFIX",
        "none",
        "prefix under which the account of the server imports the API of the JetStream of another account, such as `JS.shared.API`: 1 to 128 letters, digits, -, _, $ or @, in parts separated by dots. It excludes `NOETL_NATS_JETSTREAM_DOMAIN`. All replicas of a deployment must have the same one",
    ),
    Definition::value("NOETL_EVENT_STREAM_ENABLED", "whether this replica publishes events"),
    Definition::value("NOETL_EVENT_STREAM_BATCH", "maximum number of events in flight to the broker"),
    Definition::value("NOETL_EVENT_STREAM_POLL_MS", "maximum interval between polls of an idle log, in milliseconds"),
    Definition::value("NOETL_EVENT_STREAM_BACKFILL", "whether the first start publishes the existing events"),
    Definition::value(
        "NOETL_EVENT_STREAM_DEDUP_SECS",
        "time for which a newly created stream recognises message ids, in seconds",
    ),
    Definition::value(
        "NOETL_EVENT_STREAM_RETENTION_SECS",
        "time for which a newly created stream keeps events, in seconds",
    ),
    Definition::text(
        "NOETL_EVENT_STREAM_MAX_BYTES",
        "none",
        "maximum size of each newly created stream, also that of the workers' notifications, in bytes. An account that requires a size of each stream needs it. The oldest events leave a full stream of events; a full stream of notifications takes no new ones, so their rows wait",
    ),
    Definition::value(
        "NOETL_EVENT_STREAM_REPLICAS",
        "number of NATS servers that store a newly created stream, also that of the workers' notifications",
    ),
    Definition::value(
        "NOETL_OUTBOX_STREAM_RETENTION_SECS",
        "time for which the relay's newly created stream keeps the workers' notifications, in seconds",
    ),
    Definition::value(
        "NOETL_EVENT_STREAM_PREFIX",
        "beginning of the names of the streams and subjects of events, wake-ups and workers' notifications, such as `noetl_events`, `noetl.events.>`, `noetl.wake.0` and `noetl.executions.>`. Deployments on one broker need different prefixes. All replicas of a deployment must have the same one",
    ),
    Definition::value(
        "NOETL_EVENT_RING_MIB",
        "memory for the latest live events of each shard on a replica, in MiB. A reader that is further behind reads the stored events from the broker",
    ),
];

pub(super) fn brokers(read: &mut Reader<'_>, needed: bool) -> Vec<ServerAddr> {
    let listed = read.sources.list("NOETL_NATS_URL");
    if listed.is_empty() && needed {
        read.problem(
            "NOETL_NATS_URL is missing; set it to the broker, such as nats://127.0.0.1:4222, or turn publishing off \
             with NOETL_EVENT_STREAM_ENABLED=false and NOETL_OUTBOX_RELAY=false",
        );
    }
    let brokers: Result<_, _> = listed.iter().map(|text| text.parse()).collect();
    brokers.unwrap_or_else(|_| {
        read.problem(
            "NOETL_NATS_URL is not a broker's address; set it to an address such as nats://host:4222, or to those of a \
             cluster, separated by commas",
        );
        Vec::new()
    })
}

/// Reads the names of the streams, and the API of the JetStream that has them.
pub(super) fn stream_names(read: &mut Reader<'_>) -> StreamNames {
    let allowed = "1 to 64 letters, digits, - or _";
    let names = read.parsed("NOETL_EVENT_STREAM_PREFIX", StreamNames::default(), allowed);
    let prefix = subject_prefix(read, "NOETL_NATS_API_PREFIX");
    let Some(domain) = read.sources.text("NOETL_NATS_JETSTREAM_DOMAIN").map(str::to_owned) else {
        return match prefix {
            Some(prefix) => names.imported(prefix),
            None => names,
        };
    };
    if prefix.is_some() {
        read.problem("NOETL_NATS_API_PREFIX excludes NOETL_NATS_JETSTREAM_DOMAIN; keep one of them");
    }
    names.clone().in_domain(&domain).unwrap_or_else(|| {
        read.problem(format!("NOETL_NATS_JETSTREAM_DOMAIN is {domain:?}; set it to {allowed}"));
        names
    })
}

/// Reads a prefix of subjects; `None` if it is absent, or if it is reported as a problem.
pub(super) fn subject_prefix(read: &mut Reader<'_>, name: &str) -> Option<SubjectPrefix> {
    let text = read.sources.text(name)?.to_owned();
    let problem = |BadSubjectPrefix| {
        read.problem(format!(
            "{name} is {text:?}; set it to 1 to 128 letters, digits, -, _, $ or @, in parts separated by dots"
        ));
    };
    text.parse::<SubjectPrefix>().map_err(problem).ok()
}

/// Subjects of the rows of NoETL's server, which do not follow the prefix of the streams.
const NOETL_SUBJECTS: &str = "noetl.events.>";

/// Reports prefixes of the API and of inboxes that begin as the subjects of messages do, of this server or of NoETL's. The
/// relay would refuse such messages.
pub(super) fn check_prefixes(read: &mut Reader<'_>, names: &StreamNames, inbox_prefix: Option<&SubjectPrefix>) {
    let subjects = names.notification_subjects();
    for (name, prefix) in [("NOETL_NATS_API_PREFIX", names.api_prefix()), ("NOETL_NATS_INBOX_PREFIX", inbox_prefix)] {
        let Some(prefix) = prefix.map(ToString::to_string) else { continue };
        let first = |subject: &str| subject.split('.').next().map(str::to_owned);
        if first(&prefix) == first(&subjects) || first(&prefix) == first(NOETL_SUBJECTS) {
            read.problem(format!(
                "{name} begins as the subjects of messages do ({subjects}); set it to another prefix"
            ));
        }
    }
}

/// Reads the size of the ring of each shard, in bytes. The ring must hold the largest batch of events, which has the size
/// of a request; its events take more memory as they are decoded.
pub(super) fn ring_bytes(read: &mut Reader<'_>) -> usize {
    read.within("NOETL_EVENT_RING_MIB", 32_usize, 32, 4096) << 20
}

/// Reads the number of servers that store a stream.
pub(super) fn replicas(read: &mut Reader<'_>) -> usize {
    let replicas = read.parsed("NOETL_EVENT_STREAM_REPLICAS", 1, "1 or 3");
    if ![1, 3].contains(&replicas) {
        read.problem(format!("NOETL_EVENT_STREAM_REPLICAS is {replicas}; set it to 1 or 3"));
    }
    replicas
}

/// Reads the maximum size of newly created streams, in bytes. The least is the default size of the largest message.
pub(super) fn max_bytes(read: &mut Reader<'_>) -> Option<i64> {
    read.optional("NOETL_EVENT_STREAM_MAX_BYTES", 1 << 20, 1 << 50)
}

/// Reads the settings of the stream of the workers' notifications.
pub(super) fn notifications(
    read: &mut Reader<'_>,
    names: StreamNames,
    max_bytes: Option<i64>,
    replicas: usize,
) -> NotificationStream {
    let retention = read.within("NOETL_OUTBOX_STREAM_RETENTION_SECS", 604_800, 60, u32::MAX);
    NotificationStream { names, retention: Duration::from_secs(retention.into()), max_bytes, replicas }
}

/// Reads the settings of publishing events; `None`: this replica does not publish.
pub(super) fn event_stream(read: &mut Reader<'_>, max_bytes: Option<i64>, replicas: usize) -> Option<TailSettings> {
    let publishes = read.flag("NOETL_EVENT_STREAM_ENABLED", true);
    let seconds = |value: u32| Duration::from_secs(u64::from(value));
    let settings = TailSettings {
        batch: read.within("NOETL_EVENT_STREAM_BATCH", 500, 1, 100_000),
        poll: Duration::from_millis(read.within("NOETL_EVENT_STREAM_POLL_MS", 500, 10, 60_000)),
        backfill: read.flag("NOETL_EVENT_STREAM_BACKFILL", false),
        stream: StreamSettings {
            dedup: seconds(read.within("NOETL_EVENT_STREAM_DEDUP_SECS", 120, 1, 86_400)),
            retention: seconds(read.within("NOETL_EVENT_STREAM_RETENTION_SECS", 86_400, 60, u32::MAX)),
            max_bytes,
            replicas,
        },
    };
    publishes.then_some(settings)
}
