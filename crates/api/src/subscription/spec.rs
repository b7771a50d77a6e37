//! Settings of a source subscription, from its document.

use async_graphql::{Enum, SimpleObject};

use crate::labels::Label;
use crate::scalars::to_graphql_int;
use noetl_domain::document::Document;
use noetl_domain::document::field::Choice;
use noetl_domain::document::ingress::{Ingress, Scheme, Verification};
use noetl_domain::document::spool::{self, Spool};
use noetl_domain::document::subscription::{self as domain, Activation, Mode, Source};

/// Source of the messages of a source subscription.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
pub(super) enum SubscriptionSource {
    /// Google Pub/Sub.
    Pubsub,
    /// NATS JetStream.
    Nats,
    /// Kafka.
    Kafka,
    /// Requests to the gateway.
    Webhook,
    /// A name that this server does not know, in a document that another program stored. The text has the name.
    Unknown,
}

/// Way in which the messages of a source subscription arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
pub(super) enum SubscriptionMode {
    /// A runtime fetches messages.
    Pull,
    /// The gateway receives messages.
    Push,
    /// A name that this server does not know, in a document that another program stored. The text has the name.
    Unknown,
}

/// Time at which a pull subscription fetches messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
pub(super) enum SubscriptionActivation {
    /// Always, while the subscription is active.
    Continuous,
    /// At the times of a schedule.
    Scheduled,
    /// A name that this server does not know, in a document that another program stored. The text has the name.
    Unknown,
}

/// Converts the name of a setting to its value in the API: `UNKNOWN` if the name is not known.
macro_rules! values {
    ($to:ident, $from:ty: $($value:ident)*) => {
        impl From<&Choice<$from>> for $to {
            fn from(choice: &Choice<$from>) -> Self {
                match choice.known {
                    $(Some(<$from>::$value) => Self::$value,)*
                    None => Self::Unknown,
                }
            }
        }
    };
}

values! { SubscriptionSource, Source: Pubsub Nats Kafka Webhook }
values! { SubscriptionMode, Mode: Pull Push }
values! { SubscriptionActivation, Activation: Continuous Scheduled }
values! { IngressVerificationType, Scheme: HmacSha256 Bearer PubsubOidc }
values! { SpoolMode, spool::SpoolMode: Off BufferAndAck Hybrid }
values! { SpoolBackend, spool::SpoolBackend: NatsObject LocalDisk Gcs S3 }
values! { SpoolOrdering, spool::SpoolOrdering: Global PerKey Unordered }

/// Settings in the document of a source subscription. The settings of the source itself, such as a stream, are in
/// `catalogEntry { document }`.
#[derive(Debug, SimpleObject)]
pub(super) struct SubscriptionSpec {
    /// Source of the messages; null if a document in the short form names none.
    source: Option<SubscriptionSource>,
    /// Name of the source in the document.
    source_text: Option<String>,
    /// Way in which messages arrive; null in the short form.
    mode: Option<SubscriptionMode>,
    /// Name of the mode in the document.
    mode_text: Option<String>,
    /// Activation of a pull subscription; null for push subscriptions and in the short form.
    activation: Option<SubscriptionActivation>,
    /// Name of the activation in the document, or that of its default.
    activation_text: Option<String>,
    /// Settings of the gateway for a push subscription; null for pull subscriptions.
    ingress: Option<SubscriptionIngress>,
    /// Start of the executions.
    dispatch: SubscriptionDispatch,
    /// Deduplication of messages.
    dedup: SubscriptionDedup,
    /// Limits of the runtime.
    limits: SubscriptionLimits,
    /// Headers of a message that change how it is dispatched.
    directives: Vec<HeaderDirective>,
    /// Store for messages that can't be dispatched; null if there is none.
    spool: Option<SubscriptionSpool>,
}

