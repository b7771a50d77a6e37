//! Updates of the objects of a list that match a filter.
//!
//! The feed is joined before the list is read, so no change is missed. The reader remembers the objects that match, so
//! that it can say which of them left the list; their number is bounded. A shard that can't be read, or whose feed has a
//! gap, is reported once, and its objects are listed again when it can be read.

use std::collections::{BTreeSet, HashSet};
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use async_graphql::{Context, Result};
use async_stream::try_stream;
use futures::{Stream, StreamExt};
use tokio::time::Instant;

use super::known::{Known, MAX_FOLLOWED, too_many};
use super::outdated::Outdated;
use super::steps::{Change, Step, Steps};
use super::{Found, Place, Update, UpdateKind};
use crate::access::scope;
use crate::context::Services;
use crate::deadline::{deadline, with_deadline};
use crate::errors::field_error;
use crate::live::hub;
use crate::shared_reads::{Read, SharedReads, Wanted};
use noetl_domain::event::Event;
use noetl_domain::ids::Id;
use noetl_domain::list_position::ListPosition;
use noetl_domain::page::{MAX_PAGE, PageRequest, Total};
use noetl_domain::shard::ShardIndex;
use noetl_domain::tenant::Scope;
use noetl_feed::read::hub::Hub;
use noetl_feed::read::reader::{self, Interest, Shards, Start};
use noetl_use_cases::error::ServiceError;
use noetl_use_cases::listing::Listing;
use plain_json::Text;

/// Number of changed objects that are read at a time.
const CHUNK: usize = 100;

/// An object of a list.
pub trait Row: Clone + Send + Sync + 'static {
    /// Returns its id, which is that of its log.
    fn id(&self) -> Id;
    /// Returns the last event that the state includes.
    fn version(&self) -> Id;
    /// Returns the position in the list.
    fn position(&self) -> ListPosition;
    /// Returns whether the object has ended.
    fn has_ended(&self) -> bool;
}

/// A kind of list that readers follow.
pub trait Followed: Send + Sync + 'static {
    /// Its objects.
    type Row: Row;
    /// Its filter.
    type Filter: Clone + Eq + Hash + Send + Sync + 'static;
    /// Whether each event of an object has its own item. Otherwise, changes that arrive together are combined.
    const EACH_EVENT: bool;

    /// Returns the events that can change an object. An event of a log can have another tenant than the object, so the
    /// events of all tenants are received, and only the object must be in the scope of the reader.
    fn interest() -> Interest;
    /// Returns the position from which events are received, so that they include what the list may not show yet.
    fn start() -> Start;
    /// Returns whether an object that matches the filter can stop matching it.
    fn can_leave(filter: &Self::Filter) -> bool;
    /// Returns whether an object matches the filter.
    fn matches(filter: &Self::Filter, row: &Self::Row) -> bool;
    /// Returns a page of the list.
    fn page(
        services: &Services,
        filter: &Self::Filter,
        request: &PageRequest<ListPosition>,
        scope: &Scope,
    ) -> impl Future<Output = Result<Listing<Self::Row>, ServiceError>> + Send;
    /// Returns the number of objects in the list, counted up to a limit.
    fn count(
        services: &Services,
        filter: &Self::Filter,
        scope: &Scope,
        limit: i64,
    ) -> impl Future<Output = Result<Total, ServiceError>> + Send;
    /// Returns the current states of objects, in the order of `ids`.
    fn read(
        services: &Services,
        ids: &[Id],
        scope: &Scope,
    ) -> impl Future<Output = Result<Vec<Found<Self::Row>>>> + Send;
    /// Returns the state to show after an event.
    #[must_use]
    fn after(row: Self::Row, _event: &Event<Text>) -> Self::Row {
        row
    }
}

