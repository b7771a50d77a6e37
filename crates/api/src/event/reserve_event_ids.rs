//! Input and payload of `reserveEventIds`.

use async_graphql::{ID, InputObject, Result, SimpleObject};

use crate::audit::audited_payload;
use crate::context::Services;
use crate::errors::{UserError, result_or_user_error};
use crate::scalars::show_id;
use noetl_domain::ids::Id;
use noetl_use_cases::error::{Rejection, ServiceError};

/// Maximum number of ids of one request.
const MAX_IDS: u32 = 1000;

/// Number of ids to reserve.
#[derive(Debug, InputObject)]
pub(super) struct ReserveEventIdsInput {
    /// Number of ids (1 to 1000).
    count: i64,
}

impl ReserveEventIdsInput {
    /// Reserves the ids.
    pub(super) async fn reserve(&self, services: &Services) -> Result<Vec<Id>, ServiceError> {
        match u32::try_from(self.count) {
            Ok(count @ 1..=MAX_IDS) => services.ids.reserve(count).await,
            _ => Err(Rejection::invalid("count", format!("count must be 1 to {MAX_IDS}, not {}", self.count)).into()),
        }
    }
}

/// Reserved ids.
#[derive(Debug, SimpleObject)]
pub(super) struct ReserveEventIdsPayload {
    /// Ids in increasing order, to pass as `eventId`; empty if the request was refused.
    event_ids: Vec<ID>,
    /// Reasons the request was refused; empty if it was carried out.
    user_errors: Vec<UserError>,
}

impl ReserveEventIdsPayload {
    pub(super) fn new(reserved: Result<Vec<Id>, ServiceError>) -> Result<Self> {
        let (ids, user_errors) = result_or_user_error(reserved)?;
        Ok(Self { event_ids: ids.into_iter().flatten().map(show_id).collect(), user_errors })
    }
}

audited_payload!(ReserveEventIdsPayload);