/// Start of the executions of a source subscription.
#[derive(Debug, SimpleObject)]
struct SubscriptionDispatch {
    /// Catalog path of the playbook that runs for each message; null if a document in the short form names none.
    playbook: Option<String>,
    /// Pool of the workers; null: the default pool. A request can name another pool.
    execution_pool: Option<String>,
    /// Whether the runtime starts several executions with one request.
    batch_dispatch: bool,
    /// Maximum number of executions in one request (1 to 1000); null: the runtime decides.
    batch_max: Option<i32>,
    /// Labels of the executions, ordered by name. `ExecuteInput` says which ones take precedence over them.
    labels: Vec<Label>,
}

/// Deduplication of the messages of a source subscription.
#[derive(Debug, SimpleObject)]
struct SubscriptionDedup {
    /// Whether the runtime sends dedup keys.
    enabled: bool,
    /// Dedup window in seconds for requests that name none; null: 300. A number beyond 2147483647 is shown as that.
    window_seconds: Option<i32>,
}

/// Limits of the runtime of a source subscription. It fetches no message beyond them.
#[derive(Debug, SimpleObject)]
struct SubscriptionLimits {
    /// Maximum number of messages whose executions run at the same time; null: the runtime decides. A number beyond
    /// 2147483647 is shown as that.
    max_in_flight: Option<i32>,
    /// Maximum number of executions started in a second; null: no limit. A number beyond 2147483647 is shown as that.
    max_dispatch_per_second: Option<i32>,
}

/// Header of a message that changes how the message is dispatched.
#[derive(Debug, SimpleObject)]
struct HeaderDirective {
    /// Name of the header.
    header: String,
    /// Setting that the header replaces, such as `dispatch.execution_pool`.
    controls: String,
    /// Allowed values; empty: the runtime decides.
    allowed: Vec<String>,
}

/// Settings of the gateway for a push subscription.
#[derive(Debug, SimpleObject)]
struct SubscriptionIngress {
    /// Path at which the gateway receives messages; begins with `/`.
    gateway_path: String,
    /// Verification of each message.
    verify: IngressVerification,
}

/// Scheme by which the gateway verifies messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
enum IngressVerificationType {
    /// HMAC-SHA256 of the message in a header.
    HmacSha256,
    /// Bearer token.
    Bearer,
    /// Token that Google signs for a push subscription of Pub/Sub.
    PubsubOidc,
    /// A name that this server does not know, in a document that another program stored. The text has the name.
    Unknown,
}

/// Verification of pushed messages. A secret is named by its alias.
#[derive(Debug, SimpleObject)]
struct IngressVerification {
    /// Scheme of the verification.
    r#type: IngressVerificationType,
    /// Name of the scheme in the document.
    type_text: String,
    /// Header with the HMAC; null for other schemes.
    header: Option<String>,
    /// Alias of the secret or token; null for `PUBSUB_OIDC` and `UNKNOWN`.
    secret: Option<String>,
    /// Audience of the token; null except for `PUBSUB_OIDC`.
    audience: Option<String>,
    /// Service account that the token names; null except for `PUBSUB_OIDC`.
    service_account: Option<String>,
}

/// Use of a spool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
enum SpoolMode {
    /// Messages are not spooled; they are not acknowledged.
    Off,
    /// Messages are stored and acknowledged.
    BufferAndAck,
    /// Some messages are stored; the others are not acknowledged.
    Hybrid,
    /// A name that this server does not know, in a document that another program stored. The text has the name.
    Unknown,
}

/// Store of spooled messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
enum SpoolBackend {
    /// Object store of NATS.
    NatsObject,
    /// Folder of the runtime.
    LocalDisk,
    /// Google Cloud Storage.
    Gcs,
    /// S3.
    S3,
    /// A name that this server does not know, in a document that another program stored. The text has the name.
    Unknown,
}

/// Order in which spooled messages are delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
enum SpoolOrdering {
    /// One order of all messages.
    Global,
    /// One order for each key.
    PerKey,
    /// No order.
    Unordered,
    /// A name that this server does not know, in a document that another program stored. The text has the name.
    Unknown,
}

