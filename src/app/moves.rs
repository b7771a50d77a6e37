//! Moves of buckets between shards.

use std::collections::BTreeMap;

use super::arm_fault_point;
use super::databases::connect;
use super::error::AppError;
use crate::config::Config;
use noetl_domain::shard::ShardIndex;
use noetl_service::moves::{Mover, Report};
use noetl_storage::shard_map::{self, Size};

/// Buckets that would leave a shard, and the size of the shard.
#[derive(Debug)]
pub struct PlannedMove {
    /// Shard that the buckets leave.
    pub source: ShardIndex,
    /// Buckets, ascending.
    pub buckets: Vec<u16>,
    /// Number of buckets that the shard has.
    pub of: usize,
    /// Size of the shard.
    pub size: Size,
}

/// Returns what [`move_buckets`] would move. Changes nothing.
pub async fn planned_moves(
    config: &Config,
    buckets: Vec<u16>,
    target: ShardIndex,
) -> Result<Vec<PlannedMove>, AppError> {
    let databases = connect(config, Some(4)).await?;
    let map = databases.map();
    let plan: BTreeMap<ShardIndex, Vec<u16>> = Mover::new(databases.clone(), buckets, target)?.plan();
    let mut moves = Vec::new();
    for (source, buckets) in plan {
        let size = shard_map::size(&databases.shards()[usize::from(source)]).await?;
        moves.push(PlannedMove { source, buckets, of: map.buckets_of(source), size });
    }
    Ok(moves)
}

/// Moves buckets to a shard while replicas serve. A repetition continues an interrupted move.
pub async fn move_buckets(
    config: &Config,
    buckets: Vec<u16>,
    target: ShardIndex,
    report: Report<'_>,
) -> Result<(), AppError> {
    arm_fault_point(config);
    Ok(Mover::new(connect(config, Some(4)).await?, buckets, target)?.run(report).await?)
}

/// Aborts the moves of buckets to a shard that were not switched. Returns their number.
pub async fn abort_moves(config: &Config, buckets: Vec<u16>, target: ShardIndex) -> Result<usize, AppError> {
    arm_fault_point(config);
    Ok(Mover::new(connect(config, Some(4)).await?, buckets, target)?.abort().await?)
}
