//! Objects to which events belong.

use async_graphql::{Context, Result, Union};

use super::loaders::HeadKey;
use crate::errors::field_error;
use crate::execution::types::Execution;
use crate::loaders::BatchLoader;
use crate::subscription::types::SourceSubscription;
use noetl_domain::ids::Id;
use noetl_domain::lifecycle::REGISTERED;

/// Object to which a log belongs.
#[derive(Debug, Clone, Union)]
pub enum LogOwner {
    /// An execution.
    Execution(Execution),
    /// A source subscription.
    SourceSubscription(SourceSubscription),
}

impl LogOwner {
    /// Returns the owner of a log through the batch loaders; `None` if there is none that the caller may read.
    pub async fn load(ctx: &Context<'_>, id: Id) -> Result<Option<Self>> {
        let head = ctx.data::<BatchLoader>()?.load_one(HeadKey(id)).await.map_err(field_error)?;
        let head = head.transpose().map_err(field_error)?;
        if head.is_some_and(|head| head.event_type == REGISTERED) {
            return Ok(SourceSubscription::load(ctx, id).await?.map(Self::SourceSubscription));
        }
        Ok(Execution::load(ctx, id).await?.map(Self::Execution))
    }
}
