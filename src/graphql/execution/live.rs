//! Live changes of an execution.

use async_graphql::{Context, ID, Result, Subscription};
use futures::{Stream, TryStreamExt};

use super::changes::{self, ExecutionReads, Watch};
use super::types::Execution;
use crate::graphql::access::{LIVE, principal, scope};
use crate::graphql::audience::Audience;
use crate::graphql::context::Services;
use crate::graphql::deadline::{WithDeadline, deadline};
use crate::graphql::errors::field_error;
use crate::graphql::live::hub;
use crate::graphql::scalars::parse_id;
use crate::graphql::shared_item::{ItemKey, SharedItem, SharedTexts};
use crate::graphql::shared_reads::Read;
use noetl_storage::executions::ExecutionRow;

/// Live changes of an execution.
#[derive(Debug, Default)]
pub struct ExecutionSubscription;

#[Subscription]
impl ExecutionSubscription {
    /// An execution in its current state, and again after each change. Changes that arrive together are combined. The
    /// same state may be returned twice.
    #[graphql(guard = "LIVE")]
    async fn execution_changes(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Id of the execution.")] id: ID,
    ) -> Result<impl Stream<Item = Result<WithDeadline<SharedItem<Execution>>>> + use<>> {
        let id = parse_id("id", &id).map_err(field_error)?;
        let (services, deadline) = (ctx.data::<Services>()?, deadline(ctx)?);
        let audience = Audience::of_operation(ctx, principal(ctx)?);
        let texts = ctx.data::<SharedTexts>()?.clone();
        let rows = changes::changes(Watch {
            hub: hub(ctx)?,
            executions: services.executions.clone(),
            reads: ctx.data::<ExecutionReads>()?.clone(),
            scope: scope(ctx)?,
            id,
            shard: services.databases.index_of(id),
            deadline,
        });
        let item = move |row: Read<ExecutionRow>| {
            let key = audience.clone().map(|audience| ItemKey { audience, read: row.number, id });
            SharedItem::new(Execution::current(row.value), key.map(|key| (key, texts.clone())))
        };
        Ok(rows.map_ok(move |row| WithDeadline::new(item(row), deadline)))
    }
}
