//! One object of each type that has a guarded field. The root fields have no guard, so only the guards of the types
//! protect the objects.

use std::sync::Arc;

use async_graphql::Object;
use chrono::{DateTime, Utc};
use noetl_api::catalog::draft::CatalogEntryDraft;
use noetl_api::catalog::types::CatalogEntry;
use noetl_api::catalog::workload::WorkloadField;
use noetl_api::event::types::Event;
use noetl_api::execution::dedup::DedupClaim;
use noetl_api::execution::past::ExecutionState;
use noetl_api::execution::state::Step;
use noetl_api::execution::types::Execution;
use noetl_api::outbox::types::{Outbox, OutboxClaim, OutboxEntry};
use noetl_api::subscription::types::SourceSubscription;
use noetl_domain::document::kind::Kind;
use noetl_domain::document::{Document, workload};
use noetl_domain::event;
use noetl_domain::ids::Id;
use noetl_domain::labels::Labels;
use noetl_domain::lifecycle::State;
use noetl_domain::outbox::OutboxId;
use noetl_domain::tenant::Tenancy;
use noetl_domain::workflow::WorkflowState;
use noetl_storage::catalog;
use noetl_storage::dedup::ClaimRow;
use noetl_storage::executions::ExecutionRow;
use noetl_storage::outbox::{Claimed, OutboxRow};
use noetl_storage::subscriptions::SubscriptionRow;
use noetl_use_cases::catalog::Draft;
use noetl_use_cases::outbox::{ClaimedRow, ListedRow};
use plain_json::Received;
use plain_json::Text;
use serde_json::Value;

const AT: DateTime<Utc> = DateTime::UNIX_EPOCH;
const OUTBOX_ID: OutboxId = OutboxId { shard: 0, number: 1 };

fn execution() -> Execution {
    Execution::unread(ExecutionRow {
        last_event_id: None,
        execution_id: 1,
        catalog_id: 3,
        parent_execution_id: Some(4),
        status: "COMPLETED".to_owned(),
        path: Some("a".to_owned()),
        start_time: Some(AT),
        end_time: Some(AT),
        tenant_id: "default".to_owned(),
        organization_id: "default".to_owned(),
        execution_pool: None,
        rerun_of: None,
        failed_steps: Some(1),
        labels: None,
    })
}

pub(super) struct Samples;

#[Object]
impl Samples {
    #[graphql(name = "sampleEvent")]
    async fn event(&self) -> Event {
        Event(Arc::new(event::Event::bare(Id::new(1), Id::new(2), Id::new(3), "step.enter", AT)))
    }

    #[graphql(name = "sampleExecution")]
    async fn execution(&self) -> Execution {
        execution()
    }

    #[graphql(name = "sampleExecutionState")]
    async fn execution_state(&self) -> ExecutionState {
        ExecutionState(execution())
    }

    #[graphql(name = "sampleDedupClaim")]
    async fn dedup_claim(&self) -> DedupClaim {
        DedupClaim(ClaimRow { execution_id: 1, first_seen_at: AT, expires_at: Some(AT), duplicates: 0 })
    }

    #[graphql(name = "sampleSourceSubscription")]
    async fn subscription(&self) -> SourceSubscription {
        SourceSubscription::from(SubscriptionRow {
            id: Id::new(4),
            path: "a".to_owned(),
            catalog_id: Id::new(3),
            state: State::Active,
            state_text: "ACTIVE".to_owned(),
            last_event_id: Id::new(5),
            last_event_type: "subscription.activated".to_owned(),
            registered_at: AT,
            updated_at: AT,
            tenancy: Tenancy::default(),
            labels: Labels::default(),
        })
    }

    #[graphql(name = "sampleCatalogEntry")]
    async fn catalog_entry(&self) -> CatalogEntry {
        CatalogEntry::from(Arc::new(catalog::CatalogEntry {
            catalog_id: 3,
            path: "a".to_owned(),
            version: 1,
            kind: "playbook".to_owned(),
            content: None,
            created_at: AT,
        }))
    }

    #[graphql(name = "sampleCatalogEntryDraft")]
    async fn catalog_entry_draft(&self) -> CatalogEntryDraft {
        let document = Document::parse("kind: playbook").expect("a document");
        let content = "kind: playbook".to_owned();
        CatalogEntryDraft::from(Draft { path: "a".to_owned(), kind: Kind::Playbook, content, document })
    }

    #[graphql(name = "sampleWorkloadField")]
    async fn workload_field(&self) -> WorkloadField<'_> {
        static DEFAULT: Value = Value::Bool(true);
        WorkloadField(workload::WorkloadField { name: "a", default: &DEFAULT })
    }

    #[graphql(name = "sampleStep")]
    async fn step(&self) -> Option<Step> {
        let entered = event::Event {
            node_name: Some("one".to_owned()),
            ..event::Event::bare(Id::new(1), Id::new(2), Id::new(3), "step.enter", AT)
        };
        let mut state = WorkflowState::default();
        state.fold(&entered);
        let steps = state.steps();
        steps.first().map(|(name, step)| Step::new(name, step))
    }

    #[graphql(name = "sampleOutbox")]
    async fn outbox(&self) -> Outbox {
        Outbox
    }

    #[graphql(name = "sampleOutboxEntry")]
    async fn outbox_entry(&self) -> OutboxEntry {
        OutboxEntry(ListedRow {
            id: OUTBOX_ID,
            row: OutboxRow {
                outbox_id: 1,
                execution_id: Some(1),
                event_id: 2,
                subject: None,
                payload: None,
                payload_codec: "json".to_owned(),
                state: "FAILED".to_owned(),
                status: "FAILED".to_owned(),
                attempts: 1,
                available_at: AT,
                lease_until: None,
                claimant: None,
                last_error: None,
                created_at: AT,
                published_at: None,
                tenant_id: "default".to_owned(),
                organization_id: "default".to_owned(),
            },
        })
    }

    #[graphql(name = "sampleOutboxClaim")]
    async fn outbox_claim(&self) -> OutboxClaim {
        let row = Claimed {
            outbox_id: 1,
            lease_token: 1,
            lease_until: AT,
            execution_id: Some(1),
            event_id: 2,
            message_id: uuid::Uuid::nil(),
            subject: None,
            payload: Received(Text::new("{}")),
            payload_codec: "json".to_owned(),
            bytes: None,
            tenant_id: "default".to_owned(),
            organization_id: "default".to_owned(),
            attempts: 1,
            retaken: false,
            exhausted: false,
        };
        OutboxClaim(ClaimedRow { id: OUTBOX_ID, row })
    }
}
