//! Queries of the server.

use async_graphql::{Context, Object, Result};

use super::event_stream::{EventStreamStatus, event_stream};
use super::info::{ServerInfo, server};
use super::replicas::{DeploymentReplica, replicas};
use super::shards::{Shard, shards};
use super::viewer::{Viewer, viewer};
use crate::access::{CALLER, READ, principal};
use crate::errors::field_error;

/// Queries of the server.
#[derive(Debug, Default)]
pub struct ServerQuery;

#[Object]
impl ServerQuery {
    /// Status of the event stream.
    #[graphql(guard = "READ")]
    async fn event_stream(&self, ctx: &Context<'_>) -> Result<Option<EventStreamStatus>> {
        Ok(Some(event_stream(ctx.data()?).await))
    }

    /// Health of the shards, as this replica sees them.
    #[graphql(guard = "READ")]
    async fn shards(&self, ctx: &Context<'_>) -> Result<Option<Vec<Shard>>> {
        Ok(Some(shards(ctx.data()?)))
    }

    /// Replicas of the deployment, ordered by machine id: the processes whose lease on a machine id is valid.
    #[graphql(guard = "READ")]
    async fn replicas(&self, ctx: &Context<'_>) -> Result<Option<Vec<DeploymentReplica>>> {
        Ok(Some(replicas(ctx.data()?).await.map_err(field_error)?))
    }

    /// Information about the replica that executes the operation.
    #[graphql(guard = "CALLER")]
    async fn server(&self, ctx: &Context<'_>) -> Result<Option<ServerInfo>> {
        Ok(Some(server(ctx.data()?)))
    }

    /// Caller of this operation.
    #[graphql(guard = "CALLER")]
    async fn viewer(&self, ctx: &Context<'_>) -> Result<Option<Viewer>> {
        Ok(Some(viewer(principal(ctx)?)))
    }
}
