//! Updates of the list of source subscriptions. Each lifecycle event has its own item, with the state after the event.

use async_graphql::Result;

use crate::context::Services;
use crate::updates::Found;
use crate::updates::list::{Followed, ObjectReads, PageReads, Row};
use noetl_domain::event::{Event, EventFilter};
use noetl_domain::ids::Id;
use noetl_domain::lifecycle::{Action, REGISTERED, State};
use noetl_domain::list_position::ListPosition;
use noetl_domain::page::{PageRequest, Total};
use noetl_domain::tenant::Scope;
use noetl_feed::read::reader::{Interest, Start};
use noetl_storage::subscriptions::{SubscriptionFilter, SubscriptionRow};
use noetl_use_cases::error::ServiceError;
use noetl_use_cases::listing::Listing;
use plain_json::Text;

/// Reads of source subscriptions that readers share.
pub type SubscriptionReads = ObjectReads<SubscriptionRow>;
/// Reads of pages of source subscriptions that readers share.
pub type SubscriptionPages = PageReads<FollowedSubscriptions>;

impl Row for SubscriptionRow {
    fn id(&self) -> Id {
        self.id
    }

    fn version(&self) -> Id {
        self.last_event_id
    }

    fn position(&self) -> ListPosition {
        Self::position(self)
    }

    fn has_ended(&self) -> bool {
        false
    }
}

/// The list of source subscriptions, for readers that follow it.
#[derive(Debug)]
pub enum FollowedSubscriptions {}

impl Followed for FollowedSubscriptions {
    type Row = SubscriptionRow;
    type Filter = SubscriptionFilter;
    const EACH_EVENT: bool = true;

    fn interest() -> Interest {
        let types = Action::ALL.into_iter().map(Action::event_type).chain([REGISTERED]);
        let filter = EventFilter { types: Some(types.map(str::to_owned).collect()), ..EventFilter::default() };
        Interest { filter, scope: Scope::Unrestricted }
    }

    fn start() -> Start {
        Start::Latest
    }

    fn can_leave(filter: &SubscriptionFilter) -> bool {
        filter.states.is_some()
    }

    fn matches(filter: &SubscriptionFilter, row: &SubscriptionRow) -> bool {
        filter.matches(row)
    }

    async fn page(
        services: &Services,
        filter: &SubscriptionFilter,
        request: &PageRequest<ListPosition>,
        scope: &Scope,
    ) -> Result<Listing<SubscriptionRow>, ServiceError> {
        services.subscriptions.list(filter, request, scope).await
    }

    async fn count(
        services: &Services,
        filter: &SubscriptionFilter,
        scope: &Scope,
        limit: i64,
    ) -> Result<Total, ServiceError> {
        services.subscriptions.total(filter, limit, scope).await
    }

    async fn read(services: &Services, ids: &[Id], scope: &Scope) -> Result<Vec<Found<SubscriptionRow>>> {
        let (rows, failed) = services.subscriptions.by_ids(ids, scope).await;
        Found::all(ids, rows.into_iter().map(|row| (row.id, row)).collect(), failed)
    }

    /// Returns the subscription in its state after this lifecycle event, even if later events exist.
    fn after(row: SubscriptionRow, event: &Event<Text>) -> SubscriptionRow {
        let state_text = event.status.clone().unwrap_or_default();
        SubscriptionRow {
            state: State::from_stored(&state_text),
            state_text,
            last_event_id: event.event_id,
            last_event_type: event.event_type.clone(),
            updated_at: event.created_at,
            ..row
        }
    }
}
