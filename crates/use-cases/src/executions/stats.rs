//! Numbers of executions by status and by path.

use std::collections::{BTreeMap, HashMap};

use noetl_domain::execution::Status;
use noetl_domain::shard::ShardIndex;
use noetl_storage::execution_lists::GroupCount;

/// Number of executions of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathCount {
    /// The path; `None`: the executions have none.
    pub path: Option<String>,
    /// Number of executions.
    pub count: i64,
}

/// Numbers of executions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExecutionStats {
    /// Number of all executions.
    pub total: i64,
    /// Numbers by status, without those that are 0.
    pub by_status: Vec<(Status, i64)>,
    /// Paths with the most executions, largest number first.
    pub by_path: Vec<PathCount>,
    /// Whether a shard has more executions than were counted.
    pub capped: bool,
    /// Whether there are more paths.
    pub more_paths: bool,
    /// Shards whose executions were not counted.
    pub unavailable: Vec<ShardIndex>,
}

impl ExecutionStats {
    /// Maximum number of executions that are counted on each shard.
    pub const MAX_COUNTED: i64 = 100_000;
    /// Maximum number of paths, with the most executions, on each shard and in the result.
    pub const MAX_PATHS: i64 = 100;

    /// Returns the sums of the counts of the shards.
    #[must_use]
    pub fn of_shards(shards: Vec<Vec<GroupCount>>, unavailable: Vec<ShardIndex>) -> Self {
        let mut stats = Self { unavailable, ..Self::default() };
        let (mut by_status, mut paths) = (HashMap::<Status, i64>::new(), BTreeMap::new());
        for groups in shards {
            let (of_status, of_path): (Vec<_>, Vec<_>) = groups.into_iter().partition(|group| group.status.is_some());
            stats.capped |= of_status.iter().map(|group| group.count).sum::<i64>() > Self::MAX_COUNTED;
            stats.more_paths |= of_path.len() > max_paths();
            for GroupCount { status, count, .. } in of_status {
                *by_status.entry(Status::from_stored(&status.unwrap_or_default())).or_default() += count;
            }
            for GroupCount { path, count, .. } in of_path {
                *paths.entry(path).or_default() += count;
            }
        }
        stats.total = by_status.values().sum();
        stats.by_status =
            Status::ALL.into_iter().filter_map(|status| Some((status, *by_status.get(&status)?))).collect();
        stats.by_path = paths.into_iter().map(|(path, count)| PathCount { path, count }).collect();
        stats.by_path.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.path.cmp(&b.path)));
        stats.more_paths |= stats.by_path.len() > max_paths();
        stats.by_path.truncate(max_paths());
        stats
    }
}

fn max_paths() -> usize {
    usize::try_from(ExecutionStats::MAX_PATHS).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(name: &str, count: i64) -> GroupCount {
        GroupCount { status: Some(name.to_owned()), path: None, count }
    }

    fn path(name: &str, count: i64) -> GroupCount {
        GroupCount { status: None, path: Some(name.to_owned()), count }
    }

    #[test]
    fn counts_of_shards_are_added_and_names_of_one_status_are_one_group() {
        let shards = vec![
            vec![status("RUNNING", 2), status("STARTED", 1), path("a", 2), path("b", 1)],
            vec![status("COMPLETED", 4), path("b", 4)],
        ];
        let stats = ExecutionStats::of_shards(shards, vec![2]);
        assert_eq!((stats.total, stats.capped, stats.more_paths), (7, false, false));
        assert_eq!(stats.by_status, [(Status::Running, 3), (Status::Completed, 4)]);
        let paths: Vec<_> = stats.by_path.iter().map(|one| (one.path.as_deref(), one.count)).collect();
        assert_eq!(paths, [(Some("b"), 5), (Some("a"), 2)]);
    }

    #[test]
    fn a_shard_with_more_executions_or_paths_than_are_counted_is_marked() {
        let stats = |beyond: i64| {
            let paths = (0..ExecutionStats::MAX_PATHS + beyond).map(|number| path(&format!("p{number:03}"), 1));
            let groups = paths.chain([status("RUNNING", ExecutionStats::MAX_COUNTED + beyond)]);
            ExecutionStats::of_shards(vec![groups.collect()], Vec::new())
        };
        for (beyond, marked) in [(0, false), (1, true)] {
            let ExecutionStats { capped, more_paths, by_path, .. } = stats(beyond);
            assert_eq!((capped, more_paths, by_path.len()), (marked, marked, max_paths()), "{beyond} more");
        }
    }
}