/// Store for messages that can't be dispatched.
#[derive(Debug, SimpleObject)]
struct SubscriptionSpool {
    /// Use of the spool.
    mode: SpoolMode,
    /// Name of the mode in the document, or that of its default.
    mode_text: String,
    /// Store of the messages; null if the mode is `OFF`.
    backend: Option<SpoolBackend>,
    /// Name of the store in the document, or that of its default.
    backend_text: Option<String>,
    /// Bucket of the store; null if it has none.
    bucket: Option<String>,
    /// Folder of the store; null if it has none.
    path: Option<String>,
    /// Order of the delivery; null: the runtime's default.
    ordering: Option<SpoolOrdering>,
    /// Name of the order in the document.
    ordering_text: Option<String>,
}

impl SubscriptionSpec {
    /// Returns the settings in a document. `None`: they are invalid, so another program stored the document.
    pub(super) fn of(document: &Document) -> Option<Self> {
        let spec = document.stored_subscription().ok()?;
        let ingress = |Ingress { gateway_path, verification }| {
            let verify = verification.into();
            SubscriptionIngress { gateway_path, verify }
        };
        let directive = |domain::Directive { header, controls, allowed }| HeaderDirective { header, controls, allowed };
        Some(Self {
            source: spec.source.as_ref().map(Into::into),
            source_text: spec.source.map(|source| source.name),
            mode: spec.mode.as_ref().map(Into::into),
            mode_text: spec.mode.map(|mode| mode.name),
            activation: spec.activation.as_ref().map(Into::into),
            activation_text: spec.activation.map(|activation| activation.name),
            ingress: spec.ingress.map(ingress),
            dispatch: SubscriptionDispatch {
                playbook: spec.dispatch.playbook,
                execution_pool: spec.dispatch.execution_pool,
                batch_dispatch: spec.dispatch.batch_dispatch,
                batch_max: spec.dispatch.batch_max.map(to_graphql_int),
                labels: Label::all(&spec.dispatch.labels),
            },
            dedup: SubscriptionDedup {
                enabled: spec.dedup.enabled,
                window_seconds: spec.dedup.window_seconds.map(to_graphql_int),
            },
            limits: SubscriptionLimits {
                max_in_flight: spec.limits.max_in_flight.map(to_graphql_int),
                max_dispatch_per_second: spec.limits.max_dispatch_per_second.map(to_graphql_int),
            },
            directives: spec.directives.into_iter().map(directive).collect(),
            spool: spec.spool.map(Into::into),
        })
    }

    /// Returns the pool that the executions of the subscription run in; `None`: the default pool.
    pub(super) fn execution_pool(self) -> Option<String> {
        self.dispatch.execution_pool
    }
}

impl From<Verification> for IngressVerification {
    fn from(verification: Verification) -> Self {
        let scheme = verification.scheme();
        let of = Self {
            r#type: (&scheme).into(),
            type_text: scheme.name,
            header: None,
            secret: None,
            audience: None,
            service_account: None,
        };
        match verification {
            Verification::HmacSha256 { header, secret } => Self { header: Some(header), secret: Some(secret), ..of },
            Verification::Bearer { secret } => Self { secret: Some(secret), ..of },
            Verification::PubsubOidc { audience, service_account } => {
                Self { audience: Some(audience), service_account: Some(service_account), ..of }
            }
            Verification::Other { .. } => of,
        }
    }
}

impl From<Spool> for SubscriptionSpool {
    fn from(spool: Spool) -> Self {
        let Spool { mode, backend, bucket, path, ordering } = spool;
        Self {
            mode: (&mode).into(),
            mode_text: mode.name,
            backend: backend.as_ref().map(Into::into),
            backend_text: backend.map(|backend| backend.name),
            bucket,
            path,
            ordering: ordering.as_ref().map(Into::into),
            ordering_text: ordering.map(|ordering| ordering.name),
        }
    }
}