/// Reads of objects that readers share, by object, shard of the change, and scope.
pub type ObjectReads<R> = SharedReads<(Id, ShardIndex, Scope), Found<R>>;
/// Reads of pages of a list after a gap, by scope, filter, page, and shard of the gap.
pub type PageReads<L> = SharedReads<
    (Scope, <L as Followed>::Filter, PageRequest<ListPosition>, ShardIndex),
    Arc<Listing<<L as Followed>::Row>>,
>;

/// Data that a reader of a list needs.
pub struct ListWatch<L: Followed> {
    hub: Hub,
    services: Services,
    reads: ObjectReads<L::Row>,
    pages: PageReads<L>,
    /// Data that the reader may receive.
    scope: Scope,
    filter: L::Filter,
    /// Maximum time of a read.
    deadline: Duration,
}

impl<L: Followed> ListWatch<L> {
    /// Returns the data for the reader of an operation.
    pub fn new(ctx: &Context<'_>, filter: L::Filter) -> Result<Self> {
        Ok(Self {
            hub: hub(ctx)?,
            services: ctx.data::<Services>()?.clone(),
            reads: ctx.data::<ObjectReads<L::Row>>()?.clone(),
            pages: ctx.data::<PageReads<L>>()?.clone(),
            scope: scope(ctx)?,
            filter,
            deadline: deadline(ctx)?,
        })
    }
}

/// Returns the objects that match now, then changes of before that the list lacked, `CaughtUp`, and then later changes.
pub fn updates<L: Followed>(watch: ListWatch<L>) -> impl Stream<Item = Result<Update<L::Row>>> + Send {
    try_stream! {
        let feed = reader::read(watch.hub.clone(), L::start(), L::interest(), Shards::All).boxed();
        let mut steps = Steps::join(feed).await?;
        check_size(&watch).await?;
        let mut follower = Follower::new(watch);
        loop {
            while let Some(listed) = follower.list_next().await? {
                for update in listed {
                    yield Update { cursor: Some(steps.cursor().clone()), ..update };
                }
            }
            if steps.is_caught_up() && follower.completes() {
                yield Update { cursor: Some(steps.cursor().clone()), ..Update::caught_up() };
            }
            let before = steps.cursor().clone();
            let step = steps.next(follower.outdated.next(), !L::EACH_EVENT).await?;
            let Step { changes, gaps, cursor } = step;
            for gap in gaps {
                follower.add_gap(gap);
                yield Update { cursor: Some(before.clone()), ..Update::gap(gap.shard) };
            }
            let changes: Vec<Change> = changes.into_values().filter(|change| !follower.shows(change)).collect();
            let mut chunks = changes.chunks(CHUNK).peekable();
            while let Some(chunk) = chunks.next() {
                let mut updates = follower.apply(chunk).await?.into_iter().peekable();
                while let Some(update) = updates.next() {
                    // Only the last item includes every event of the step.
                    let last = chunks.peek().is_none() && updates.peek().is_none();
                    yield Update { cursor: Some(if last { cursor.clone() } else { before.clone() }), ..update };
                }
            }
        }
    }
}

/// Refuses a list with too many objects before the first of them is sent.
async fn check_size<L: Followed>(watch: &ListWatch<L>) -> Result<()> {
    let count = async {
        let limit = i64::try_from(MAX_FOLLOWED).unwrap_or(i64::MAX);
        L::count(&watch.services, &watch.filter, &watch.scope, limit).await.map_err(field_error)
    };
    if with_deadline(watch.deadline, count).await?.capped { Err(too_many()) } else { Ok(()) }
}

/// A pass over the pages of the list.
struct Pass {
    /// Shards whose objects are listed.
    shards: BTreeSet<ShardIndex>,
    gap: Option<Place>,
    request: PageRequest<ListPosition>,
    /// Known objects of these shards that were not on a page yet.
    unlisted: HashSet<Id>,
}

/// State of a reader.
struct Follower<L: Followed> {
    watch: ListWatch<L>,
    known: Known,
    outdated: Outdated,
    pass: Option<Pass>,
    /// Whether a shard was listed.
    listed: bool,
    /// Whether the reader knows that the list was complete.
    completed: bool,
    /// Whether a shard was lost since then.
    lost: bool,
}

