//! Payloads of the mutations of source subscriptions.

use async_graphql::{Context, ID, Object, SimpleObject};

use super::types::SourceSubscription;
use crate::access::{principal, scope};
use crate::audit::AuditedPayload;
use crate::context::Services;
use crate::errors::{UserError, field_error, item_error, result_or_user_error};
use crate::scalars::{parse_id, show_id, to_graphql_int};
use noetl_auth::principal::Capability;
use noetl_storage::subscriptions::SubscriptionRow;
use noetl_use_cases::catalog::check_path;
use noetl_use_cases::error::ServiceError;
use noetl_use_cases::subscriptions::BulkItem;

/// Result of a mutation of one source subscription.
#[derive(Debug)]
pub(super) struct Changed {
    subscription: Current,
    user_errors: Vec<UserError>,
}

/// Source subscription of a payload.
#[derive(Debug)]
enum Current {
    /// As the mutation left it.
    Changed(SourceSubscription),
    /// The mutation was refused. The subscription is read if it is selected.
    Refused(Target),
    /// A shard could not be reached in time. It is not asked again.
    Unavailable,
}

/// Source subscription that a mutation names.
#[derive(Debug)]
pub(super) enum Target {
    Id(ID),
    Path(String),
}

impl Changed {
    /// Creates the payload. A fault becomes an error of the field.
    pub(super) fn new(target: Target, changed: Result<SubscriptionRow, ServiceError>) -> async_graphql::Result<Self> {
        let (changed, user_errors) = result_or_user_error(changed)?;
        let subscription = match changed {
            Some(row) => Current::Changed(row.into()),
            None if user_errors.iter().any(|error| error.retryable) => Current::Unavailable,
            None => Current::Refused(target),
        };
        Ok(Self { subscription, user_errors })
    }
}

#[Object]
impl Changed {
    /// Subscription after the mutation. If the request was refused: the current subscription, or null if it does not
    /// exist, the caller can't read it, or a shard can't be reached.
    async fn subscription(&self, ctx: &Context<'_>) -> async_graphql::Result<Option<SourceSubscription>> {
        match &self.subscription {
            Current::Changed(subscription) => Ok(Some(subscription.clone())),
            Current::Refused(target) if principal(ctx)?.has_any(&[Capability::Read]) => target.read(ctx).await,
            Current::Refused(_) | Current::Unavailable => Ok(None),
        }
    }

    /// Reasons the request was refused; empty if it was carried out.
    async fn user_errors(&self) -> &[UserError] {
        &self.user_errors
    }
}

impl Target {
    /// Reads the subscription. A malformed id or path names none.
    async fn read(&self, ctx: &Context<'_>) -> async_graphql::Result<Option<SourceSubscription>> {
        match self {
            Self::Id(id) => match parse_id("subscriptionId", id) {
                Ok(id) => SourceSubscription::load(ctx, id).await,
                Err(_) => Ok(None),
            },
            Self::Path(path) if check_path(path).is_ok() => {
                let found = ctx.data::<Services>()?.subscriptions.by_path(path, &scope(ctx)?).await;
                Ok(found.map_err(field_error)?.map(SourceSubscription::from))
            }
            Self::Path(_) => Ok(None),
        }
    }
}

impl AuditedPayload for Changed {
    fn user_errors(&self) -> &[UserError] {
        &self.user_errors
    }

    fn ids(&self) -> Vec<String> {
        match &self.subscription {
            Current::Changed(subscription) => vec![subscription.key().to_string()],
            Current::Refused(_) | Current::Unavailable => Vec::new(),
        }
    }
}

/// Result of registering a source subscription.
#[derive(Debug, SimpleObject)]
pub(super) struct RegisterSubscriptionPayload {
    #[graphql(flatten)]
    pub(super) changed: Changed,
}

/// Result of changing the status of a source subscription.
#[derive(Debug, SimpleObject)]
pub(super) struct SubscriptionTransitionPayload {
    #[graphql(flatten)]
    pub(super) changed: Changed,
}

/// Result of a bulk transition.
#[derive(Debug, SimpleObject)]
pub(super) struct TransitionSubscriptionsPayload {
    /// Results, one for each selected subscription, newest subscription first. Result i belongs to id i if the
    /// subscriptions were selected by id.
    pub(super) results: Vec<TransitionSubscriptionsResult>,
    /// Shards that could not be reached. Their subscriptions were not selected.
    pub(super) unavailable_shards: Vec<u16>,
    /// Reasons the request was refused; empty if it was carried out.
    pub(super) user_errors: Vec<UserError>,
}

/// Result of a bulk transition for one source subscription.
#[derive(Debug, SimpleObject)]
pub(super) struct TransitionSubscriptionsResult {
    /// Index of the id in `select.ids`, counted from 0; null if the subscription was not selected by id.
    index: Option<i32>,
    /// Id of the subscription.
    subscription_id: ID,
    /// Subscription after the transition. In a dry run, or if the transition was refused: the subscription as selected.
    /// Null if it was not found.
    subscription: Option<SourceSubscription>,
    /// Whether the transition was carried out. In a dry run: whether it would be carried out.
    applied: bool,
    /// Reasons the transition was refused; empty if it was not refused.
    user_errors: Vec<UserError>,
}

impl TransitionSubscriptionsResult {
    /// Creates the result. A fault becomes a user error, so that it does not hide the results of the others.
    pub(super) fn new(item: BulkItem) -> Self {
        let (index, subscription_id) = (item.index.map(to_graphql_int), show_id(item.id));
        match item.outcome {
            Ok(changed) => Self {
                index,
                subscription_id,
                subscription: Some(changed.into()),
                applied: true,
                user_errors: Vec::new(),
            },
            Err(error) => {
                let subscription = item.matched.map(SourceSubscription::from);
                let field = item.index.map(|index| vec!["select".to_owned(), "ids".to_owned(), index.to_string()]);
                let user_errors = vec![UserError { field, ..item_error(error) }];
                Self { index, subscription_id, subscription, applied: false, user_errors }
            }
        }
    }
}

impl AuditedPayload for TransitionSubscriptionsPayload {
    fn user_errors(&self) -> &[UserError] {
        &self.user_errors
    }

    fn item_errors(&self) -> impl Iterator<Item = &UserError> {
        self.results.iter().flat_map(|result| &result.user_errors)
    }

    fn ids(&self) -> Vec<String> {
        self.results.iter().map(|result| result.subscription_id.to_string()).collect()
    }
}
