//! Ids in the logs, compared with the ranges of the leases on machine ids.
//!
//! The holder of a machine id reserves a range before it makes ids in it. So an id after the range shows that the cluster
//! database was restored to an earlier time, and the next holder could make the same id again.

use std::collections::BTreeMap;

use super::findings::Findings;
use super::kinds::Kind;
use super::reach::Reach;
use noetl_domain::event::EventKey;
use noetl_domain::ids::{Id, MAX_FLOOR_LEAD_MS};
use noetl_runtime::clock;
use noetl_storage::check::{Pages, ids};
use noetl_use_cases::error::ServiceError;

/// Number of events in a page.
const PAGE: i64 = 5_000;
/// Distance in milliseconds after the current time at which no range of a working server ends.
const MAX_RANGE_LEAD_MS: u64 = 2 * MAX_FLOOR_LEAD_MS;

/// Compares the ids of all events. Ids that are more than a day in the future are not made by this server.
pub(super) async fn compare(reach: &Reach, repair: bool, findings: &mut Findings) -> Result<(), ServiceError> {
    let below = Id::first_of(clock::snowflake_ms() + MAX_FLOOR_LEAD_MS);
    let mut largest: BTreeMap<u16, Id> = BTreeMap::new();
    for shard in reach.up() {
        let mut after = EventKey { event_id: -1, execution_id: i64::MIN };
        let mut pages = Pages::of(reach.shard(shard)).await?;
        while let Some(page) = ids::page(&mut pages, after, below.get(), PAGE).await? {
            for id in page.largest.iter().map(|one| Id::new(one.event_id)) {
                let entry = largest.entry(id.machine()).or_insert(id);
                *entry = (*entry).max(id);
            }
            after = page.last;
        }
    }
    // The ranges are read after the ids, so an id that was made meanwhile is in its range.
    let ceilings = ids::ceilings(reach.cluster()).await?;
    let beyond = beyond(&largest, &ceilings);
    if repair {
        let wanted: Vec<(u16, u64)> = beyond.iter().map(|(machine, id)| (*machine, id.millis())).collect();
        ids::raise(reach.cluster(), &wanted).await?;
    }
    for (machine, id) in beyond {
        findings.add(Kind::IdAfterRange, format!("machine id {machine}: id {id}"), repair);
    }
    let now_ms = clock::snowflake_ms();
    let distant: Vec<(u16, u64)> =
        ceilings.into_iter().filter(|(_, ceiling_ms)| *ceiling_ms > now_ms + MAX_RANGE_LEAD_MS).collect();
    let used_ms = |machine| largest.get(machine).map_or(0, |id| id.millis());
    let wanted: Vec<(u16, u64)> = distant.iter().map(|(machine, _)| (*machine, now_ms.max(used_ms(machine)))).collect();
    let lowered = if repair && !wanted.is_empty() { ids::lower(reach.cluster(), &wanted).await? } else { Vec::new() };
    for (machine, ceiling_ms) in distant {
        let until = Id::first_of(ceiling_ms).time();
        let repaired = lowered.contains(&machine);
        findings.add(Kind::RangeInFuture, format!("machine id {machine}: until {until}"), repaired);
    }
    Ok(())
}

/// Returns the largest id of each machine id that is after the range.
fn beyond(largest: &BTreeMap<u16, Id>, ceilings: &[(u16, u64)]) -> Vec<(u16, Id)> {
    let ceilings: BTreeMap<u16, u64> = ceilings.iter().copied().collect();
    let is_after = |machine: &u16, id: &Id| id.millis() > ceilings.get(machine).copied().unwrap_or_default();
    largest.iter().filter(|(machine, id)| is_after(machine, id)).map(|(machine, id)| (*machine, *id)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_after_the_range_if_its_millisecond_was_not_reserved() {
        let id = |ms: u64, machine: i64| Id::new(Id::first_of(ms).get() | machine << 12 | 4095);
        let largest = BTreeMap::from([(0, id(100, 0)), (1, id(101, 1)), (7, id(1, 7))]);
        assert_eq!(beyond(&largest, &[(0, 100), (1, 100), (2, 5)]), [(1, id(101, 1)), (7, id(1, 7))]);
        assert_eq!((id(101, 1).machine(), id(101, 1).millis()), (1, 101));
    }
}
