//! Reads of a changed object that its readers share.
//!
//! All readers of an object receive its change at about the same time, and each needs the state after the change. The
//! first one starts the read, and the others wait for its result. Each reader that waits drives the read, so a reader
//! whose socket is blocked does not delay the others. A result is shared for a short time only, and an error only while
//! readers wait for it.

use std::hash::Hash;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_graphql::Result;
use futures::FutureExt;
use futures::future::{BoxFuture, Shared, try_join_all};
use moka::sync::Cache;

use noetl_feed::wire::cursor::Position;
use noetl_storage::budget::uncharged;

/// Maximum age of a result that is shared.
const MAX_AGE: Duration = Duration::from_secs(1);
/// Time for which the last read of an object is kept.
const KEPT: Duration = Duration::from_secs(2);
/// Maximum number of objects whose last read is kept.
const MAX_OBJECTS: u64 = 10_000;

/// Number of a read in this process. Readers with the same number have the same result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ReadNumber(u64);

/// Result of a read.
#[derive(Debug, Clone)]
pub struct Read<R> {
    /// Number of the read.
    pub number: ReadNumber,
    /// Result of the read.
    pub value: R,
}

/// An object to read.
#[derive(Debug, Clone)]
pub struct Wanted<K> {
    /// Key of the object.
    pub key: K,
    /// Position in the feed of its shard, up to which its changes must be included.
    pub position: Position,
}

/// The last read of each object.
#[derive(Clone)]
pub struct SharedReads<K, R> {
    objects: Cache<K, Arc<Mutex<Option<LastRead<R>>>>>,
    started: Arc<AtomicU64>,
}

/// A read that a reader waits for, and its number.
type Joined<R> = (ReadNumber, Shared<BoxFuture<'static, Result<R>>>);

/// A read that has started, and may have ended.
struct LastRead<R> {
    /// Position in the feed of the object's shard. The read returns every change up to it.
    from: Position,
    number: ReadNumber,
    at: Instant,
    value: Shared<BoxFuture<'static, Result<R>>>,
}

impl<R: Clone> LastRead<R> {
    /// Returns whether the result includes all changes up to a position.
    fn includes(&self, position: Position) -> bool {
        let usable = match self.value.peek() {
            None => true,
            Some(Ok(_)) => self.at.elapsed() < MAX_AGE,
            Some(Err(_)) => false,
        };
        usable && self.from >= position
    }
}

impl<K, R> Default for SharedReads<K, R>
where
    K: Hash + Eq + Send + Sync + 'static,
    R: Clone + Send + Sync + 'static,
{
    fn default() -> Self {
        let objects = Cache::builder().max_capacity(MAX_OBJECTS).time_to_idle(KEPT).build();
        Self { objects, started: Arc::default() }
    }
}

impl<K, R> SharedReads<K, R>
where
    K: Hash + Eq + Send + Sync + 'static,
    R: Clone + Send + Sync + 'static,
{
    /// Returns an object with all its changes up to a position. Joins a read that another reader has started for this
    /// position or a later one, or calls `read`. The read is not charged to an operation, because several wait for it.
    pub async fn read<F>(&self, key: K, position: Position, read: impl FnOnce() -> F) -> Result<Read<R>>
    where
        F: Future<Output = Result<R>> + Send + 'static,
    {
        let last = self.objects.get_with(key, Arc::default);
        let (number, value) = {
            let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(last) = last.as_ref().filter(|last| last.includes(position)) {
                (last.number, last.value.clone())
            } else {
                let number = ReadNumber(self.started.fetch_add(1, Ordering::Relaxed));
                let value = uncharged(read()).boxed().shared();
                *last = Some(LastRead { from: position, number, at: Instant::now(), value: value.clone() });
                (number, value)
            }
        };
        Ok(Read { number, value: value.await? })
    }

    /// Returns objects, each with all its changes up to a position, in the given order. Joins reads of other readers as
    /// [`SharedReads::read`] does. The objects that remain are read together: `read` gets their indexes, and returns
    /// them in this order.
    pub async fn read_all<F>(&self, wanted: Vec<Wanted<K>>, read: impl FnOnce(Vec<usize>) -> F) -> Result<Vec<Read<R>>>
    where
        F: Future<Output = Result<Vec<R>>> + Send + 'static,
    {
        let entry = |one: Wanted<K>| (self.objects.get_with(one.key, Arc::default), one.position);
        let entries: Vec<_> = wanted.into_iter().map(entry).collect();
        let mut joined: Vec<_> = entries.iter().map(|(last, position)| usable(last, *position)).collect();
        let missing: Vec<usize> = (0..joined.len()).filter(|index| joined[*index].is_none()).collect();
        if !missing.is_empty() {
            let together = uncharged(read(missing.clone())).boxed().shared();
            for (place, index) in missing.into_iter().enumerate() {
                let (last, position) = &entries[index];
                let one = together.clone().map(move |read| match read?.get(place) {
                    Some(value) => Ok(value.clone()),
                    None => Err("a read returned too few objects".into()),
                });
                let number = ReadNumber(self.started.fetch_add(1, Ordering::Relaxed));
                let value = one.boxed().shared();
                let started = LastRead { from: *position, number, at: Instant::now(), value: value.clone() };
                *last.lock().unwrap_or_else(PoisonError::into_inner) = Some(started);
                joined[index] = Some((number, value));
            }
        }
        let values =
            joined.into_iter().flatten().map(|(number, value)| async move { Ok(Read { number, value: value.await? }) });
        try_join_all(values).await
    }
}

/// Returns the last read of an object if it includes all changes up to a position.
fn usable<R: Clone>(last: &Mutex<Option<LastRead<R>>>, position: Position) -> Option<Joined<R>> {
    let last = last.lock().unwrap_or_else(PoisonError::into_inner);
    last.as_ref().filter(|last| last.includes(position)).map(|last| (last.number, last.value.clone()))
}
