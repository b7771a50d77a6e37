//! Claiming and settling outbox rows, 500 at a time, beside the same statements.

use std::sync::Arc;

use futures::future::join_all;
use noetl_domain::tenant::Scope;
use noetl_storage::lock_wait::LockWait;
use noetl_storage::outbox::{self, Claim, LowWatermarks, Ref};
use noetl_storage::pools::Database;
use noetl_storage::view::View;

use super::http::Http;
use super::load::{Caller, Side, in_turns};
use super::{Stage, shard_pools};
use crate::report::{Comparison, Limit, Report};

const BATCH: usize = 500;
/// Rows that are open at the start of each measurement.
const OPEN: usize = 150_000;
/// Rows of an execution.
const EACH: usize = 10;

struct Product {
    http: Http,
    body: String,
}

impl Caller for Product {
    async fn call(&mut self) -> usize {
        let claim = format!(
            r#"{{"query":"mutation {{ claimOutbox(input: {{limit: {BATCH}, select: {{all: true}}}}) {{ claims {{ entryId lease subject payload }} userErrors {{ code message }} }} }}"}}"#
        );
        let response = self.http.post(&claim).await;
        self.body.clear();
        self.body.push_str(r#"{"query":"mutation($input: MarkOutboxPublishedInput!) { markOutboxPublished(input: $input) { published userErrors { code message } } }","variables":{"input":{"claims":["#);
        let mut count = 0;
        for claim in response.split(r#"{"entryId":""#).skip(1) {
            let (id, rest) = claim.split_once('"').unwrap();
            let lease = rest.strip_prefix(r#","lease":""#).unwrap().split_once('"').unwrap().0;
            let comma = if count == 0 { "" } else { "," };
            self.body.extend([comma, r#"{"entryId":""#, id, r#"","lease":""#, lease, r#""}"#]);
            count += 1;
        }
        if count == 0 {
            // The other callers hold the locks of all candidates.
            assert!(response.contains(r#""userErrors":[]"#), "{response}");
            return 0;
        }
        self.body.push_str("]}}}");
        let response = self.http.post(&self.body).await;
        assert!(response.contains(&format!(r#""published":{count},"#)), "{response}");
        count
    }
}

struct Bare {
    shards: Arc<[Database]>,
    low_watermarks: Vec<LowWatermarks>,
}

impl Caller for Bare {
    async fn call(&mut self) -> usize {
        let count = self.shards.len();
        let each = self.shards.iter().zip(&mut self.low_watermarks).map(async |(shard, low_watermarks)| {
            *low_watermarks = outbox::probe(View::whole(shard), low_watermarks).await.unwrap().low_watermarks;
            let limit = i64::try_from(BATCH / count).unwrap();
            let claim = Claim {
                limit,
                retried: limit / 4,
                lease_seconds: 30,
                max_attempts: 20,
                payload_bytes: 8 << 20,
                subjects: None,
                claimant: None,
            };
            let rows = outbox::claim(View::whole(shard), &Scope::Unrestricted, &claim, low_watermarks).await.unwrap();
            let reference = |row: &outbox::Claimed| Ref { outbox_id: row.outbox_id, lease_token: row.lease_token };
            let rows: Vec<Ref> = rows.iter().map(reference).collect();
            outbox::mark_published(shard, &Scope::Unrestricted, &rows, LockWait::Long).await.unwrap().len()
        });
        join_all(each).await.into_iter().sum()
    }
}

/// Measures these numbers of callers.
pub async fn measure(stage: &Stage, report: &mut Report, callers: &[usize]) {
    for &callers in callers {
        let dsns = &stage.deployment.shard_dsns;
        let shards: Arc<[Database]> = shard_pools(dsns).into();
        let product = self::callers(stage, callers).await;
        let bare = || Bare { shards: shards.clone(), low_watermarks: vec![LowWatermarks::START; dsns.len()] };
        let sides = &mut [
            Side::new("claimOutbox, markOutboxPublished", stage.of_server(), product),
            Side::new("the same statements", stage.of_driver(), (0..callers).map(|_| bare()).collect()),
        ];
        let comparison = Comparison {
            ratio: (stage.fsync && callers == 1).then_some(Limit::AtLeast(0.85)),
            ..stage.comparison("outbox", "outbox claim and settle of 500", "rows/s", callers)
        };
        report.compared(comparison, in_turns(stage.pace, sides, async || fill(stage).await).await);
    }
}

/// Returns callers of the server.
pub async fn callers(stage: &Stage, count: usize) -> Vec<impl Caller> {
    let mut callers = Vec::new();
    for _ in 0..count {
        callers.push(Product { http: Http::connect(&stage.server.url, "/graphql").await, body: String::new() });
    }
    callers
}

/// Replaces the rows of all shards by open ones.
pub async fn fill(stage: &Stage) {
    let shards = stage.deployment.shard_dsns.len();
    for shard in 0..shards {
        stage.deployment.on_shard(shard, "TRUNCATE noetl.outbox").await;
        let count = OPEN / EACH / shards;
        let first = stage.ids.block(count);
        let executions: Vec<i64> = (first..first + i64::try_from(count).unwrap()).collect();
        stage.deployment.fill_outbox(shard, &executions, i64::try_from(EACH).unwrap()).await;
        stage.deployment.on_shard(shard, "ANALYZE noetl.outbox").await;
    }
}
