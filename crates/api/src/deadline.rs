//! Items of live subscriptions, each with a deadline.
//!
//! An item that can't be resolved in time is replaced by an error with the code `TIMEOUT`, and the subscription
//! continues with the next item.

use std::borrow::Cow;
use std::time::Duration;

use async_graphql::parser::types::Field;
use async_graphql::registry::Registry;
use async_graphql::{Context, ContextSelectionSet, Error, OutputType, Positioned, Result, ServerResult, Value};
use tokio::time::timeout;

use super::context::Services;
use super::errors::error_with_code;

/// An item that has to be resolved within its deadline.
#[derive(Debug)]
pub struct WithDeadline<T> {
    item: T,
    deadline: Duration,
}

impl<T> WithDeadline<T> {
    /// Returns an item with its deadline.
    #[must_use]
    pub fn new(item: T, deadline: Duration) -> Self {
        Self { item, deadline }
    }
}

impl<T: OutputType> OutputType for WithDeadline<T> {
    fn type_name() -> Cow<'static, str> {
        T::type_name()
    }

    fn create_type_info(registry: &mut Registry) -> String {
        T::create_type_info(registry)
    }

    async fn resolve(&self, ctx: &ContextSelectionSet<'_>, field: &Positioned<Field>) -> ServerResult<Value> {
        let resolved = timeout(self.deadline, self.item.resolve(ctx, field)).await;
        resolved.unwrap_or_else(|_| Err(ctx.set_error_path(timeout_error().into_server_error(field.pos))))
    }
}

/// Returns the deadline of one item, which is the deadline of a query.
pub(super) fn deadline(ctx: &Context<'_>) -> Result<Duration> {
    Ok(ctx.data::<Services>()?.replica.limits.deadline)
}

/// Runs a read that an item needs before it is resolved, and fails if the deadline passes.
pub(super) async fn with_deadline<T>(deadline: Duration, read: impl Future<Output = Result<T>>) -> Result<T> {
    timeout(deadline, read).await.unwrap_or_else(|_| Err(timeout_error()))
}

fn timeout_error() -> Error {
    let message = "The item was not resolved in time; select fewer fields, or query the item.";
    error_with_code("TIMEOUT", message.to_owned())
}
