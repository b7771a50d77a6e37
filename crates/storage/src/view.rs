//! A shard as lists read it: without the rows of buckets that the map gives to another shard.
//!
//! While a bucket moves, both shards have its rows: the copied ones on the target before the switch, and those on the
//! source after it. A statement that finds rows without their execution ids takes a [`View`], and compares the bucket of
//! each row with the buckets of the shard, as bits. A shard that no move concerns has no such bits, so its rows are not
//! hashed.

use std::ops::Deref;
use std::sync::Arc;

use super::error::StorageError;
use super::pools::{Database, Databases};
use noetl_domain::bucket_bits::{bits, identity, is_set};
use noetl_domain::ids::Id;
use noetl_domain::shard::{ShardIndex, ShardMap, bucket_of};

/// A shard, and the buckets whose rows are its own.
#[derive(Debug, Clone)]
pub struct View<'a> {
    database: &'a Database,
    /// One bit for each bucket, which is set if the shard has it; `None`: all rows are the shard's own.
    held: Option<Arc<[u8]>>,
    /// The map, and the index of the shard in it; `None`: the view is of no map.
    place: Option<(Arc<ShardMap>, ShardIndex)>,
}

impl<'a> View<'a> {
    /// Returns a shard as a map shows it.
    #[must_use]
    pub fn of(database: &'a Database, shard: ShardIndex, map: &Arc<ShardMap>) -> Self {
        let held = map.conceals(shard).then(|| bits(map, shard).into());
        Self { database, held, place: Some((Arc::clone(map), shard)) }
    }

    /// Returns a shard whose rows are all its own.
    #[must_use]
    pub fn whole(database: &'a Database) -> Self {
        Self { database, held: None, place: None }
    }

    /// Returns the database.
    #[must_use]
    pub fn database(&self) -> &'a Database {
        self.database
    }

    /// Returns the version of the map; 0 if the view is of no map.
    #[must_use]
    pub fn map_version(&self) -> u64 {
        self.place.as_ref().map_or(0, |(map, _)| map.version())
    }

    /// Returns the bits of the shard's buckets, as a parameter of statements. `None`: all rows are visible.
    pub(super) fn held(&self) -> Option<&[u8]> {
        self.held.as_deref()
    }

    /// Returns the bits of the buckets that the map gives to the shard, also if all rows are visible, and the number of
    /// switches that the shard took part in. They differ from those of another map only if a bucket of the shard was
    /// switched.
    pub(super) fn buckets(&self) -> Vec<u8> {
        self.place.as_ref().map(|(map, shard)| identity(map, *shard)).unwrap_or_default()
    }

    /// Returns the bits of the buckets that the map gives to the shard, as a parameter of statements that count rows for
    /// [`Self::buckets`]: a move that begins later changes no number. `None`: all rows are counted, as the map gives
    /// nothing to other shards.
    pub(super) fn counted(&self) -> Option<Vec<u8>> {
        let (map, shard) = self.place.as_ref()?;
        map.as_slice().iter().any(|held_by| held_by != shard).then(|| bits(map, *shard))
    }

    /// Returns whether no row of an execution can be visible.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.held.as_ref().is_some_and(|bits| bits.iter().all(|byte| *byte == 0))
    }

    /// Returns whether the rows of an execution are visible.
    #[must_use]
    pub fn shows(&self, execution: i64) -> bool {
        self.held.as_ref().is_none_or(|bits| is_set(bits, bucket_of(Id::new(execution))))
    }
}

impl Deref for View<'_> {
    type Target = Database;

    fn deref(&self) -> &Database {
        self.database
    }
}

impl Databases {
    /// Returns all shards, by index, as the current map shows them. The views of one call belong together: each row is
    /// visible on one shard.
    #[must_use]
    pub fn views(&self) -> Vec<View<'_>> {
        let map = self.map();
        (0..).zip(self.shards()).map(|(shard, database)| View::of(database, shard, &map)).collect()
    }

    /// Returns whether the map with this version, by which rows were read, is outdated. If a later map is stored, waits
    /// until the process uses it. Rows of a bucket that has moved may then be missing: they were hidden on the shard
    /// that got them, and gone from the other one. If the cluster database can't be read, no bucket moves now.
    pub async fn is_outdated(&self, version: u64) -> bool {
        let map = self.map();
        if map.version() == version && map.is_moving() {
            match self.has_newer_map().await {
                Ok(true) => {
                    self.request_new_map();
                    self.map_changed(version).await;
                }
                Ok(false) => {}
                Err(error) => tracing::debug!(%error, "the version of the bucket map can't be read"),
            }
        }
        self.map().version() > version
    }

    /// Returns whether the stored map is later than the current one.
    #[tracing::instrument(level = "debug", name = "sql.shard_map.has_newer", skip_all)]
    async fn has_newer_map(&self) -> Result<bool, StorageError> {
        let version = sqlx::query_scalar!("SELECT version FROM noetl.shard_map_version");
        let version = self.cluster().run(version.fetch_one(self.cluster().planned_once())).await?;
        Ok(version.cast_unsigned() > self.map().version())
    }

    /// Returns a shard as the current map shows it. The index must be one of a shard.
    #[must_use]
    pub fn view(&self, shard: ShardIndex) -> View<'_> {
        View::of(&self.shards()[usize::from(shard)], shard, &self.map())
    }
}
