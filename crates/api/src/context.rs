//! Values that every resolver can use: the use cases, and the description of this replica.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use graphql_transport::Limits;

use crate::server::settings::ServerSetting;
use noetl_domain::execution::StatusSource;
use noetl_feed::read::hub::Hub;
use noetl_feed::wire::names::StreamNames;
use noetl_storage::budget::BudgetLimits;
use noetl_storage::pools::Databases;
use noetl_use_cases::catalog::Catalog;
use noetl_use_cases::executions::Executions;
use noetl_use_cases::ids::ReserveIds;
use noetl_use_cases::ingest::ProjectEvents;
use noetl_use_cases::outbox::Outbox;
use noetl_use_cases::projections::Projections;
use noetl_use_cases::subscriptions::Subscriptions;

/// All use cases. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Services {
    /// All databases.
    pub databases: Databases,
    /// The catalog.
    pub catalog: Arc<dyn Catalog>,
    /// Source subscriptions.
    pub subscriptions: Arc<dyn Subscriptions>,
    /// Executions.
    pub executions: Arc<dyn Executions>,
    /// States of executions.
    pub projections: Arc<dyn Projections>,
    /// Events of workers.
    pub ingest: Arc<dyn ProjectEvents>,
    /// The outbox.
    pub outbox: Arc<dyn Outbox>,
    /// Live events; `None` without a broker.
    pub hub: Option<Hub>,
    /// Generator of ids.
    pub ids: Arc<dyn ReserveIds>,
    /// Description of this replica.
    pub replica: Replica,
}

impl Services {
    /// Returns whether an event after the end of an execution can change its status, although it ends nothing.
    #[must_use]
    pub fn statuses_change_after_end(&self) -> bool {
        self.databases.cluster().status_source() == StatusSource::Steps
    }
}

/// Description of a replica.
#[derive(Debug, Clone)]
pub struct Replica {
    /// Name, unique in the deployment.
    pub name: String,
    /// Version of the software.
    pub version: &'static str,
    /// Start time.
    pub started_at: DateTime<Utc>,
    /// Whether it takes part in publishing events.
    pub event_stream_enabled: bool,
    /// Names of the streams of events.
    pub stream_names: StreamNames,
    /// Whether it takes part in delivering outbox rows.
    pub relay_enabled: bool,
    /// Whether it keeps executions' snapshots current.
    pub projector_enabled: bool,
    /// Values of the settings that are no secrets.
    pub settings: Arc<[ServerSetting]>,
    /// URL of a page that shows a trace, with `{traceId}` in place of the id.
    pub trace_url: Option<String>,
    /// Limits of the transport.
    pub limits: Limits,
    /// Limits on what one operation reads and returns.
    pub budget: BudgetLimits,
}
