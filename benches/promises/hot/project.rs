//! `projectEvents` in batches of 500 and of 1 to 3 events, beside the statement of the server, and beside a plain INSERT
//! of the same columns.

use std::fmt::Write;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use futures::future::join_all;
use noetl_domain::ids::Id;
use noetl_domain::shard::ShardMap;
use noetl_domain::tenant::Scope;
use noetl_storage::ingest::{self, Logs, NewEvent, Numbering, Writer};
use noetl_storage::lock_wait::LockWait;
use noetl_storage::pools::Database;
use serde_json::json;
use sqlx::PgPool;

use super::http::Http;
use super::load::{Caller, Side, in_turns};
use super::statements::pool;
use super::{Ids, Stage, shard_pools};
use crate::report::{Comparison, Limit, Point, Report, Spread};

const BATCH: usize = 500;
/// Number of executions to which a batch belongs.
const EXECUTIONS: usize = 50;
/// Sizes of the small calls, in turn.
const SMALL: [usize; 3] = [1, 2, 3];
const AT: &str = "2026-01-31T10:00:00.500Z";

/// Inserts the same columns without the checks of the server's statement.
const PLAIN: &str = r"
    INSERT INTO noetl.event (execution_id, event_id, catalog_id, parent_event_id, parent_execution_id, created_at,
                             event_type, node_id, node_name, node_type, status, duration, context, result, meta, error,
                             stack_trace, tenant_id, organization_id)
    SELECT execution_id, event_id, 0, NULL, NULL, created_at AT TIME ZONE 'UTC', event_type, NULL, node_name, NULL, status,
           duration, context::jsonb, result::jsonb, meta::jsonb, NULL, NULL, 'default', 'default'
    FROM unnest($1::bigint[], $2::bigint[], $3::timestamptz[], $4::text[], $5::text[], $6::text[], $7::float8[],
                $8::text[], $9::text[], $10::text[])
        AS t (execution_id, event_id, created_at, event_type, node_name, status, duration, context, result, meta)
    ON CONFLICT (execution_id, event_id) DO NOTHING";

/// Sizes of a caller's calls and the executions to which its events belong.
#[derive(Debug, Clone)]
struct Plan {
    ids: Arc<Ids>,
    /// Executions that the calls use in turn.
    executions: Vec<i64>,
    sizes: &'static [usize],
    calls: usize,
}

impl Plan {
    /// Returns the keys of the next call: execution and event.
    fn next(&mut self) -> Vec<(i64, i64)> {
        let size = self.sizes[self.calls % self.sizes.len()];
        self.calls += 1;
        let first = self.ids.block(size);
        let key =
            |index: usize| (self.executions[index % self.executions.len()], first + i64::try_from(index).unwrap());
        (0..size).map(key).collect()
    }
}

