//! Mutation that stores events of workers.

use async_graphql::{Context, Object, Result};

use super::project_events::{ProjectEventsInput, ProjectEventsPayload};
use crate::graphql::access::{PROJECT, actor};
use crate::graphql::audit::audited;
use crate::graphql::context::Services;

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
        audited(ctx, input.executions(), async {
            let (ids, drafts) = input.into_parts();
            let projected = ctx.data::<Services>()?.ingest.project(drafts, actor(ctx)?.as_ref()).await;
            ProjectEventsPayload::new(&ids, projected)
        })
        .await
    }
}
