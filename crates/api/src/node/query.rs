//! Queries of objects by their ids.

use async_graphql::{Context, ID, Object, Result};
use futures::future::join_all;
use noetl_domain::node_id::{MalformedNodeId, NodeId};

use super::types::Node;
use crate::access::READ;
use crate::errors::field_error;
use noetl_use_cases::error::Rejection;

/// Maximum number of ids of one query.
const MAX_IDS: usize = 100;

/// Queries of objects by their ids.
#[derive(Debug, Default)]
pub struct NodeQuery;

#[Object]
impl NodeQuery {
    /// The object with this id; null if there is none.
    #[graphql(guard = "READ")]
    async fn node(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Id that the field `id` of an object returned.")] id: ID,
    ) -> Result<Option<Node>> {
        Node::load(ctx, parse("id", &id)?).await
    }

    /// The objects with these ids, in the order of the ids; null for an id without an object. An object that can't be
    /// read, and a malformed id, fail only their own item.
    #[graphql(guard = "READ")]
    async fn nodes(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Ids that the field `id` of objects returned (1 to 100).")] ids: Vec<ID>,
    ) -> Result<Option<Vec<Option<Result<Node>>>>> {
        if ids.is_empty() || ids.len() > MAX_IDS {
            let message = format!("ids must have 1 to {MAX_IDS} elements, not {}", ids.len());
            return Err(field_error(Rejection::invalid("ids", message)));
        }
        let load = async |(index, id): (usize, &ID)| match parse(&format!("ids.{index}"), id) {
            Ok(id) => Node::load(ctx, id).await.transpose(),
            Err(error) => Some(Err(error)),
        };
        Ok(Some(join_all(ids.iter().enumerate().map(load)).await))
    }
}

fn parse(field: &str, id: &ID) -> Result<NodeId> {
    id.parse().map_err(|malformed: MalformedNodeId| field_error(Rejection::invalid(field, malformed.to_string())))
}
