//! The outbox: what waits to be delivered.

use async_graphql::{Context, Enum, ID, Object, Result, SimpleObject};
use chrono::{DateTime, Utc};

use crate::domain::cursor::{CursorKind, encode};
use crate::domain::ids::Id;
use crate::domain::outbox::{OutboxId, OutboxPlace, OutboxStatus as Status};
use crate::graphql::access::{OUTBOX, READ};
use crate::graphql::connection::{OutboxEntryConnection, PageArguments, selects};
use crate::graphql::errors::fault;
use crate::graphql::inputs::outbox::OutboxFilter;
use crate::graphql::scalars::{JsonText, show_id};
use crate::graphql::schema::Services;
use crate::service::error::ServiceError;
use crate::service::outbox::{Leased, place};
use crate::storage::outbox::{Backlog, Counts, OutboxRow};

/// A count as GraphQL's `Int`, which has 32 bits; what is larger shows as the largest.
pub fn count(number: impl TryInto<i32>) -> i32 {
    number.try_into().unwrap_or(i32::MAX)
}

fn total(counts: impl Iterator<Item = i32>) -> i32 {
    counts.fold(0, i32::saturating_add)
}

/// Where an outbox row stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[graphql(remote = "Status")]
pub enum OutboxStatus {
    /// Not claimed yet.
    Pending,
    /// Claimed under a lease.
    InFlight,
    /// Delivered.
    Published,
    /// Not delivered at the last attempt; it is due again later.
    Failed,
}

/// The outbox over all shards.
#[derive(Debug, Clone, Copy)]
pub struct Outbox;

/// The outbox: messages that were written in the transaction of an event, and wait to be delivered.
#[Object]
impl Outbox {
    /// Rows that are claimable now: pending or failed and due, or in flight under a lease that has passed. Of the shards
    /// that can be reached; of each, up to 100,000 are counted.
    async fn pending_count(&self, ctx: &Context<'_>) -> Result<i32> {
        let stats = ctx.data::<Services>()?.outbox.backlog().await.map_err(fault)?;
        Ok(total(stats.shards.iter().map(|(_, backlog)| count(backlog.pending))))
    }

    /// What waits, is in flight and failed.
    async fn stats(&self, ctx: &Context<'_>) -> Result<OutboxStats> {
        OutboxStats::read(ctx.data::<Services>()?).await.map_err(fault)
    }

    /// The rows, newest first.
    #[graphql(guard = "READ")]
    async fn entries(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Which ones; all by default.")] filter: Option<OutboxFilter>,
        #[graphql(desc = "Items from the start; at most 100.")] first: Option<i32>,
        #[graphql(desc = "Behind this cursor.")] after: Option<String>,
        #[graphql(desc = "Items from the end; at most 100.")] last: Option<i32>,
        #[graphql(desc = "Ahead of this cursor.")] before: Option<String>,
    ) -> Result<OutboxEntryConnection> {
        let page = PageArguments { first, after, last, before };
        let request = page.request(CursorKind::Outbox, read_place).map_err(fault)?;
        let filter = filter.unwrap_or_default().parse("filter").map_err(fault)?;
        let listing =
            ctx.data::<Services>()?.outbox.list(&filter, selects(ctx, "payload"), &request).await.map_err(fault)?;
        Ok(OutboxEntryConnection::new(listing.page, listing.unavailable, cursor, OutboxEntry))
    }
}

/// A place: the time in microseconds, the shard, the number.
fn cursor(row: &(OutboxId, OutboxRow)) -> String {
    let OutboxPlace { created_at, id } = place(row);
    let mut position = created_at.timestamp_micros().to_be_bytes().to_vec();
    position.extend_from_slice(&id.shard.to_be_bytes());
    position.extend_from_slice(&id.number.to_be_bytes());
    encode(CursorKind::Outbox, &position)
}

fn read_place(position: &[u8]) -> Option<OutboxPlace> {
    let (micros, rest) = position.split_first_chunk::<8>()?;
    let (shard, number) = rest.split_first_chunk::<2>()?;
    let id = OutboxId { shard: u16::from_be_bytes(*shard), number: i64::from_be_bytes(number.try_into().ok()?) };
    Some(OutboxPlace { created_at: DateTime::from_timestamp_micros(i64::from_be_bytes(*micros))?, id })
}

/// How much waits, over the shards that can be reached. Of each shard, up to 100,000 rows of a kind are counted.
#[derive(Debug, Clone, SimpleObject)]
pub struct OutboxStats {
    /// Rows that are claimable now.
    pending: i32,
    /// Rows that are claimed and not settled, also those whose lease has passed.
    in_flight: i32,
    /// Rows that failed at their last attempt, also those that are due again.
    failed: i32,
    /// Seconds since the oldest of the claimable rows that were counted was written.
    oldest_pending_age_seconds: Option<f64>,
    /// The same, shard by shard.
    by_shard: Vec<OutboxShardStats>,
    /// Shards that could not be reached: their rows are not counted.
    unavailable_shards: Vec<u16>,
}

impl OutboxStats {
    /// Reads every shard.
    pub async fn read(services: &Services) -> std::result::Result<Self, ServiceError> {
        let stats = services.outbox.stats().await?;
        let by_shard = stats.shards.into_iter().map(|(shard, counted)| OutboxShardStats::new(shard, counted)).collect();
        Ok(Self::new(by_shard, stats.unavailable))
    }

