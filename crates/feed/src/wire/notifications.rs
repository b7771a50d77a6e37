//! The stream of the workers' notifications.

use std::time::Duration;

use super::names::StreamNames;

/// Settings of the stream of the workers' notifications. It is created if no stream captures their subjects; a stream of
/// another name is left unchanged. Workers that only listen remove no messages, so messages expire by age.
#[derive(Debug, Clone)]
pub struct NotificationStream {
    /// Names of the deployment's streams and subjects.
    pub names: StreamNames,
    /// Age at which messages of a newly created stream expire.
    pub retention: Duration,
    /// Maximum size of a newly created stream in bytes; `None`: unlimited. A full stream refuses new messages, so that no
    /// unread one is lost.
    pub max_bytes: Option<i64>,
    /// Number of servers of a NATS cluster that store the stream. An existing stream with fewer gets more.
    pub replicas: usize,
}
