//! Pages of logs.
//!
//! A page can be joined with the live events. Then it has only events that the feed has published, and the positions of
//! the feeds from which a reader receives exactly the others.

use std::sync::Arc;

use crate::listing::Listing;
use noetl_domain::event::Event;
use noetl_domain::event_list::{Arrival, LogFilter};
use noetl_domain::page::{Page, PageRequest};
use noetl_storage::events::LargeColumns;
use noetl_storage::tail_covered::Covered;
use plain_json::Text;

/// Request for a page of a log.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum LogRequest {
    /// In the order of event ids.
    ById(PageRequest<i64>),
    /// In the order of arrival. Such a page is read forwards.
    ByArrival(PageRequest<Arrival>),
}

/// Query for pages of logs.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LogQuery {
    /// Filter for the events.
    pub filter: LogFilter,
    /// Large columns to read.
    pub columns: LargeColumns,
    /// Requested page.
    pub request: LogRequest,
    /// Whether the page is to be joined with the live events.
    pub joined: bool,
}

/// An event of a page.
#[derive(Debug, Clone)]
pub struct Listed {
    /// The event.
    pub event: Event<Text>,
    /// Position of a reader that has the event, if the page is in the order of arrival.
    pub arrival: Option<Arrival>,
}

/// Positions of the feeds of all shards, by shard index. `None`: the shard can't be reached, or its feed never began.
pub type FeedPositions = Arc<Vec<Option<Covered>>>;

/// A page of a log.
#[derive(Debug, Clone)]
pub struct LogPage {
    /// Events of the page.
    pub page: Page<Listed>,
    /// Feed positions that continue the page, if it is joined with the live events.
    pub feeds: Option<FeedPositions>,
}

/// A page of events of several logs.
#[derive(Debug)]
pub struct EventListing {
    /// Events of the reachable shards.
    pub listing: Listing<Event<Text>>,
    /// Feed positions that continue the page, if it is joined with the live events.
    pub feeds: Option<FeedPositions>,
}

impl LogRequest {
    /// Returns the page of a log without events.
    #[must_use]
    pub fn empty(&self) -> Page<Listed> {
        match self {
            Self::ById(request) => request.cut(Vec::new()),
            Self::ByArrival(request) => request.cut(Vec::new()),
        }
    }
}