fn context(event: i64) -> String {
    let note = "n".repeat(80);
    format!(r#"{{"step":"transform","attempt":1,"input":{{"order":{event},"note":"{note}"}}}}"#)
}

fn result(event: i64) -> String {
    let text = "x".repeat(250);
    format!(r#"{{"status":"ok","data":{{"rows":{event},"text":"{text}"}}}}"#)
}

fn meta(event: i64) -> String {
    format!(r#"{{"command_id":"command-{event}","worker":"bench"}}"#)
}

struct Product {
    http: Http,
    plan: Plan,
    body: String,
}

impl Caller for Product {
    async fn call(&mut self) -> usize {
        let keys = self.plan.next();
        self.body.clear();
        self.body.push_str(r#"{"query":"mutation($events: [EventInput!]!) { projectEvents(input: {events: $events}) { projected duplicates rejected { index userErrors { code message } } userErrors { code message } } }","variables":{"events":["#);
        for (index, (execution, event)) in keys.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(
                self.body,
                r#"{comma}{{"executionId":"{execution}","eventId":"{event}","type":"call.done","nodeName":"step","status":"COMPLETED","durationSeconds":0.25,"createdAt":"{AT}","context":{},"result":{},"meta":{}}}"#,
                context(*event),
                result(*event),
                meta(*event)
            )
            .unwrap();
        }
        self.body.push_str("]}}");
        let response = self.http.post(&self.body).await;
        assert!(response.contains(&format!(r#""projected":{},"#, keys.len())), "{response}");
        keys.len()
    }
}

/// The statement of the server.
struct SameStatement {
    shards: Arc<[Database]>,
    map: Arc<ShardMap>,
    plan: Plan,
}

impl Caller for SameStatement {
    async fn call(&mut self) -> usize {
        let keys = self.plan.next();
        let inserts = self.shards.iter().enumerate().map(async |(index, shard)| {
            let here = |key: &&(i64, i64)| usize::from(self.map.shard_of(Id::new(key.0))) == index;
            let events: Vec<NewEvent> = keys.iter().filter(here).map(new_event).collect();
            if events.is_empty() {
                return 0;
            }
            let writer = Writer { scope: Scope::Unrestricted, imports: true };
            ingest::insert(shard, &writer, &events, None, LockWait::Long, Logs::Existing, Numbering::Any)
                .await
                .unwrap()
                .positions
                .len()
        });
        assert_eq!(join_all(inserts).await.into_iter().sum::<usize>(), keys.len());
        keys.len()
    }
}

fn new_event((execution, event): &(i64, i64)) -> NewEvent {
    NewEvent {
        execution_id: Id::new(*execution),
        event_id: Id::new(*event),
        key: None,
        catalog_id: None,
        parent_event_id: None,
        parent_execution_id: None,
        created_at: Some(AT.parse().unwrap()),
        event_type: "call.done".to_owned(),
        node_id: None,
        node_name: Some("step".to_owned()),
        node_type: None,
        status: Some("COMPLETED".to_owned()),
        duration: Some(0.25),
        context: Some(context(*event).into()),
        result: Some(result(*event).into()),
        meta: Some(meta(*event).into()),
        error: None,
        stack_trace: None,
        tenant_id: None,
        organization_id: None,
        others: None,
        claim: None,
    }
}

/// A plain INSERT over the driver.
struct Plain {
    shards: Vec<PgPool>,
    map: Arc<ShardMap>,
    plan: Plan,
}

impl Caller for Plain {
    async fn call(&mut self) -> usize {
        let keys = self.plan.next();
        let inserts = self.shards.iter().enumerate().map(async |(index, shard)| {
            let here = |key: &&(i64, i64)| usize::from(self.map.shard_of(Id::new(key.0))) == index;
            let here: Vec<&(i64, i64)> = keys.iter().filter(here).collect();
            if here.is_empty() {
                return 0;
            }
            let inserted = sqlx::query(PLAIN)
                .bind(here.iter().map(|key| key.0).collect::<Vec<i64>>())
                .bind(here.iter().map(|key| key.1).collect::<Vec<i64>>())
                .bind(vec![AT.parse::<DateTime<Utc>>().unwrap(); here.len()])
                .bind(vec!["call.done"; here.len()])
                .bind(vec!["step"; here.len()])
                .bind(vec!["COMPLETED"; here.len()])
                .bind(vec![0.25; here.len()])
                .bind(here.iter().map(|key| context(key.1)).collect::<Vec<String>>())
                .bind(here.iter().map(|key| result(key.1)).collect::<Vec<String>>())
                .bind(here.iter().map(|key| meta(key.1)).collect::<Vec<String>>());
            inserted.execute(shard).await.unwrap().rows_affected()
        });
        assert_eq!(join_all(inserts).await.into_iter().sum::<u64>(), keys.len() as u64);
        keys.len()
    }
}

/// Starts executions through the server and returns their ids.
pub async fn executions(stage: &Stage, count: usize) -> Vec<i64> {
    stage.server.register_entry("bench/project", &json!({ "kind": "playbook" })).await;
    let query = "mutation($input: ExecuteBatchInput!) { executeBatch(input: $input) { results { executionId } } }";
    let requests = vec![json!({ "entry": { "path": "bench/project" } }); count];
    let mut data = stage.server.data(query, json!({ "input": { "requests": requests } })).await;
    let results = data["executeBatch"]["results"].take();
    let id = |result: &serde_json::Value| result["executionId"].as_str().unwrap().parse().unwrap();
    results.as_array().unwrap().iter().map(id).collect()
}

/// Measures whole batches and small calls.
pub async fn measure(stage: &Stage, report: &mut Report) {
    measure_whole(stage, report, 1).await;
    measure_whole(stage, report, 4).await;
    measure_small(stage, report, 64).await;
}

/// Returns the sides of batches of 500.
pub async fn whole(stage: &Stage, callers: usize) -> Vec<Side> {
    let executions = executions(stage, EXECUTIONS).await;
    let plan = Plan { ids: stage.ids.clone(), executions, sizes: &[BATCH], calls: 0 };
    sides(stage, &vec![plan; callers]).await
}

/// Measures batches of 500.
pub async fn measure_whole(stage: &Stage, report: &mut Report, callers: usize) {
    let sides = &mut whole(stage, callers).await;
    let comparison = Comparison {
        ratio: (stage.fsync && !stage.background && callers == 1).then_some(Limit::AtLeast(0.6)),
        ..stage.comparison("project", "projectEvents of 500", "events/s", callers)
    };
    stage.compare(report, comparison, sides).await;
}

/// Measures calls of 1 to 3 events. Each caller appends to its own execution.
async fn measure_small(stage: &Stage, report: &mut Report, callers: usize) {
    let executions = executions(stage, callers).await;
    let plan = |execution: &i64| Plan { ids: stage.ids.clone(), executions: vec![*execution], sizes: &SMALL, calls: 0 };
    let sides = &mut sides(stage, &executions.iter().map(plan).collect::<Vec<Plan>>()).await;
    let comparison = Comparison {
        rate: stage.fsync.then_some(Limit::AtLeast(10_000.0)),
        ..stage.comparison("project", "projectEvents of 1 to 3", "events/s", callers)
    };
    stage.compare(report, comparison, sides).await;
}

/// Measures batches of 500 into one execution that has `count` events.
pub async fn measure_into(stage: &Stage, report: &mut Report, execution: i64, count: i64) {
    let plan = Plan { ids: stage.ids.clone(), executions: vec![execution], sizes: &[BATCH], calls: 0 };
    let sides = &mut sides(stage, &[plan]).await;
    for (series, samples) in in_turns(stage.pace, sides, async || ()).await {
        let y = Spread::of(samples.iter().map(|sample| sample.rate));
        report.point(Point { plot: "events-append", series, x: count as f64, unit: "events/s", y });
    }
}

/// Returns the three sides, with a caller for each plan.
async fn sides(stage: &Stage, plans: &[Plan]) -> Vec<Side> {
    let dsns = &stage.deployment.shard_dsns;
    let map = Arc::new(ShardMap::even(u16::try_from(dsns.len()).unwrap()));
    let rows = plans.iter().flat_map(|plan| plan.sizes).copied().max().unwrap_or(1);
    let (mut product, mut pools) = (Vec::new(), Vec::new());
    for plan in plans {
        let http = Http::connect(&stage.server.url, "/graphql").await;
        product.push(Product { http, plan: plan.clone(), body: String::new() });
    }
    for dsn in dsns {
        pools.push(pool(dsn, rows).await);
    }
    let shards: Arc<[Database]> = shard_pools(dsns).into();
    let same = |plan: &Plan| SameStatement { shards: shards.clone(), map: map.clone(), plan: plan.clone() };
    let plain = |plan: &Plan| Plain { shards: pools.clone(), map: map.clone(), plan: plan.clone() };
    vec![
        Side::new("projectEvents", stage.of_server(), product),
        Side::new("the same statement", stage.of_driver(), plans.iter().map(same).collect()),
        Side::new("a plain INSERT of the same columns", stage.of_driver(), plans.iter().map(plain).collect()),
    ]
}