impl<L: Followed> Follower<L> {
    fn new(watch: ListWatch<L>) -> Self {
        let outdated = Outdated::all(watch.hub.shards(), Instant::now());
        Self { watch, known: Known::default(), outdated, pass: None, listed: false, completed: false, lost: false }
    }

    fn shard_of(&self, id: Id) -> ShardIndex {
        self.watch.services.databases.index_of(id)
    }

    /// Returns whether objects are remembered after the replay. Otherwise, none can leave the list.
    fn remembers(&self) -> bool {
        L::EACH_EVENT || L::can_leave(&self.watch.filter)
    }

    /// Returns whether the reader has received the state after these changes. A state whose last event has a greater id
    /// than theirs may lack them, unless the ids of a log ascend in the order of the commits.
    fn shows(&self, change: &Change) -> bool {
        let event = change.event.event_id;
        let is_shown = |version| if L::EACH_EVENT { version >= event } else { change.replayed && version == event };
        self.known.version(change.id).is_some_and(is_shown)
    }

    /// Returns the updates of the next page; `None` if nothing must be listed now.
    async fn list_next(&mut self) -> Result<Option<Vec<Update<L::Row>>>> {
        let Some(mut pass) = self.pass.take().or_else(|| self.begin()) else { return Ok(None) };
        let listing = with_deadline(self.watch.deadline, self.watch.page(&pass)).await?;
        let mut updates = Vec::new();
        for shard in &listing.unavailable {
            if pass.shards.remove(shard) {
                updates.extend(self.lose(*shard));
            }
        }
        for row in &listing.page.items {
            let (id, version) = (row.id(), row.version());
            // The current state of a listed object may not match any more.
            if pass.shards.contains(&self.shard_of(id)) && L::matches(&self.watch.filter, row) {
                pass.unlisted.remove(&id);
                self.known.insert(id, version)?;
                updates.push(Update::of(UpdateKind::Current, id, Some(row.clone())));
            }
        }
        pass.request.after = listing.page.items.last().map(Row::position);
        if listing.page.has_next {
            self.pass = Some(pass);
        } else {
            updates.extend(self.end(pass).await?);
        }
        Ok(Some(updates))
    }

    fn begin(&mut self) -> Option<Pass> {
        let databases = &self.watch.services.databases;
        let reachable = |shard: ShardIndex| {
            let shard = databases.shards().get(usize::from(shard));
            shard.is_some_and(|shard| shard.health().down.is_none_or(|down| down.allows_reads()))
        };
        let shards = self.outdated.due(Instant::now(), reachable);
        let unlisted = self.known.which(|id| shards.contains(&self.shard_of(id)));
        let request = PageRequest { limit: MAX_PAGE, backwards: false, after: None, before: None };
        (!shards.is_empty()).then(|| Pass { gap: self.outdated.gap(&shards), shards, request, unlisted })
    }

    /// Ends a pass. Known objects that were not listed have left the list.
    async fn end(&mut self, pass: Pass) -> Result<Vec<Update<L::Row>>> {
        pass.shards.iter().for_each(|shard| self.outdated.remove(*shard));
        let gone = pass.unlisted.into_iter().filter(|id| pass.shards.contains(&self.shard_of(*id)));
        let gone: Vec<Id> = gone.collect();
        let mut updates = Vec::new();
        for chunk in gone.chunks(CHUNK) {
            let read = L::read(&self.watch.services, chunk, &self.watch.scope);
            let found = with_deadline(self.watch.deadline, read).await?;
            for (id, found) in chunk.iter().zip(found) {
                updates.extend(self.update(*id, found)?);
            }
        }
        self.listed |= pass.shards.iter().any(|shard| !self.outdated.contains(*shard));
        Ok(updates)
    }

