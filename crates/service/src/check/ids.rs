//! Ids in the logs, compared with the ranges of the leases on machine ids.
//!
//! The holder of a machine id reserves a range before it makes ids in it. So an id after the range shows that the cluster
//! database was restored to an earlier time, and the next holder could make the same id again.

use std::collections::BTreeMap;

use super::findings::Findings;
use super::kinds::Kind;
use super::reach::Reach;
use noetl_domain::event::EventKey;
use noetl_domain::id_ranges::beyond;
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
