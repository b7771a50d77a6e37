//! Benchmark of a backlog: time to the first published event, and the cost of a poll beside a large open transaction.

use std::sync::Arc;
use std::time::{Duration, Instant};

use noetl_storage::error::DatabaseName;
use noetl_storage::pools::Database;
use noetl_storage::tail_session::TailSession;
use noetl_testkit::Deployment;
use sqlx::PgConnection;

use crate::report::{Limit, Report};

/// Sizes of the backlogs in events.
const BACKLOGS: [i64; 2] = [10_000, 1_000_000];
/// Environment variable that adds a backlog of [`HUGE`] events, whose generation takes several minutes.
const WITH_HUGE: &str = "NOETL_BENCH_HUGE_BACKLOG";
const HUGE: i64 = 10_000_000;
const UNCOMMITTED: i64 = 5_000_000;
const POLLS: u32 = 500;
/// A replica that does nothing but publish, and polls often.
pub const ONLY_PUBLISH: [(&str, &str); 3] =
    [("NOETL_EVENT_STREAM_POLL_MS", "10"), ("NOETL_PROJECTOR", "false"), ("NOETL_OUTBOX_RELAY", "false")];

/// Inserts events of 1000 executions, with ids from `first` on.
async fn insert(connection: &mut PgConnection, first: i64, count: i64) {
    sqlx::query(
        "INSERT INTO noetl.event (execution_id, event_id, event_type)
         SELECT 1000000 + n % 1000, n, 'call.done' FROM generate_series($1, $1 + $2 - 1) AS n",
    )
    .bind(first)
    .bind(count)
    .execute(connection)
    .await
    .unwrap();
}

/// Measures the time from the commit of a backlog to its first published event, for each size.
pub async fn measure_first_publish(report: &mut Report) {
    let huge = std::env::var_os(WITH_HUGE).is_some();
    let sizes = BACKLOGS.into_iter().chain(huge.then_some(HUGE));
    let mut smallest = None;
    for events in sizes {
        let seconds = first_publish(events).await;
        let name = format!("backlog of {events} events: commit to the first published event");
        report.figure(&name, seconds, "s", Some(Limit::AtMost(2.0)));
        let base = *smallest.get_or_insert(seconds);
        report.figure(&format!("{name}, compared with {}", BACKLOGS[0]), seconds / base, "ratio", None);
    }
}

async fn first_publish(events: i64) -> f64 {
    let deployment = Deployment::start(1).await;
    let server = deployment.replica_with(&ONLY_PUBLISH).await;
    deployment.feeds_begun().await;
    let mut shard = deployment.shard(0).await;
    sqlx::raw_sql("BEGIN").execute(&mut shard).await.unwrap();
    insert(&mut shard, 1, events).await;
    let (_, stream) = deployment.stream(0).await;
    let begun = Instant::now();
    sqlx::raw_sql("COMMIT").execute(&mut shard).await.unwrap();
    while stream.get_info().await.unwrap().state.messages == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let seconds = begun.elapsed().as_secs_f64();
    drop(server);
    seconds
}

/// Measures a poll of the leader without events, and the time from a commit to the stored message, without and with a
/// large open transaction. Between two polls, another transaction ends, so that no poll is answered from memory.
pub async fn measure_polls(report: &mut Report) {
    let deployment = Deployment::start(1).await;
    let server = deployment.replica_with(&ONLY_PUBLISH).await;
    deployment.feeds_begun().await;
    let mut open = deployment.shard(0).await;
    let polls = poll(&deployment).await;
    let delay = publish(&deployment, 1).await;
    sqlx::raw_sql("BEGIN").execute(&mut open).await.unwrap();
    insert(&mut open, 1_000, UNCOMMITTED).await;
    let polls_beside = poll(&deployment).await;
    let delay_beside = publish(&deployment, 101).await;
    let name = format!("with {UNCOMMITTED} uncommitted rows");
    report.figure("poll of the leader", polls * 1e6, "µs", None);
    report.figure(&format!("poll of the leader {name}"), polls_beside * 1e6, "µs", None);
    report.figure("poll with / without uncommitted rows", polls_beside / polls, "ratio", Some(Limit::AtMost(3.0)));
    report.figure("commit to stored message", delay * 1e3, "ms", None);
    report.figure(&format!("commit to stored message {name}"), delay_beside * 1e3, "ms", None);
    let extra = (delay_beside - delay) * 1e3;
    report.figure("delay by the uncommitted rows", extra, "ms", Some(Limit::AtMost(50.0)));
    drop(server);
}

/// Returns the seconds of a poll.
async fn poll(deployment: &Deployment) -> f64 {
    let shard = Arc::new(Database::new(DatabaseName::Shard(0), deployment.shard_dsns[0].parse().unwrap(), 1));
    let mut other = deployment.shard(0).await;
    let done = "SELECT done::text FROM noetl.tail_cursor";
    let done: String = sqlx::query_scalar(done).fetch_one(&mut other).await.unwrap();
    let done = done.parse().unwrap();
    let mut session = TailSession::open(shard, 0).await.unwrap();
    let mut spent = Duration::ZERO;
    for _ in 0..POLLS {
        sqlx::query("SELECT pg_current_xact_id()").execute(&mut other).await.unwrap();
        let begun = Instant::now();
        session.committed_since(&done).await.unwrap();
        spent += begun.elapsed();
    }
    spent.as_secs_f64() / f64::from(POLLS)
}

/// Returns the mean seconds from a commit to its stored message, over 50 commits.
async fn publish(deployment: &Deployment, first: i64) -> f64 {
    const COMMITS: i64 = 50;
    let mut writer = deployment.shard(0).await;
    let (_, stream) = deployment.stream(0).await;
    let mut spent = Duration::ZERO;
    for event in first..first + COMMITS {
        let before = stream.get_info().await.unwrap().state.messages;
        let begun = Instant::now();
        insert(&mut writer, event, 1).await;
        while stream.get_info().await.unwrap().state.messages == before {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        spent += begun.elapsed();
    }
    spent.as_secs_f64() / COMMITS as f64
}