    /// Returns the updates after changes.
    async fn apply(&mut self, changes: &[Change]) -> Result<Vec<Update<L::Row>>> {
        let found = with_deadline(self.watch.deadline, self.watch.read(changes)).await?;
        let mut updates = Vec::new();
        for (change, Read { number, value }) in changes.iter().zip(found) {
            let found = match value {
                Found::Row(row) => Found::Row(L::after(row, &change.event)),
                other => other,
            };
            let update = self.update(change.id, found)?;
            updates.extend(update.map(|update| Update { read: Some(number), ..update }));
        }
        if !self.remembers() && changes.iter().any(|change| !change.replayed) {
            self.known.clear();
        }
        Ok(updates)
    }

    /// Returns the update of an object that was read.
    fn update(&mut self, id: Id, found: Found<L::Row>) -> Result<Option<Update<L::Row>>> {
        match found {
            Found::Unavailable => Ok(self.lose(self.shard_of(id))),
            Found::Row(row) if L::matches(&self.watch.filter, &row) => {
                if self.remembers() {
                    self.known.insert(id, row.version())?;
                }
                let kind = if row.has_ended() { UpdateKind::Ended } else { UpdateKind::Changed };
                Ok(Some(Update::of(kind, id, Some(row))))
            }
            Found::Row(row) => Ok(self.left(id, Some(row))),
            Found::Missing => Ok(self.left(id, None)),
        }
    }

    fn left(&mut self, id: Id, row: Option<L::Row>) -> Option<Update<L::Row>> {
        self.known.remove(id).then(|| Update::of(UpdateKind::LeftFilter, id, row))
    }

    /// Returns whether the list has become complete: first without the shards that can't be read, later with all.
    fn completes(&mut self) -> bool {
        let completes = if self.completed { self.lost && self.outdated.is_empty() } else { self.listed };
        if completes {
            (self.completed, self.lost) = (true, !self.outdated.is_empty());
        }
        completes
    }

    fn add_gap(&mut self, gap: Place) {
        self.lost = true;
        self.outdated.add_gap(gap, Instant::now());
    }

    /// Returns the report of a shard that can't be read, unless it was reported.
    fn lose(&mut self, shard: ShardIndex) -> Option<Update<L::Row>> {
        self.lost = true;
        self.outdated.add_unavailable(shard, Instant::now()).then(|| Update::gap(shard))
    }
}

impl<L: Followed> ListWatch<L> {
    /// Returns a page of a pass. Readers that list the objects of a shard after the same gap share the pages.
    async fn page(&self, pass: &Pass) -> Result<Arc<Listing<L::Row>>> {
        let (services, scope, filter) = (self.services.clone(), self.scope.clone(), self.filter.clone());
        let request = pass.request.clone();
        let key = (self.scope.clone(), self.filter.clone(), request.clone());
        let read = move || async move {
            L::page(&services, &filter, &request, &scope).await.map(Arc::new).map_err(field_error)
        };
        match pass.gap {
            Some(Place { shard, position }) => {
                let key = (key.0, key.1, key.2, shard);
                Ok(self.pages.read(key, position, read).await?.value)
            }
            None => read().await,
        }
    }

    /// Returns the current states of changed objects. Readers share the reads.
    async fn read(&self, changes: &[Change]) -> Result<Vec<Read<Found<L::Row>>>> {
        let wanted = |change: &Change| {
            let Place { shard, position } = change.place;
            Wanted { key: (change.id, shard, self.scope.clone()), position }
        };
        let ids: Vec<Id> = changes.iter().map(|change| change.id).collect();
        let (services, scope) = (self.services.clone(), self.scope.clone());
        let read = move |missing: Vec<usize>| async move {
            let missing: Vec<Id> = missing.into_iter().filter_map(|index| ids.get(index).copied()).collect();
            L::read(&services, &missing, &scope).await
        };
        self.reads.read_all(changes.iter().map(wanted).collect(), read).await
    }
}
