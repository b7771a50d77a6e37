//! Mutations that store events of workers.

use async_graphql::{Context, Guard, Object, Result};

use super::project_events::{
    BatchOutcome, ProjectEventDocumentsInput, ProjectEventDocumentsPayload, ProjectEvents, ProjectEventsPayload,
    executions, given_ids,
};
use super::reserve_event_ids::{ReserveEventIdsInput, ReserveEventIdsPayload};
use crate::access::{OUTBOX, PROJECT, caller};
use crate::audit::audited;
use crate::context::Services;
use crate::guards::WrittenInput;
use crate::moved_input::Moved;

/// Mutations that store events of workers.
#[derive(Debug, Default)]
pub struct EventMutation;

#[Object]
impl EventMutation {
    /// Stores events of workers. The mutation is idempotent: events that are already stored with the same content are
    /// skipped and counted. An event whose id or key is stored with other content is refused with `EVENT_ID_CONFLICT`.
    /// An event of an execution that does not exist is refused with `NOT_FOUND`, until a minute after the time of the
    /// execution's id. Only callers with the capability `IMPORT` can send it at once. A worker names the claim of its
    /// outbox entry, so that it changes nothing any more once another worker has claimed the entry.
    #[graphql(guard = "PROJECT")]
    async fn project_events(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Batch of events.")] input: Moved<ProjectEvents>,
    ) -> Result<Option<ProjectEventsPayload>> {
        Ok(Some(ProjectEventsPayload { outcome: project(ctx, input.0).await? }))
    }

    /// Stores events of workers that are given as JSON documents. The same as `projectEvents` otherwise.
    #[graphql(guard = "PROJECT")]
    async fn project_event_documents(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Batch of events.")] input: ProjectEventDocumentsInput,
    ) -> Result<Option<ProjectEventDocumentsPayload>> {
        Ok(Some(ProjectEventDocumentsPayload { outcome: project(ctx, input.into()).await? }))
    }

    /// Reserves ids for events of a worker. No other event of the deployment gets these ids, unless another program makes
    /// ids in its own way. They increase, and the ids that the same replica gives later are larger. Ids that are not used
    /// cost nothing.
    #[graphql(guard = "PROJECT")]
    async fn reserve_event_ids(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Number of ids.")] input: ReserveEventIdsInput,
    ) -> Result<Option<ReserveEventIdsPayload>> {
        let nothing: [&str; 0] = [];
        audited(ctx, nothing, async { ReserveEventIdsPayload::new(input.reserve(ctx.data::<Services>()?).await) })
            .await
            .map(Some)
    }
}

async fn project(ctx: &Context<'_>, batch: ProjectEvents) -> Result<BatchOutcome> {
    if batch.settle {
        OUTBOX.check(ctx).await?;
    }
    audited(ctx, executions(&batch.drafts), async {
        let given = given_ids(&batch.drafts);
        let outcome = batch.carry_out(ctx.data::<Services>()?, &WrittenInput::new(ctx), &caller(ctx)?).await;
        BatchOutcome::new(ctx, &given, outcome).await
    })
    .await
}
