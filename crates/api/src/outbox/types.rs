//! The outbox, its rows and claims of them.

use async_graphql::{Context, ID, Object, Result};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use chrono::{DateTime, Utc};

use super::inputs::OutboxFilter;
use super::loaders::EntryKey;
use super::stats::{OutboxStats, OutboxSubjectStats, by_subject};
use super::status::OutboxStatus;
use crate::access::{OUTBOX, READ, scope};
use crate::connection::{Countable, PageArguments, connection, selects_item_field};
use crate::context::Services;
use crate::errors::field_error;
use crate::event::types::Event;
use crate::execution::types::Execution;
use crate::loaders::BatchLoader;
use crate::plain::{Plain, PlainValue, Reader};
use crate::scalars::{JsonText, Time, show_id};
use noetl_domain::cursor::{CursorKind, encode};
use noetl_domain::event::EventKey;
use noetl_domain::ids::Id;
use noetl_domain::node_id::NodeId;
use noetl_domain::outbox::{OutboxId, OutboxPosition, OutboxStatus as Status};
use noetl_domain::page::Total;
use noetl_domain::tenant::Scope;
use noetl_storage::outbox::{self, Message};
use noetl_use_cases::error::ServiceError;
use noetl_use_cases::outbox::{ClaimedRow, ListedRow};

/// The outbox over all shards.
#[derive(Debug, Clone, Copy)]
pub struct Outbox;

/// The outbox: messages that are written in the same transaction as an event and then delivered to the broker.
#[Object]
impl Outbox {
    /// Numbers of claimable, in-flight, failed and DEAD entries.
    async fn stats(&self, ctx: &Context<'_>) -> Result<Option<OutboxStats>> {
        OutboxStats::read(ctx.data::<Services>()?, &scope(ctx)?).await.map(Some).map_err(field_error)
    }

    /// Numbers of entries that are not published, by subject: the subjects with most entries first, at most 100 of each
    /// shard. Shards that cannot be reached are left out; `stats` names them.
    async fn subjects(&self, ctx: &Context<'_>) -> Result<Option<Vec<OutboxSubjectStats>>> {
        let stats = ctx.data::<Services>()?.outbox.subjects(&scope(ctx)?).await.map_err(field_error)?;
        Ok(Some(by_subject(stats.shards.into_iter().flat_map(|(_, subjects)| subjects))))
    }

    /// Entries, newest first.
    #[graphql(guard = "READ")]
    async fn entries(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Only items that match this filter (default: all).")] filter: Option<OutboxFilter>,
        #[graphql(desc = "Maximum number of items, counted from the start of the list (1 to 100, default 25).")]
        first: Option<i32>,
        #[graphql(desc = "Returns only items after this cursor.")] after: Option<String>,
        #[graphql(desc = "Maximum number of items, counted from the end of the list (1 to 100).")] last: Option<i32>,
        #[graphql(desc = "Returns only items before this cursor.")] before: Option<String>,
    ) -> Result<Option<OutboxEntryConnection>> {
        let page = PageArguments { first, after, last, before };
        let request = page.request(CursorKind::Outbox, decode_position).map_err(field_error)?;
        let filter = filter.unwrap_or_default().parse("filter").map_err(field_error)?;
        let (outbox, scope) = (&ctx.data::<Services>()?.outbox, scope(ctx)?);
        let found = outbox.list(&filter, selects_item_field(ctx, "payload"), &request, &scope).await;
        let listing = found.map_err(field_error)?;
        let (page, unavailable) = (listing.page, listing.unavailable);
        Ok(Some(OutboxEntryConnection::new(OutboxList { filter, scope }, page, unavailable, OutboxEntry, cursor)))
    }
}

/// Returns the cursor of an entry: its creation time in microseconds, its shard and its number.
fn cursor(entry: &OutboxEntry) -> String {
    let OutboxPosition { created_at, id } = entry.0.position();
    let mut position = created_at.timestamp_micros().to_be_bytes().to_vec();
    position.extend_from_slice(&id.shard.to_be_bytes());
    position.extend_from_slice(&id.number.to_be_bytes());
    encode(CursorKind::Outbox, &position)
}

fn decode_position(position: &[u8]) -> Option<OutboxPosition> {
    let (micros, rest) = position.split_first_chunk::<8>()?;
    let (shard, number) = rest.split_first_chunk::<2>()?;
    let id = OutboxId { shard: u16::from_be_bytes(*shard), number: i64::from_be_bytes(number.try_into().ok()?) };
    Some(OutboxPosition { created_at: DateTime::from_timestamp_micros(i64::from_be_bytes(*micros))?, id })
}

/// An entry of the outbox.
#[derive(Debug, Clone)]
pub struct OutboxEntry(pub ListedRow);

impl OutboxEntry {
    /// Returns the entry with this id through the batch loader. Its payload is read only if it is selected.
    pub async fn load(ctx: &Context<'_>, id: OutboxId) -> Result<Option<Self>> {
        let key = EntryKey { id, with_payload: ctx.look_ahead().field("payload").exists() };
        let found = ctx.data::<BatchLoader>()?.load_one(key).await.map_err(field_error)?;
        Ok(found.transpose().map_err(field_error)?.map(Self))
    }

