//! Lists over all shards. Each shard returns at most one page after the cursor, and the rows are merged by
//! position: by time, then by id. All shards are read as one bucket map shows them, so a row that is being moved comes
//! from one shard.

use std::collections::HashMap;

use futures::future::join_all;

use noetl_domain::list_position::{ListPosition, PositionRange};
use noetl_domain::page::{Page, PageRequest, Total};
use noetl_domain::shard::ShardIndex;
use noetl_storage::error::StorageError;
use noetl_storage::pools::Databases;
use noetl_storage::view::View;
use noetl_use_cases::error::ServiceError;
use noetl_use_cases::listing::Listing;

/// Reads a page over all shards, in the request's range for an order. A shard that is unreachable is reported; any other
/// error, such as that of a slow statement, fails the list.
pub(crate) async fn in_range<'a, T, Rows: Future<Output = Result<Vec<T>, StorageError>>>(
    databases: &'a Databases,
    request: &PageRequest<ListPosition>,
    range: PositionRange,
    position: impl Fn(&T) -> ListPosition,
    query: impl Fn(View<'a>, PositionRange) -> Rows,
) -> Result<Listing<T>, ServiceError> {
    let (rows, unavailable) = answers(databases, |shard| query(shard, range)).await?;
    let mut rows: Vec<T> = rows.into_iter().flatten().collect();
    sort(&mut rows, range, position);
    Ok(Listing { page: request.cut(rows), unavailable })
}

/// Reads one page per group over all shards, newest first, with one query per shard for all groups.
pub(crate) async fn newest_first_grouped<'a, T, Rows: Future<Output = Result<Vec<T>, StorageError>>>(
    databases: &'a Databases,
    request: &PageRequest<ListPosition>,
    position: impl Fn(&T) -> ListPosition,
    group: impl Fn(&T) -> i64,
    query: impl Fn(View<'a>, PositionRange) -> Rows,
) -> Result<(HashMap<i64, Page<T>>, Vec<ShardIndex>), ServiceError> {
    let range = request.newest_first();
    let (rows, unavailable) = answers(databases, |shard| query(shard, range)).await?;
    let mut groups: HashMap<i64, Vec<T>> = HashMap::new();
    for row in rows.into_iter().flatten() {
        groups.entry(group(&row)).or_default().push(row);
    }
    let page = |(key, mut rows): (i64, Vec<T>)| {
        sort(&mut rows, range, &position);
        (key, request.cut(rows))
    };
    Ok((groups.into_iter().map(page).collect(), unavailable))
}

/// Counts the items of a list over all shards, up to `limit`. `query` counts those of one shard, up to its argument. The
/// items of a shard that is unreachable are not counted; any other error fails the count.
pub(crate) async fn total<'a, Count: Future<Output = Result<i64, StorageError>>>(
    databases: &'a Databases,
    limit: i64,
    query: impl Fn(View<'a>, i64) -> Count,
) -> Result<Total, ServiceError> {
    let (counts, _) = answers(databases, |shard| query(shard, limit + 1)).await?;
    Ok(Total::of(counts.iter().sum(), limit))
}

/// Queries all shards, and returns the answers and the shards that are unreachable. Any other error fails the query.
pub(crate) async fn answers<'a, T, Answer: Future<Output = Result<T, StorageError>>>(
    databases: &'a Databases,
    query: impl Fn(View<'a>) -> Answer,
) -> Result<(Vec<T>, Vec<ShardIndex>), ServiceError> {
    let (mut found, mut unavailable) = (Vec::new(), Vec::new());
    for (index, answer) in (0..).zip(join_all(databases.views().into_iter().map(query)).await) {
        match answer {
            Ok(answer) => found.push(answer),
            Err(error) if error.unavailable().is_some() => unavailable.push(index),
            Err(error) => return Err(error.into()),
        }
    }
    Ok((found, unavailable))
}

/// Sorts rows by position, in the direction of the range.
fn sort<T>(rows: &mut [T], range: PositionRange, position: impl Fn(&T) -> ListPosition) {
    rows.sort_unstable_by_key(position);
    if range.descending {
        rows.reverse();
    }
}
