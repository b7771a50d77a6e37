//! The statistics of a path's steps equal the planted times and failures of its newest executions.

use noetl_testkit::outbox::NO_RELAY;
use noetl_testkit::{Deployment, Server};
use serde_json::{Value, json};

const QUERY: &str = "query($last: Int) { stepStats(path: \"run\", last: $last) {
    executions from to moreSteps unavailableShards
    steps { name executions attempts failed skipped share slowestExecutionId lastFailedExecutionId
            durationSeconds { p50 p95 p99 max total } } } }";

/// Writes an ended execution of the path `run`, which starts 10 minutes after the one with the number before. Its step
/// `load` takes 1 second more than that number, and fails at each third execution. The step `notify` takes 2 seconds, and
/// is skipped at each second one.
async fn write(deployment: &Deployment, shard: usize, id: i64, number: i64) {
    let at = |second| format!("'2026-01-31 12:00:00'::timestamp + interval '{} s'", number * 600 + second);
    let loaded = number + 1;
    let notified = if number % 2 == 0 { ("step.skipped", loaded) } else { ("command.completed", loaded + 2) };
    let events = [
        ("playbook_started", "run", 0),
        ("step.enter", "load", 0),
        (if number % 3 == 0 { "command.failed" } else { "command.completed" }, "load", loaded),
        (if number % 2 == 0 { "step.skipped" } else { "step.enter" }, "notify", loaded),
        (notified.0, "notify", notified.1),
        ("playbook.completed", "run", loaded + 10),
    ];
    let rows = (id + 1..).zip(events).map(|(event, (event_type, node, second))| {
        format!("({id}, {event}, '{event_type}', '{node}', '{{\"path\": \"run\"}}', {})", at(second))
    });
    let insert = format!(
        "INSERT INTO noetl.event (execution_id, event_id, event_type, node_name, context, created_at) VALUES {};
         INSERT INTO noetl.execution (execution_id, catalog_id, status, path, start_time, end_time)
         VALUES ({id}, 0, 'COMPLETED', 'run', ({}) AT TIME ZONE 'UTC', ({}) AT TIME ZONE 'UTC')",
        rows.collect::<Vec<_>>().join(", "),
        at(0),
        at(loaded + 10),
    );
    deployment.on_shard(shard, &insert).await;
}

/// Writes executions with the numbers 0 to 9 in turns to both shards, and others that do not belong to the statistics.
/// Returns the ids of the ten.
async fn written(deployment: &Deployment) -> Vec<i64> {
    let ids = [deployment.ids_on(0, 1, 6), deployment.ids_on(1, 1, 6)];
    let mut of_path = Vec::new();
    for (number, index) in (0_i64..10).zip(0_usize..) {
        let (shard, id) = (index % 2, ids[index % 2][index / 2]);
        write(deployment, shard, id, number).await;
        of_path.push(id);
    }
    for (shard, (status, path)) in [("RUNNING", "run"), ("COMPLETED", "other")].into_iter().enumerate() {
        let id = ids[shard][5];
        let insert = format!(
            "INSERT INTO noetl.event (execution_id, event_id, event_type, node_name) VALUES ({id}, {id} + 1, 'step.enter', 'x');
             INSERT INTO noetl.execution (execution_id, catalog_id, status, path, start_time)
             VALUES ({id}, 0, '{status}', '{path}', now())"
        );
        deployment.on_shard(shard, &insert).await;
    }
    of_path
}