    /// Returns the time at which the lease of an entry in flight expires.
    fn lease_end(&self) -> Option<DateTime<Utc>> {
        self.0.row.lease_until.filter(|_| self.0.row.state == Status::InFlight.as_str())
    }

    fn claimable_at(&self) -> DateTime<Utc> {
        self.lease_end().unwrap_or(self.0.row.available_at)
    }
}

impl Plain for OutboxEntry {
    fn plain(&self, field: &str, reader: &Reader<'_>) -> Option<PlainValue<'_>> {
        let row = &self.0.row;
        Some(match field {
            "id" => NodeId::OutboxEntry(self.0.id).to_string().into(),
            "entryId" => self.0.id.to_string().into(),
            "eventId" => Id::new(row.event_id).into(),
            "executionId" => row.execution_id.map(Id::new).into(),
            "tenantId" => (&row.tenant_id).into(),
            "organizationId" => (&row.organization_id).into(),
            "subject" => row.subject.as_deref().into(),
            "payload" if reader.may_read => row.payload.as_ref().filter(|payload| !payload.is_null()).into(),
            "payloadCodec" => (&row.payload_codec).into(),
            "status" => PlainValue::of_enum::<OutboxStatus>(Status::named(&row.state)),
            "statusText" => (&row.status).into(),
            "attempts" => row.attempts.into(),
            "availableAt" => self.claimable_at().into(),
            "leaseExpiresAt" => self.lease_end().into(),
            "claimant" => row.claimant.as_deref().into(),
            "dead" => (row.state == Status::Dead.as_str()).into(),
            "lastError" if reader.may_read => row.last_error.as_deref().into(),
            "createdAt" => row.created_at.into(),
            "publishedAt" => row.published_at.into(),
            _ => return None,
        })
    }
}

/// An entry of the outbox.
#[Object]
impl OutboxEntry {
    /// Id of the entry, unique over all types: `outbox-<shard>-<number>`.
    pub async fn id(&self) -> ID {
        NodeId::OutboxEntry(self.0.id).to_string().into()
    }

    /// Shard of the entry and its number on the shard, as `<shard>-<number>`.
    async fn entry_id(&self) -> ID {
        self.0.id.to_string().into()
    }

    /// Event that was written together with the entry; null if it does not exist any more.
    #[graphql(guard = "READ")]
    async fn event(&self, ctx: &Context<'_>) -> Result<Option<Event>> {
        let Some(execution_id) = self.0.row.execution_id else { return Ok(None) };
        Event::load(ctx, EventKey { event_id: self.0.row.event_id, execution_id }).await
    }

    /// Execution that the entry belongs to; null if it names none, or if it does not exist any more.
    #[graphql(guard = "READ")]
    async fn execution(&self, ctx: &Context<'_>) -> Result<Option<Execution>> {
        match self.0.row.execution_id {
            Some(id) => Execution::load(ctx, Id::new(id)).await,
            None => Ok(None),
        }
    }

    /// Id of the event that was written together with the entry.
    async fn event_id(&self) -> ID {
        show_id(Id::new(self.0.row.event_id))
    }

    /// Id of the execution that the entry belongs to.
    async fn execution_id(&self) -> Option<ID> {
        self.0.row.execution_id.map(|id| show_id(Id::new(id)))
    }

    /// Tenant of the entry.
    async fn tenant_id(&self) -> &str {
        &self.0.row.tenant_id
    }

    /// Organization of the entry.
    async fn organization_id(&self) -> &str {
        &self.0.row.organization_id
    }

    /// NATS subject to which the message is published; null if none is stored. Such a message is published to NoETL's
    /// subject for its event, `noetl.events.<tenant>.<organization>.<execution id>.0`.
    async fn subject(&self) -> Option<&str> {
        self.0.row.subject.as_deref()
    }

    /// Message as JSON; null if the entry has no JSON. Unreadable JSON (nested more than 104 levels deep, or with a number
    /// outside the 64-bit float range) is replaced by `{"error": {"code": "UNREADABLE", "message": …}}`.
    #[graphql(guard = "READ")]
    async fn payload(&self) -> Option<JsonText> {
        self.0.row.payload.clone().filter(|payload| !payload.is_null()).map(JsonText)
    }

    /// Encoding of the message, such as `json` or `arrow-feather`.
    async fn payload_codec(&self) -> &str {
        &self.0.row.payload_codec
    }

    /// Current status.
    async fn status(&self) -> OutboxStatus {
        Status::named(&self.0.row.state).into()
    }

    /// Name of the status as stored. It differs from `status` if that is `DEAD`, which is stored as `FAILED` so that
    /// NoETL's own server accepts it, or `UNKNOWN`.
    async fn status_text(&self) -> &str {
        &self.0.row.status
    }

    /// Number of times that the entry was claimed.
    async fn attempts(&self) -> i32 {
        self.0.row.attempts
    }

