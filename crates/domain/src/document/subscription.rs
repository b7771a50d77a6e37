//! Settings of a source subscription, from `spec` of its document, under the rules of NoETL's server. They accept what
//! NoETL accepts, so that both products can register the same documents.
//!
//! The short form has no `spec`: `source.type`, `playbook` and `dedup.window_secs` at the top of the document, all
//! optional. NoETL does not know it.

use serde_json::Value;

use super::field::{Choice, Field, InvalidField, Named, Problem};
use super::ingress::Ingress;
use super::spool::Spool;
use crate::labels::Labels;

/// Maximum of `spec.dispatch.batch_max`: NoETL starts at most this many executions in one request.
const MAX_BATCH: u64 = 1000;

/// Source of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// Google Pub/Sub.
    Pubsub,
    /// NATS JetStream.
    Nats,
    /// Kafka.
    Kafka,
    /// Requests to the gateway.
    Webhook,
}

/// Way in which messages arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// A runtime fetches messages.
    Pull,
    /// The gateway receives messages.
    Push,
}

/// Time at which a pull subscription fetches messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activation {
    /// Always.
    Continuous,
    /// At the times of a schedule.
    Scheduled,
}

impl Named for Source {
    const NAMES: &'static [(&'static str, Self)] =
        &[("pubsub", Self::Pubsub), ("nats", Self::Nats), ("kafka", Self::Kafka), ("webhook", Self::Webhook)];
}

impl Named for Mode {
    const NAMES: &'static [(&'static str, Self)] = &[("pull", Self::Pull), ("push", Self::Push)];
}

impl Named for Activation {
    const NAMES: &'static [(&'static str, Self)] = &[("continuous", Self::Continuous), ("scheduled", Self::Scheduled)];
}

/// Settings of a source subscription.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SubscriptionSpec {
    /// Source of the messages; `None` only in the short form.
    pub source: Option<Choice<Source>>,
    /// Way in which messages arrive; `None` only in the short form.
    pub mode: Option<Choice<Mode>>,
    /// Activation of a pull subscription.
    pub activation: Option<Choice<Activation>>,
    /// Ingress of a push subscription.
    pub ingress: Option<Ingress>,
    /// Start of the executions.
    pub dispatch: Dispatch,
    /// Deduplication of messages.
    pub dedup: Dedup,
    /// Limits of the runtime.
    pub limits: Limits,
    /// Headers of a message that change how it is dispatched.
    pub directives: Vec<Directive>,
    /// Store for messages that can't be dispatched.
    pub spool: Option<Spool>,
}

/// Start of the executions of a source subscription.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Dispatch {
    /// Path of the playbook that runs for each message; `None` only in the short form.
    pub playbook: Option<String>,
    /// Pool of the workers; `None`: the default pool.
    pub execution_pool: Option<String>,
    /// Whether the runtime starts several executions with one request.
    pub batch_dispatch: bool,
    /// Maximum number of executions in one request.
    pub batch_max: Option<u64>,
    /// Labels of the executions.
    pub labels: Labels,
}

/// Deduplication of messages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Dedup {
    /// Whether the runtime sends dedup keys.
    pub enabled: bool,
    /// Default of the dedup window in seconds.
    pub window_seconds: Option<u64>,
}

/// Limits of a runtime; it fetches no message beyond them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of messages whose executions run at the same time.
    pub max_in_flight: Option<u64>,
    /// Maximum number of executions that are started in a second.
    pub max_dispatch_per_second: Option<u64>,
}

/// Header of a message that changes how the message is dispatched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Directive {
    /// Name of the header.
    pub header: String,
    /// Setting that the header replaces, such as `dispatch.execution_pool`.
    pub controls: String,
    /// Allowed values; empty: the runtime decides.
    pub allowed: Vec<String>,
}

impl SubscriptionSpec {
    /// Reads and checks `spec`.
    pub(super) fn read(spec: &Field<'_>) -> Result<Self, InvalidField> {
        let source = spec.field("source").required_name()?;
        let mode = spec.field("mode").required_name()?;
        let (activation, ingress) = match mode.known {
            Some(Mode::Pull) => {
                (spec.field("activation").name()?.or_else(|| Some(Choice::of(Activation::Continuous))), None)
            }
            Some(Mode::Push) => (None, Some(Ingress::read(&spec.field("ingress"))?)),
            None => (spec.field("activation").name()?, None),
        };
        Ok(Self {
            source: Some(source),
            mode: Some(mode),
            activation,
            ingress,
            dispatch: Dispatch::read(&spec.field("dispatch"))?,
            dedup: Dedup::read(&spec.field("dedup"))?,
            limits: Limits::read(&spec.field("limits"))?,
            directives: directives(&spec.field("headers"))?,
            spool: Spool::read(&spec.field("spool"))?,
        })
    }

    /// Returns the settings in the short form. A value that does not fit counts as absent.
    pub(super) fn short(document: &Value) -> Self {
        let window = Field::of(document, "dedup").field("window_secs").positive().ok().flatten();
        Self {
            source: Field::of(document, "source").field("type").text().map(Choice::named),
            dispatch: Dispatch {
                playbook: Field::of(document, "playbook").filled().map(str::to_owned),
                ..Dispatch::default()
            },
            dedup: Dedup { enabled: window.is_some(), window_seconds: window },
            ..Self::default()
        }
    }
}

impl Dispatch {
    fn read(dispatch: &Field<'_>) -> Result<Self, InvalidField> {
        let playbook = dispatch.field("playbook").required()?.to_owned();
        let batch_max = dispatch.field("batch_max");
        let most = batch_max.positive()?;
        if most.is_some_and(|most| most > MAX_BATCH) {
            return Err(batch_max.refused(Problem::Above(MAX_BATCH)));
        }
        Ok(Self {
            playbook: Some(playbook),
            execution_pool: dispatch.field("execution_pool").filled().map(str::to_owned),
            batch_dispatch: dispatch.field("batch_dispatch").flag()?,
            batch_max: most,
            labels: dispatch.field("labels").labels(),
        })
    }
}

impl Dedup {
    fn read(dedup: &Field<'_>) -> Result<Self, InvalidField> {
        dedup.is_map()?;
        Ok(Self { enabled: dedup.field("enabled").flag()?, window_seconds: dedup.field("window_secs").positive()? })
    }
}

impl Limits {
    fn read(limits: &Field<'_>) -> Result<Self, InvalidField> {
        limits.is_map()?;
        Ok(Self {
            max_in_flight: limits.field("max_in_flight").positive()?,
            max_dispatch_per_second: limits.field("max_dispatch_per_sec").positive()?,
        })
    }
}

fn directives(headers: &Field<'_>) -> Result<Vec<Directive>, InvalidField> {
    headers.is_map()?;
    let read = |directive: Field<'_>| {
        Ok(Directive {
            header: directive.field("header").any_text()?.to_owned(),
            controls: directive.field("controls").any_text()?.to_owned(),
            allowed: directive.field("allowed").texts(),
        })
    };
    headers.field("directives").items()?.into_iter().map(read).collect()
}
