//! Outbox rows that moved to another shard with their bucket, and got other ids there.

use std::collections::HashMap;

use super::ids::Id;
use super::outbox::OutboxId;
use super::shard::{ShardIndex, ShardMap};

/// A row that was copied to another shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Forwarded {
    /// Id of the row in the shard that was read.
    pub outbox_id: i64,
    /// Id of the copy.
    pub copy: OutboxId,
    /// Execution of the row, while the shard that was read has the row.
    pub execution: Option<Id>,
}

/// Id of a row that is followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// Id that the caller has.
    pub given: OutboxId,
    /// Id after the moves that were followed.
    pub at: OutboxId,
}

/// Returns the next steps of rows that left the shard.
#[must_use]
pub fn followed(rows: &[Step], found: &[Forwarded], shard: ShardIndex, map: &ShardMap) -> Vec<Step> {
    let left = |forward: &&Forwarded| forward.execution.is_none_or(|execution| !map.holds(shard, execution));
    let copies: HashMap<i64, OutboxId> =
        found.iter().filter(left).map(|forward| (forward.outbox_id, forward.copy)).collect();
    let next = |row: &Step| Some(Step { given: row.given, at: *copies.get(&row.at.number)? });
    rows.iter().filter_map(next).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copied_row_is_followed_only_if_its_bucket_left_or_the_row_is_gone() {
        let map = ShardMap::even(2);
        let id = |shard, number| OutboxId { shard, number };
        let [here, there] = [0, 1].map(|shard| (1..1000).map(Id::new).find(|id| map.holds(shard, *id)));
        let forward = |outbox_id, execution| Forwarded { outbox_id, copy: id(1, outbox_id + 100), execution };
        let found = [forward(1, here), forward(2, there), forward(3, None)];
        let row = |number| Step { given: id(0, number), at: id(0, number) };
        let rows: Vec<Step> = (1..5).map(row).collect();
        let expected = [2, 3].map(|number| Step { given: id(0, number), at: id(1, number + 100) });
        assert_eq!(followed(&rows, &found, 0, &map), expected);
    }
}
