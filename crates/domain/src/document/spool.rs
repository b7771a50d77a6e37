//! Spool of a subscription: the store for messages whose playbook can't run at the moment.

use super::field::{Choice, Field, InvalidField, Named, Problem};

/// Use of the spool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpoolMode {
    /// Messages are not spooled; they are not acknowledged.
    Off,
    /// Messages are stored and acknowledged.
    BufferAndAck,
    /// Some messages are stored, the others are not acknowledged.
    Hybrid,
}

/// Store of spooled messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpoolBackend {
    /// Object store of NATS.
    NatsObject,
    /// Folder of the runtime.
    LocalDisk,
    /// Google Cloud Storage.
    Gcs,
    /// S3.
    S3,
}

/// Order in which spooled messages are delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpoolOrdering {
    /// One order of all messages.
    Global,
    /// One order for each key.
    PerKey,
    /// No order.
    Unordered,
}

/// Settings of a spool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spool {
    /// Use of the spool.
    pub mode: Choice<SpoolMode>,
    /// Store of the messages; `None` if the mode is off.
    pub backend: Option<Choice<SpoolBackend>>,
    /// Bucket of the store.
    pub bucket: Option<String>,
    /// Folder of the store.
    pub path: Option<String>,
    /// Order of the delivery; `None`: the runtime's default.
    pub ordering: Option<Choice<SpoolOrdering>>,
}

impl Named for SpoolMode {
    const NAMES: &'static [(&'static str, Self)] =
        &[("off", Self::Off), ("buffer_and_ack", Self::BufferAndAck), ("hybrid", Self::Hybrid)];
}

impl Named for SpoolBackend {
    const NAMES: &'static [(&'static str, Self)] =
        &[("nats_object", Self::NatsObject), ("local_disk", Self::LocalDisk), ("gcs", Self::Gcs), ("s3", Self::S3)];
}

impl Named for SpoolOrdering {
    const NAMES: &'static [(&'static str, Self)] =
        &[("global", Self::Global), ("per_key", Self::PerKey), ("none", Self::Unordered)];
}

impl Spool {
    /// Reads the spool of a subscription, if it has one. A spool that is off needs no other setting.
    pub(super) fn read(spool: &Field<'_>) -> Result<Option<Self>, InvalidField> {
        if !spool.is_map()? {
            return Ok(None);
        }
        let mode = spool.field("mode").name()?.unwrap_or_else(|| Choice::of(SpoolMode::Off));
        let owned = |name: &str| spool.field(name).filled().map(str::to_owned);
        let off = mode.known == Some(SpoolMode::Off);
        let mut read = Self { mode, backend: None, bucket: owned("bucket"), path: owned("path"), ordering: None };
        if off {
            return Ok(Some(read));
        }
        let backend = spool.field("backend").name()?.unwrap_or_else(|| Choice::of(SpoolBackend::NatsObject));
        match backend.known {
            Some(SpoolBackend::LocalDisk) => spool.field("path").required().map(drop)?,
            Some(_) => spool.field("bucket").required().map(drop)?,
            None => {}
        }
        read.backend = Some(backend);
        read.ordering = spool.field("ordering").name()?;
        let recovery = spool.field("drain").field("on_recovery");
        let is_global = read.ordering.as_ref().is_some_and(|ordering| ordering.known == Some(SpoolOrdering::Global));
        if is_global && recovery.text() == Some("interleave") {
            return Err(recovery.refused(Problem::UnsafeWithGlobalOrder));
        }
        Ok(Some(read))
    }
}
