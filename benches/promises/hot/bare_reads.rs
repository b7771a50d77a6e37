//! A bare axum server with the reads of the benchmark: the same statements as the server, and the same JSON.

use std::fmt::Write;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::routing::{get, post};
use axum::serve::ListenerExt;
use chrono::{DateTime, Utc};
use futures::future::join_all;
use noetl_domain::execution::Status;
use noetl_domain::execution_order::ExecutionOrder;
use noetl_domain::ids::Id;
use noetl_domain::list_position::PositionRange;
use noetl_domain::shard::ShardMap;
use noetl_domain::tenant::Scope;
use noetl_domain::workflow::StepStatus;
use noetl_storage::execution_lists::{self, ExecutionFilter};
use noetl_storage::pools::Database;
use noetl_storage::snapshots;
use noetl_storage::view::View;
use noetl_testkit::Server;
use serde_json::Value;
use sqlx::PgPool;
use tokio::net::TcpListener;
use tokio::process::Command;

use super::shard_pools;
use super::statements::pool;

/// Argument with which this program runs as the bare server; the DSNs of the shards follow.
pub const NAME: &str = "bare-reads";

const PLAIN: &str = "SELECT execution_id, path, status, start_time, end_time FROM noetl.execution
    ORDER BY noetl.list_time(start_time) DESC, execution_id DESC LIMIT 51";

struct Shards {
    databases: Vec<Database>,
    pools: Vec<PgPool>,
    map: ShardMap,
}

/// Starts this program as the bare server of these shards.
pub async fn spawn(dsns: &[String]) -> Server {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--bench", NAME]).args(dsns).stdin(Stdio::null());
    Server::spawn(command).await
}

/// Serves on a free port until it is killed.
pub async fn serve(dsns: &[String]) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    println!("listening on http://{}", listener.local_addr().unwrap());
    let mut pools = Vec::new();
    for dsn in dsns {
        pools.push(pool(dsn, 1).await);
    }
    let map = ShardMap::even(u16::try_from(dsns.len()).unwrap());
    let shards = Arc::new(Shards { databases: shard_pools(dsns), pools, map });
    let routes = Router::new()
        .route("/list", post(list))
        .route("/plain", post(plain))
        .route("/detail", post(detail))
        .route("/readyz", get(async || "ready"))
        .with_state(shards);
    axum::serve(listener.tap_io(|stream| stream.set_nodelay(true).unwrap()), routes).await.unwrap();
}

type Json = ([(axum::http::HeaderName, &'static str); 1], String);

fn json(body: String) -> Json {
    ([(CONTENT_TYPE, "application/json")], body)
}

/// A row of the list.
#[derive(sqlx::FromRow)]
struct Row {
    execution_id: i64,
    path: Option<String>,
    status: String,
    start_time: Option<DateTime<Utc>>,
    end_time: Option<DateTime<Utc>>,
}

fn page(mut rows: Vec<Row>) -> Json {
    rows.sort_by_key(|row| std::cmp::Reverse((row.start_time, row.execution_id)));
    let mut body = r#"{"data":{"executions":{"nodes":["#.to_owned();
    let time = |at: Option<DateTime<Utc>>| at.map_or("null".to_owned(), |at| format!(r#""{}""#, at.to_rfc3339()));
    for (index, row) in rows.iter().take(50).enumerate() {
        let comma = if index == 0 { "" } else { "," };
        let path = serde_json::to_string(&row.path).unwrap();
        let (id, status) = (row.execution_id, Status::from_stored(&row.status).as_str());
        let (started, ended) = (time(row.start_time), time(row.end_time));
        write!(
            body,
            r#"{comma}{{"id":"{id}","path":{path},"status":"{status}","startedAt":{started},"endedAt":{ended}}}"#
        )
        .unwrap();
    }
    body.push_str("]}}}");
    json(body)
}

/// The list with the statement of the server.
async fn list(State(shards): State<Arc<Shards>>, _: Bytes) -> Json {
    let filter = ExecutionFilter::default();
    let pages = shards.databases.iter().map(|shard| {
        let range = PositionRange::newest(51);
        execution_lists::list(View::whole(shard), &Scope::Unrestricted, &filter, ExecutionOrder::Newest, range)
    });
    let rows = join_all(pages).await.into_iter().flat_map(Result::unwrap);
    let row = |row: noetl_storage::executions::ExecutionRow| Row {
        execution_id: row.execution_id,
        path: row.path,
        status: row.status,
        start_time: row.start_time,
        end_time: row.end_time,
    };
    page(rows.map(row).collect())
}

/// The list with a statement that reads only the five columns and has no conditions.
async fn plain(State(shards): State<Arc<Shards>>, _: Bytes) -> Json {
    let pages = shards.pools.iter().map(|shard| sqlx::query_as::<_, Row>(PLAIN).fetch_all(shard));
    page(join_all(pages).await.into_iter().flat_map(Result::unwrap).collect())
}

/// Status and steps of one execution, with the statements and the fold of the server.
async fn detail(State(shards): State<Arc<Shards>>, body: Bytes) -> Json {
    let body: Value = serde_json::from_slice(&body).unwrap();
    let id: i64 = body["variables"]["id"].as_str().unwrap().parse().unwrap();
    let shard = &shards.databases[usize::from(shards.map.shard_of(Id::new(id)))];
    let read = snapshots::read(shard, &Scope::Unrestricted, &[id], Duration::from_secs(3)).await.unwrap();
    let state = &read[0].projection.state;
    let mut body = format!(r#"{{"data":{{"execution":{{"status":"{}","steps":{{"nodes":["#, state.status().as_str());
    for (index, (name, step)) in state.steps().into_iter().enumerate() {
        let comma = if index == 0 { "" } else { "," };
        let (name, status) = (serde_json::to_string(name).unwrap(), step_status(step.status()));
        write!(body, r#"{comma}{{"name":{name},"status":"{status}"}}"#).unwrap();
    }
    body.push_str("]}}}}");
    json(body)
}

fn step_status(status: StepStatus) -> &'static str {
    match status {
        StepStatus::Pending => "PENDING",
        StepStatus::Entered => "ENTERED",
        StepStatus::CommandIssued => "COMMAND_ISSUED",
        StepStatus::CommandClaimed => "COMMAND_CLAIMED",
        StepStatus::CommandStarted => "COMMAND_STARTED",
        StepStatus::Completed => "COMPLETED",
        StepStatus::Failed => "FAILED",
        StepStatus::Skipped => "SKIPPED",
    }
}