/// Compares the statistics of the executions with these numbers.
async fn assert_stats(server: &Server, ids: &[i64], last: i64, numbers: &[i64], unavailable: Value) {
    let stats = server.data(QUERY, json!({ "last": last })).await["stepStats"].take();
    assert_eq!((&stats["executions"], &stats["moreSteps"]), (&json!(numbers.len()), &json!(false)), "{stats}");
    assert_eq!(stats["unavailableShards"], unavailable, "{stats}");
    let (first, newest) = (numbers[0], numbers[numbers.len() - 1]);
    let time = |seconds: i64| 1_769_860_800 + seconds;
    for (name, seconds) in [("from", first * 600), ("to", newest * 600 + newest + 11)] {
        let shown: chrono::DateTime<chrono::Utc> = stats[name].as_str().unwrap().parse().unwrap();
        assert_eq!(shown.timestamp(), time(seconds), "{name} of {stats}");
    }
    let loaded: Vec<i64> = numbers.iter().map(|number| number + 1).collect();
    let odd: Vec<i64> = numbers.iter().copied().filter(|number| number % 2 == 1).collect();
    let failed: Vec<i64> = numbers.iter().copied().filter(|number| number % 3 == 0).collect();
    let notified = vec![2; odd.len()];
    let all: i64 = loaded.iter().chain(&notified).sum();
    let steps = [
        ("load", &loaded, numbers.len(), failed.len(), Some(newest), failed.last()),
        ("notify", &notified, odd.len(), 0, odd.last().copied(), None),
    ];
    for (step, (name, durations, run, failed, slowest, failed_in)) in
        stats["steps"].as_array().unwrap().iter().zip(steps)
    {
        let skipped = if name == "load" { 0 } else { numbers.len() - run };
        let counts = ["name", "executions", "attempts", "failed", "skipped"].map(|field| step[field].clone());
        assert_eq!(counts, [json!(name), json!(run), json!(run), json!(failed), json!(skipped)], "{step}");
        let id = |number: i64| ids[usize::try_from(number).unwrap()].to_string();
        assert_eq!(step["slowestExecutionId"], json!(slowest.map(id)), "{step}");
        assert_eq!(step["lastFailedExecutionId"], json!(failed_in.copied().map(id)), "{step}");
        let total: i64 = durations.iter().sum();
        let number = |value: i64| f64::from(i32::try_from(value).unwrap());
        assert!((step["share"].as_f64().unwrap() - number(total) / number(all)).abs() < 1e-9, "{step}");
        let rank = |percent: usize| number(durations[(durations.len() * percent).div_ceil(100) - 1]);
        let expected = if durations.is_empty() {
            Value::Null
        } else {
            json!({
                "p50": rank(50), "p95": rank(95), "p99": rank(99), "max": rank(100), "total": number(total),
            })
        };
        assert_eq!(step["durationSeconds"], expected, "{step}");
    }
    assert_eq!(stats["steps"].as_array().unwrap().len(), 2, "{stats}");
}

#[tokio::test]
async fn the_newest_ended_executions_of_both_shards_count_with_or_without_stored_states() {
    let deployment = Deployment::start(2).await;
    let server = deployment.replica_without_projector().await;
    let ids = written(&deployment).await;
    let numbers: Vec<i64> = (0..10).collect();
    assert_stats(&server, &ids, 500, &numbers, json!([])).await;
    assert_stats(&server, &ids, 7, &numbers[3..], json!([])).await;
    server.advance_projections(&ids).await;
    assert_stats(&server, &ids, 7, &numbers[3..], json!([])).await;
    let none = server.data("{ stepStats(path: \"none\") { executions from to steps { name } } }", Value::Null).await;
    assert_eq!(none["stepStats"], json!({ "executions": 0, "from": null, "to": null, "steps": [] }));
}

#[tokio::test]
async fn a_shard_that_is_down_is_named_in_the_statistics_of_steps() {
    let deployment = Deployment::start(2).await;
    let ids = written(&deployment).await;
    let dead = format!("{},postgres://noetl@127.0.0.1:1/none", deployment.shard_dsns[0]);
    let server = deployment.replica_with(&[("NOETL_SHARDS", &dead), NO_RELAY]).await;
    assert_stats(&server, &ids, 100, &[0, 2, 4, 6, 8], json!([1])).await;
}
