//! `execute` with a dedup key, one by one and in batches, beside its three bare statements.

use std::fmt::Write;
use std::sync::Arc;

use noetl_testkit::Server;
use serde_json::json;

use super::http::Http;
use super::load::{Caller, Side, in_turns};
use super::statements::{New, Pools, Texts};
use super::{Ids, Stage};
use crate::report::{Comparison, Limit, Point, Report, Spread};

const PATH: &str = "bench/run";

/// Calls of the server with one execution each.
struct Product {
    http: Http,
    ids: Arc<Ids>,
    /// The input's field for labels, with the comma before it; empty: no labels.
    labels: &'static str,
    body: String,
}

impl Caller for Product {
    async fn call(&mut self) -> usize {
        let n = self.ids.next();
        self.body.clear();
        write!(
            self.body,
            r#"{{"query":"mutation($input: ExecuteInput!) {{ execute(input: $input) {{ execution {{ id status }} outcome userErrors {{ code message }} }} }}","variables":{{"input":{{"entry":{{"path":"{PATH}"}},"workload":{{"n":{n}}},"dedup":{{"key":"message-{n}"}}{labels}}}}}}}"#,
            labels = self.labels
        )
        .unwrap();
        let response = self.http.post(&self.body).await;
        assert!(response.contains(r#""outcome":"STARTED""#), "{response}");
        1
    }
}

/// Calls of the server with a batch.
struct ProductBatch {
    http: Http,
    ids: Arc<Ids>,
    size: usize,
    body: String,
}

impl Caller for ProductBatch {
    async fn call(&mut self) -> usize {
        let first = self.ids.block(self.size);
        self.body.clear();
        self.body.push_str(r#"{"query":"mutation($input: ExecuteBatchInput!) { executeBatch(input: $input) { results { outcome userErrors { code message } } } }","variables":{"input":{"requests":["#);
        for n in first..first + i64::try_from(self.size).unwrap() {
            let comma = if n == first { "" } else { "," };
            write!(
                self.body,
                r#"{comma}{{"entry":{{"path":"{PATH}"}},"workload":{{"n":{n}}},"dedup":{{"key":"message-{n}"}}}}"#
            )
            .unwrap();
        }
        self.body.push_str("]}}}");
        let response = self.http.post(&self.body).await;
        assert_eq!(response.matches(r#""outcome":"STARTED""#).count(), self.size, "{response}");
        self.size
    }
}

/// The three statements, with the rows of one or more executions.
struct Bare {
    pools: Pools,
    texts: Texts,
    ids: Arc<Ids>,
    size: usize,
}

impl Caller for Bare {
    async fn call(&mut self) -> usize {
        let first = self.ids.block(2 * self.size);
        let new = |index: usize| {
            let id = first + 2 * i64::try_from(index).unwrap();
            self.texts.execution(format!("bare-{id}"), id, id + 1, index)
        };
        let all: Vec<New> = (0..self.size).map(new).collect();
        self.pools.execute(&all, self.texts.catalog_id, &self.texts.path).await;
        self.size
    }
}

/// Registers the playbook of the measurements.
async fn texts(server: &Server) -> Texts {
    let content = json!({ "kind": "playbook", "workload": { "a": 1 } });
    let catalog_id = server.register_entry(PATH, &content).await.parse().unwrap();
    Texts { catalog_id, path: PATH.to_owned() }
}

async fn products(stage: &Stage, callers: usize, labels: &'static str) -> Vec<Product> {
    let mut products = Vec::new();
    for _ in 0..callers {
        let http = Http::connect(&stage.server.url, "/graphql").await;
        products.push(Product { http, ids: stage.ids.clone(), labels, body: String::new() });
    }
    products
}

/// Returns both sides of single calls.
pub async fn sides(stage: &Stage, callers: usize) -> [Side; 2] {
    let (texts, pools) = (texts(&stage.server).await, Pools::new(stage, 1).await);
    let bare = || Bare { pools: pools.clone(), texts: texts.clone(), ids: stage.ids.clone(), size: 1 };
    [
        Side::new("execute", stage.of_server(), products(stage, callers, "").await),
        Side::new("the three statements", stage.of_driver(), (0..callers).map(|_| bare()).collect()),
    ]
}

/// Measures calls with two labels beside calls without.
pub async fn measure_labels(stage: &Stage, report: &mut Report, callers: usize) {
    texts(&stage.server).await;
    let labels = r#","labels":[{"name":"team","value":"payments"},{"name":"region","value":"eu"}]"#;
    let sides = &mut [
        Side::new("execute with two labels", stage.of_server(), products(stage, callers, labels).await),
        Side::new("execute without labels", stage.of_server(), products(stage, callers, "").await),
    ];
    let comparison = Comparison {
        ratio: Some(Limit::AtLeast(0.95)),
        ..stage.comparison("triggers", "execute with two labels", "calls/s", callers)
    };
    stage.compare(report, comparison, sides).await;
}

/// Measures 16 callers beside `count` executions and dedup claims.
pub async fn measure_beside(stage: &Stage, report: &mut Report, count: i64) {
    let sides = &mut sides(stage, 16).await;
    for (series, samples) in in_turns(stage.pace, sides, async || ()).await {
        let y = Spread::of(samples.iter().map(|sample| sample.rate));
        report.point(Point { plot: "rows-execute", series, x: count as f64, unit: "calls/s", y });
    }
}

/// Measures single calls with these numbers of callers.
pub async fn measure_at(stage: &Stage, report: &mut Report, callers: &[usize]) {
    for &callers in callers {
        let sides = &mut sides(stage, callers).await;
        let limit = match callers {
            _ if !stage.fsync || stage.background => None,
            1 => Some(0.6),
            16 => Some(1.0),
            64 => Some(1.5),
            _ => None,
        };
        let comparison = Comparison {
            ratio: limit.map(Limit::AtLeast),
            ..stage.comparison("execute", "execute with dedup", "calls/s", callers)
        };
        stage.compare(report, comparison, sides).await;
    }
}

/// Measures batches.
pub async fn measure_batches(stage: &Stage, report: &mut Report) {
    let texts = texts(&stage.server).await;
    for (size, callers) in [(100, 1), (500, 1), (100, 4), (500, 4)] {
        let pools = Pools::new(stage, size).await;
        let mut product = Vec::new();
        for _ in 0..callers {
            let http = Http::connect(&stage.server.url, "/graphql").await;
            product.push(ProductBatch { http, ids: stage.ids.clone(), size, body: String::new() });
        }
        let bare = || Bare { pools: pools.clone(), texts: texts.clone(), ids: stage.ids.clone(), size };
        let sides = &mut [
            Side::new("executeBatch", stage.of_server(), product),
            Side::new("the three statements", stage.of_driver(), (0..callers).map(|_| bare()).collect()),
        ];
        let work = format!("executeBatch of {size} with dedup");
        let comparison = Comparison {
            rate: (stage.fsync && callers == 1).then_some(Limit::AtLeast(10_000.0)),
            ..stage.comparison("batch", &work, "executions/s", callers)
        };
        stage.compare(report, comparison, sides).await;
    }
}