    /// Time from which the entry is claimable. For an entry in flight, the time at which its lease expires. For a DEAD
    /// entry, the end of the year 9999.
    async fn available_at(&self) -> Time {
        Time(self.claimable_at())
    }

    /// Name of the caller that holds the entry or has delivered it; null if the entry is neither in flight nor delivered,
    /// and if the claim named no claimant.
    async fn claimant(&self) -> Option<&str> {
        self.0.row.claimant.as_deref()
    }

    /// Time at which the lease of the entry expires; null if the entry is not in flight, and if NoETL's own server has
    /// claimed it.
    async fn lease_expires_at(&self) -> Option<Time> {
        self.lease_end().map(Time)
    }

    /// Whether `status` is `DEAD`.
    async fn dead(&self) -> bool {
        self.0.row.state == Status::Dead.as_str()
    }

    /// Error of the last failed delivery attempt.
    #[graphql(guard = "READ")]
    async fn last_error(&self) -> Option<&str> {
        self.0.row.last_error.as_deref()
    }

    /// Time at which the entry was written.
    async fn created_at(&self) -> Time {
        Time(self.0.row.created_at)
    }

    /// Time of delivery; null until the entry is delivered.
    async fn published_at(&self) -> Option<Time> {
        self.0.row.published_at.map(Time)
    }
}

/// A claimed entry.
#[derive(Debug, Clone)]
pub struct OutboxClaim(pub ClaimedRow);

/// An outbox entry that the caller has claimed for delivery until its lease expires.
#[Object]
impl OutboxClaim {
    /// Shard of the entry and its number on the shard, as `<shard>-<number>`.
    async fn entry_id(&self) -> ID {
        self.0.id.to_string().into()
    }

    /// The entry; null if it does not exist any more.
    async fn entry(&self, ctx: &Context<'_>) -> Result<Option<OutboxEntry>> {
        OutboxEntry::load(ctx, self.0.id).await
    }

    /// Id of the message, also when it is delivered again. Publish the message with it (`Nats-Msg-Id`), so that a stream
    /// recognises the repetition. It is another one after a restore or a failover of the shard.
    async fn message_id(&self) -> ID {
        self.0.row.message_id.to_string().into()
    }

    /// Lease token, required to settle the entry.
    async fn lease(&self) -> ID {
        self.0.row.lease_token.into()
    }

    /// Time at which the lease expires. After it, another caller can claim the entry.
    async fn lease_expires_at(&self) -> Time {
        Time(self.0.row.lease_until)
    }

    /// Id of the event that was written together with the entry.
    async fn event_id(&self) -> ID {
        show_id(Id::new(self.0.row.event_id))
    }

    /// Id of the execution that the entry belongs to.
    async fn execution_id(&self) -> Option<ID> {
        self.0.row.execution_id.map(|id| show_id(Id::new(id)))
    }

    /// Tenant of the entry.
    async fn tenant_id(&self) -> &str {
        &self.0.row.tenant_id
    }

    /// Organization of the entry.
    async fn organization_id(&self) -> &str {
        &self.0.row.organization_id
    }

    /// NATS subject to which the message is published: the stored one, else NoETL's subject for the event.
    async fn subject(&self) -> Option<String> {
        Some(self.0.row.target().into_owned())
    }

    /// Payload as JSON; null if the entry has no JSON. It is the message if `payloadBase64` is null.
    #[graphql(guard = "OUTBOX")]
    async fn payload(&self) -> Option<JsonText> {
        Some(self.0.row.payload.shown()).filter(|payload| !payload.is_null()).map(JsonText)
    }

    /// Message as base64 (RFC 4648, with padding) if it is not JSON; else null. Publish these bytes unchanged, with the
    /// media type `contentType`.
    #[graphql(guard = "OUTBOX")]
    async fn payload_base64(&self) -> Option<String> {
        match self.0.row.message() {
            Ok(Some(Message::Bytes(bytes))) => Some(STANDARD.encode(bytes)),
            _ => None,
        }
    }

    /// Media type of the message, such as `application/json`, or `application/vnd.apache.arrow.file` for
    /// `arrow-feather`.
    async fn content_type(&self) -> String {
        self.0.row.content_type().into_owned()
    }

    /// Encoding of the message, such as `json` or `arrow-feather`.
    async fn payload_codec(&self) -> &str {
        &self.0.row.payload_codec
    }

    /// Number of times that the entry was claimed, including this claim.
    async fn attempts(&self) -> i32 {
        self.0.row.attempts
    }
}

/// A list of outbox entries.
#[derive(Debug)]
pub struct OutboxList {
    filter: outbox::OutboxFilter,
    scope: Scope,
}

impl Countable for OutboxList {
    async fn total(&self, ctx: &Context<'_>, limit: i64) -> std::result::Result<Total, ServiceError> {
        ctx.data_unchecked::<Services>().outbox.total(&self.filter, limit, &self.scope).await
    }
}

connection!(OutboxEntryConnection, OutboxEntryEdge, OutboxEntry, OutboxList);
