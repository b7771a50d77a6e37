//! A list of executions and one execution with its steps, beside a bare axum server with the same statements and JSON.

use std::sync::Arc;

use chrono::Utc;
use noetl_testkit::projections::ADVANCE_PROJECTIONS;
use serde_json::{Value, json};

use super::http::Http;
use super::load::{Caller, Side};
use super::project::executions;
use super::{Stage, bare_reads, script};
use crate::report::{Comparison, Limit, Report};

/// Rows of the list on each shard.
const ROWS: usize = 20_000;
/// Executions whose details are read in turn.
const DETAILS: usize = 500;
pub const LIST: &str = r#"{"query":"{ executions(first: 50) { nodes { id path status startedAt endedAt } } }"}"#;

/// A reader that sends these bodies in turn.
struct Reader {
    http: Http,
    bodies: Arc<Vec<String>>,
    next: usize,
    /// Text that each response must contain.
    expected: &'static str,
}

impl Caller for Reader {
    async fn call(&mut self) -> usize {
        self.next = (self.next + 1) % self.bodies.len();
        let response = self.http.post(&self.bodies[self.next]).await;
        assert!(response.contains(self.expected), "{response}");
        1
    }
}

/// Measures these numbers of callers.
pub async fn measure_at(stage: &Stage, report: &mut Report, callers: &[usize]) {
    fill(stage).await;
    let bare = bare_reads::spawn(&stage.deployment.shard_dsns).await;
    let lists = Arc::new(vec![LIST.to_owned()]);
    let details = Arc::new(details(stage).await);
    same_response(stage, &bare.url, &["/list", "/plain"], LIST).await;
    same_response(stage, &bare.url, &["/detail"], &details[0]).await;
    for &callers in callers {
        let list = r#""startedAt""#;
        let sides = &mut [
            Side::new(
                "executions",
                stage.of_server(),
                reader(&stage.server.url, "/graphql", &lists, list, callers).await,
            ),
            Side::new(
                "bare axum, the same statement",
                stage.of_process(&bare),
                reader(&bare.url, "/list", &lists, list, callers).await,
            ),
            Side::new(
                "bare axum, only the five columns",
                stage.of_process(&bare),
                reader(&bare.url, "/plain", &lists, list, callers).await,
            ),
        ];
        let ratio = (callers == 16 && !stage.background).then_some(Limit::AtLeast(0.6));
        let work = "executions(first: 50) { nodes { 5 fields } }";
        let comparison = Comparison { ratio, ..stage.comparison("lists", work, "requests/s", callers) };
        stage.compare(report, comparison, sides).await;
        let steps = r#""status":"COMPLETED","steps":{"nodes":[{"name":"#;
        let sides = &mut [
            Side::new(
                "execution",
                stage.of_server(),
                reader(&stage.server.url, "/graphql", &details, steps, callers).await,
            ),
            Side::new(
                "bare axum, the same statements",
                stage.of_process(&bare),
                reader(&bare.url, "/detail", &details, steps, callers).await,
            ),
        ];
        let work = "execution { status steps { nodes { name status } } }";
        let comparison = Comparison { ratio, ..stage.comparison("lists", work, "requests/s", callers) };
        stage.compare(report, comparison, sides).await;
    }
}

/// Returns readers that send these bodies in turn, each starting at another one.
pub async fn reader(
    url: &str,
    path: &str,
    bodies: &Arc<Vec<String>>,
    expected: &'static str,
    count: usize,
) -> Vec<impl Caller + use<>> {
    let mut readers = Vec::new();
    for index in 0..count {
        let (http, bodies) = (Http::connect(url, path).await, bodies.clone());
        readers.push(Reader { http, next: index * bodies.len() / count, bodies, expected });
    }
    readers
}

/// Panics unless the server and the bare server return the same body.
async fn same_response(stage: &Stage, bare: &str, paths: &[&str], body: &str) {
    let expected = Http::connect(&stage.server.url, "/graphql").await.post(body).await.to_owned();
    for path in paths {
        assert_eq!(Http::connect(bare, path).await.post(body).await, expected);
    }
}

/// Adds rows to the list of every shard. Their times are spread over the shards as their ids are, so a page has about
/// as many rows of each.
pub async fn fill(stage: &Stage) {
    let shards = stage.deployment.shard_dsns.len();
    // Of as many ids for each shard as rows, about so many belong to the shard.
    let (first, now) = (stage.ids.block(2 * shards * ROWS), Utc::now());
    let rows = "
        INSERT INTO noetl.execution (execution_id, catalog_id, path, status, last_event_type, last_event_id, start_time,
                                     end_time)
        SELECT id, 1, 'bench/path/' || n % 10, (ARRAY['COMPLETED', 'COMPLETED', 'COMPLETED', 'RUNNING', 'FAILED'])[(n % 5 + 1)::integer],
               'playbook.completed', id, $2 - make_interval(secs => (id - $3) / $4), CASE WHEN n % 5 <> 3 THEN $2 END
        FROM unnest($1::bigint[]) WITH ORDINALITY AS row (id, n)";
    for shard in 0..shards {
        let ids = stage.deployment.ids_on(shard, first, ROWS);
        let rows = sqlx::query(rows).bind(ids).bind(now).bind(first).bind(shards as f64);
        rows.execute(&mut stage.deployment.shard(shard).await).await.unwrap();
        stage.deployment.on_shard(shard, "VACUUM ANALYZE noetl.execution").await;
    }
}

/// Runs executions of four steps, stores their snapshots, and returns a request for each.
pub async fn details(stage: &Stage) -> Vec<String> {
    let executions = executions(stage, DETAILS).await;
    for some in executions.chunks(20) {
        let events: Vec<Value> = some.iter().flat_map(|execution| script::events(&stage.ids, *execution)).collect();
        let payload = stage.server.project(&events).await;
        assert_eq!(payload["projected"], events.len(), "{payload}");
    }
    for some in executions.chunks(50) {
        let ids: Vec<String> = some.iter().map(i64::to_string).collect();
        stage.server.data(ADVANCE_PROJECTIONS, json!({ "ids": ids })).await;
    }
    for shard in 0..stage.deployment.shard_dsns.len() {
        stage.deployment.on_shard(shard, "VACUUM ANALYZE").await;
    }
    let request = |id: &i64| {
        let query = "query($id: ID!) { execution(id: $id) { status steps { nodes { name status } } } }";
        json!({ "query": query, "variables": { "id": id.to_string() } }).to_string()
    };
    executions.iter().map(request).collect()
}