    fn new(by_shard: Vec<OutboxShardStats>, unavailable_shards: Vec<u16>) -> Self {
        let sum = |of: fn(&OutboxShardStats) -> i32| total(by_shard.iter().map(of));
        let ages = by_shard.iter().filter_map(|shard| shard.oldest_pending_age_seconds);
        Self {
            pending: sum(|shard| shard.pending),
            in_flight: sum(|shard| shard.in_flight),
            failed: sum(|shard| shard.failed),
            oldest_pending_age_seconds: ages.reduce(f64::max),
            by_shard,
            unavailable_shards,
        }
    }
}

/// How much waits on one shard; up to 100,000 rows of a kind are counted.
#[derive(Debug, Clone, SimpleObject)]
pub struct OutboxShardStats {
    /// The shard.
    shard: u16,
    /// Rows that are claimable now.
    pending: i32,
    /// Rows that are claimed and not settled, also those whose lease has passed.
    in_flight: i32,
    /// Rows that failed at their last attempt, also those that are due again.
    failed: i32,
    /// Seconds since the oldest of the claimable rows that were counted was written.
    oldest_pending_age_seconds: Option<f64>,
}

impl OutboxShardStats {
    fn new(shard: u16, (backlog, counts): (Backlog, Counts)) -> Self {
        let oldest_pending_age_seconds = backlog.oldest_seconds;
        Self {
            shard,
            pending: count(backlog.pending),
            in_flight: count(counts.in_flight),
            failed: count(counts.failed),
            oldest_pending_age_seconds,
        }
    }
}

/// A row of the outbox.
#[derive(Debug, Clone)]
pub struct OutboxEntry(pub (OutboxId, OutboxRow));

/// A row of the outbox.
#[Object]
impl OutboxEntry {
    /// The row's id: its shard and its number there.
    async fn id(&self) -> ID {
        self.0.0.to_string().into()
    }

    /// The event that it tells of.
    async fn event_id(&self) -> ID {
        show_id(Id::new(self.0.1.event_id))
    }

    /// The execution whose row it is.
    async fn execution_id(&self) -> Option<ID> {
        self.0.1.execution_id.map(|id| show_id(Id::new(id)))
    }

    /// Where it is to be delivered.
    async fn subject(&self) -> Option<&str> {
        self.0.1.subject.as_deref()
    }

    /// The message; none where the row holds no JSON. JSON that parsers can't read (more than 104 levels, a number beyond
    /// 64-bit floats) is replaced by `{"error": {"code": "UNREADABLE", "message": …}}`.
    #[graphql(guard = "READ")]
    async fn payload(&self) -> Option<JsonText> {
        self.0.1.payload.clone().filter(|payload| !payload.is_null()).map(JsonText)
    }

    /// How the message is written, such as `json`.
    async fn payload_codec(&self) -> &str {
        &self.0.1.payload_codec
    }

    /// Where it stands.
    async fn status(&self) -> OutboxStatus {
        Status::from_stored(&self.0.1.status).into()
    }

    /// How often it was claimed.
    async fn attempts(&self) -> i32 {
        self.0.1.attempts
    }

    /// From when on it may be claimed; of a row in flight, when its lease passes; of a dead letter, the end of 9999.
    async fn available_at(&self) -> DateTime<Utc> {
        let row = &self.0.1;
        if row.status == Status::InFlight.as_str() {
            row.lease_until.unwrap_or(row.available_at)
        } else {
            row.available_at
        }
    }

    /// Whether the row is a dead letter: its payload can't be read. It is claimed again only after a retry, and the other
    /// rows of its execution don't wait for it.
    async fn dead(&self) -> bool {
        self.0.1.dead
    }

    /// Why it was not delivered at the last attempt.
    #[graphql(guard = "READ")]
    async fn last_error(&self) -> Option<&str> {
        self.0.1.last_error.as_deref()
    }

    /// When it was written.
    async fn created_at(&self) -> DateTime<Utc> {
        self.0.1.created_at
    }

    /// When it was delivered.
    async fn published_at(&self) -> Option<DateTime<Utc>> {
        self.0.1.published_at
    }
}

/// A claimed row.
#[derive(Debug, Clone)]
pub struct OutboxClaim(pub Leased);

/// A row that is the caller's to deliver until its lease passes.
#[Object]
impl OutboxClaim {
    /// The row's id: its shard and its number there.
    async fn id(&self) -> ID {
        self.0.id.to_string().into()
    }

    /// What settles the row.
    async fn lease(&self) -> ID {
        self.0.row.lease_token.into()
    }

    /// From when on somebody else may claim the row.
    async fn lease_expires_at(&self) -> DateTime<Utc> {
        self.0.row.lease_until
    }

    /// The event that it tells of.
    async fn event_id(&self) -> ID {
        show_id(Id::new(self.0.row.event_id))
    }

    /// The execution whose row it is.
    async fn execution_id(&self) -> Option<ID> {
        self.0.row.execution_id.map(|id| show_id(Id::new(id)))
    }

    /// Where it is to be delivered.
    async fn subject(&self) -> Option<&str> {
        self.0.row.subject.as_deref()
    }

    /// The message; none where the row holds no JSON.
    #[graphql(guard = "OUTBOX")]
    async fn payload(&self) -> Option<JsonText> {
        Some(self.0.row.payload.shown()).filter(|payload| !payload.is_null()).map(JsonText)
    }

    /// How the message is written, such as `json`.
    async fn payload_codec(&self) -> &str {
        &self.0.row.payload_codec
    }

    /// How often it was claimed, this time included.
    async fn attempts(&self) -> i32 {
        self.0.row.attempts
    }
}
