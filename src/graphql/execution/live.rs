//! Live changes of an execution.

use async_graphql::{Context, ID, Result, Subscription};
use futures::{Stream, TryStreamExt};

use super::changes;
use super::types::Execution;
use crate::graphql::access::{LIVE, scope};
use crate::graphql::context::Services;
use crate::graphql::deadline::{WithDeadline, deadline};
use crate::graphql::errors::field_error;
use crate::graphql::live::hub;
use crate::graphql::scalars::parse_id;

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
    ) -> Result<impl Stream<Item = Result<WithDeadline<Execution>>> + use<>> {
        let id = parse_id("id", &id).map_err(field_error)?;
        let (executions, deadline) = (ctx.data::<Services>()?.executions.clone(), deadline(ctx)?);
        let rows = changes::changes(hub(ctx)?, executions, scope(ctx)?, id, deadline);
        Ok(rows.map_ok(move |row| WithDeadline::new(Execution::current(row), deadline)))
    }
}
