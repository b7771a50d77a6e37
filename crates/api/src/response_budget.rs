//! Counts the bytes of a response while its values are resolved. An operation that selects a large value many times is
//! stopped before it has made all the copies.

use std::sync::Arc;

use async_graphql::async_trait::async_trait;
use async_graphql::extensions::{Extension, ExtensionContext, ExtensionFactory, NextResolve, ResolveInfo};
use async_graphql::{PathSegment, QueryPathNode, QueryPathSegment, ServerError, ServerResult, Value};

use super::errors::limit_exceeded;
use noetl_storage::budget::{Budget, Exceeded};

/// Charges the value of each field to the budget of its operation.
pub(super) struct ResponseBudget;

impl ExtensionFactory for ResponseBudget {
    fn create(&self) -> Arc<dyn Extension> {
        Arc::new(Self)
    }
}

#[async_trait]
impl Extension for ResponseBudget {
    async fn resolve(
        &self,
        context: &ExtensionContext<'_>,
        info: ResolveInfo<'_>,
        next: NextResolve<'_>,
    ) -> ServerResult<Option<Value>> {
        let Some(budget) = Budget::current() else { return next.run(context, info).await };
        let path = info.path_node;
        let refused = |exceeded| error(exceeded, Some(path));
        budget.check().map_err(refused)?;
        let name = info.field.response_key().node.len();
        let composite = !info.field.selection_set.node.items.is_empty();
        let value = next.run(context, info).await?;
        let bytes = value.as_ref().map_or(0, |value| json_size(value, composite));
        budget.charge_response(name + bytes).map_err(refused)?;
        Ok(value)
    }
}

/// Returns the approximate number of bytes of a value as JSON. The fields of a `composite` value are not counted again,
/// because each was charged on its own, unless the value is already JSON text.
fn json_size(value: &Value, composite: bool) -> usize {
    match value {
        Value::Binary(text) => text.len(),
        Value::List(items) => items.iter().map(|item| json_size(item, composite) + 1).sum(),
        Value::Object(_) if composite => 2,
        Value::Object(fields) => fields.iter().map(|(name, value)| name.len() + 4 + json_size(value, false)).sum(),
        Value::String(text) => text.len() + 2,
        Value::Enum(name) => name.len() + 2,
        Value::Null | Value::Boolean(_) | Value::Number(_) => 4,
    }
}

/// Returns the error of the value at a path.
pub(super) fn error(exceeded: Exceeded, at: Option<&QueryPathNode<'_>>) -> ServerError {
    let error = limit_exceeded(exceeded);
    let path = at.map_or_else(Vec::new, |at| {
        let mut path: Vec<PathSegment> = at.parents().chain([at]).map(segment).collect();
        path.reverse();
        path
    });
    ServerError { extensions: error.extensions, path, ..ServerError::new(error.message, None) }
}

fn segment(node: &QueryPathNode<'_>) -> PathSegment {
    match node.segment {
        QueryPathSegment::Name(name) => PathSegment::Field(name.to_owned()),
        QueryPathSegment::Index(index) => PathSegment::Index(index),
    }
}
