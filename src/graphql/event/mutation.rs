//! Mutation that stores events of workers.

use async_graphql::{Context, Object, Result};

use super::project_events::{
    ProjectEventDocumentsInput, ProjectEventsInput, ProjectEventsPayload, event_ids, executions,
};
use crate::graphql::access::{PROJECT, caller};
use crate::graphql::audit::audited;
use crate::graphql::context::Services;
use crate::service::ingest::Draft;

/// Mutation that stores events of workers.
#[derive(Debug, Default)]
pub struct EventMutation;

#[Object]
impl EventMutation {
    /// Stores events of workers. The mutation is idempotent: events that are already stored are skipped and counted.
    #[graphql(guard = "PROJECT")]
    async fn project_events(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Batch of events.")] input: ProjectEventsInput,
    ) -> Result<ProjectEventsPayload> {
        project(ctx, input.into_drafts()).await
    }

    /// Stores events of workers that are given as JSON documents. The same as `projectEvents` otherwise.
    #[graphql(guard = "PROJECT")]
    async fn project_event_documents(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Batch of events.")] input: ProjectEventDocumentsInput,
    ) -> Result<ProjectEventsPayload> {
        project(ctx, input.into_drafts()).await
    }
}

async fn project(ctx: &Context<'_>, drafts: Vec<Draft>) -> Result<ProjectEventsPayload> {
    audited(ctx, executions(&drafts), async {
        let ids = event_ids(&drafts);
        let projected = ctx.data::<Services>()?.ingest.project(drafts, &caller(ctx)?).await;
        ProjectEventsPayload::new(&ids, projected)
    })
    .await
}
