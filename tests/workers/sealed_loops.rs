//! The stored state of a loop does not grow with its completed iterations, and the API shows the loop as before.

use noetl_testkit::{Deployment, Server};
use serde_json::{Value, json};
use sqlx::PgConnection;

const LOOP: &str = "status endedAt error steps { nodes { name status attempt enteredAt startedAt completedAt error
    result iterations { expected dispatched completed failed } } }";

struct Setup {
    server: Server,
    shard: PgConnection,
    _deployment: Deployment,
}

async fn setup() -> Setup {
    let deployment = Deployment::start(0).await;
    let server = deployment.replica_without_projector().await;
    Setup { server, shard: deployment.shard(0).await, _deployment: deployment }
}

/// Id of the last event of an iteration, counted from the execution's id.
fn completion(iteration: i64) -> i64 {
    104 + iteration * 10
}

impl Setup {
    /// Starts an execution whose step `l` is a loop with `expected` iterations, as NoETL's server writes it.
    async fn start_loop(&mut self, expected: i64) -> i64 {
        let id = self.server.start_execution().await;
        let result = json!({ "status": "ENTERED", "context": { "iterations_expected": expected } });
        self.event(id, 50, "step.enter", json!({ "emitted_by": "orchestrator" }), result).await;
        id
    }

    async fn event(&mut self, execution: i64, offset: i64, event_type: &str, meta: Value, result: Value) {
        let insert = "INSERT INTO noetl.event (execution_id, event_id, event_type, node_name, meta, result)
                      VALUES ($1, $1 + $2, $3, 'l', $4, $5)";
        let insert = sqlx::query(insert).bind(execution).bind(offset).bind(event_type).bind(meta).bind(result);
        insert.execute(&mut self.shard).await.unwrap();
    }

    /// Writes all events of these iterations.
    async fn iterate(&mut self, execution: i64, iterations: std::ops::Range<i64>) {
        let insert = "INSERT INTO noetl.event (execution_id, event_id, event_type, node_name, meta, result)
            SELECT $1::bigint, $1::bigint + 100 + n * 10 + k,
                   (ARRAY['command.issued', 'command.claimed', 'command.started', 'call.done', 'command.completed'])[k + 1],
                   'l', jsonb_build_object('command_id', ($1::bigint)::text || ':l:' || ($1::bigint + 100 + n * 10)::text || ':i' || n::text),
                   CASE WHEN k > 2 THEN jsonb_build_object('status', 'success', 'context', jsonb_build_object('n', n)) END
            FROM generate_series($2, $3) AS n, generate_series(0, 4) AS k";
        let insert = sqlx::query(insert).bind(execution).bind(iterations.start).bind(iterations.end - 1);
        insert.execute(&mut self.shard).await.unwrap();
    }

    async fn advance(&self, id: i64) -> i64 {
        let payload = self.server.advance_projections(&[id]).await;
        assert_eq!(payload["failed"], json!([]), "{payload}");
        payload["advanced"][0]["folded"].as_str().unwrap().parse().unwrap()
    }

    /// Returns the size of the stored state in bytes.
    async fn stored_size(&mut self, id: i64) -> i32 {
        let query = "SELECT length(snapshot::text) FROM noetl.projection_snapshot WHERE aggregate_id = $1::text";
        sqlx::query_scalar(query).bind(id).fetch_one(&mut self.shard).await.unwrap()
    }

    async fn shown(&self, id: i64) -> Value {
        let query = format!("query($id: ID!) {{ execution(id: $id) {{ {LOOP} }} }}");
        self.server.data(&query, json!({ "id": id.to_string() })).await["execution"].clone()
    }

    async fn shown_at(&self, id: i64, event: i64) -> Value {
        let query = format!(
            "query($id: ID!, $at: ExecutionMoment!) {{ executionState(executionId: $id, at: $at) {{ {LOOP} }} }}"
        );
        let at = json!({ "eventId": (id + event).to_string() });
        self.server.data(&query, json!({ "id": id.to_string(), "at": at })).await["executionState"].clone()
    }

    /// Returns what is shown after a fold of the whole log.
    async fn rebuilt(&mut self, id: i64) -> Value {
        sqlx::query("DELETE FROM noetl.projection_snapshot").execute(&mut self.shard).await.unwrap();
        self.shown(id).await
    }
}

fn the_loop(shown: &Value) -> &Value {
    &shown["steps"]["nodes"][0]
}

fn counts(shown: &Value) -> [i64; 3] {
    ["expected", "dispatched", "completed"].map(|name| the_loop(shown)["iterations"][name].as_i64().unwrap())
}

#[tokio::test]
async fn a_completed_iteration_leaves_the_state_until_a_late_failure() {
    let mut it = setup().await;
    the_stored_state_of_a_loop_does_not_grow_and_its_results_are_read_from_the_log(&mut it).await;
    a_late_failure_of_a_completed_iteration_is_shown(&mut it).await;
}

/// The size of a state depends neither on the number of iterations nor on their results.
async fn the_stored_state_of_a_loop_does_not_grow_and_its_results_are_read_from_the_log(it: &mut Setup) {
    let mut sizes = Vec::new();
    for iterations in [100, 2_000] {
        let id = it.start_loop(iterations).await;
        it.iterate(id, 0..iterations - 1).await;
        it.advance(id).await;
        let shown = it.shown(id).await;
        assert_eq!(counts(&shown), [iterations, iterations - 1, iterations - 1]);
        assert_eq!(
            (&the_loop(&shown)["status"], &the_loop(&shown)["result"]),
            (&json!("COMMAND_STARTED"), &Value::Null)
        );
        let before = it.stored_size(id).await;
        it.iterate(id, iterations - 1..iterations).await;
        assert_eq!(it.advance(id).await, 5);
        sizes.push((before, it.stored_size(id).await));

        let done = it.shown(id).await;
        assert_eq!((counts(&done), &the_loop(&done)["status"]), ([iterations; 3], &json!("COMPLETED")));
        let results = the_loop(&done)["result"].as_array().unwrap();
        let numbers: Vec<i64> = results.iter().map(|result| result["context"]["n"].as_i64().unwrap()).collect();
        assert_eq!(numbers, (0..iterations).collect::<Vec<_>>());
        assert!(!the_loop(&done)["completedAt"].is_null());
        it.event(id, 1_000_000, "step.enter", json!({ "emitted_by": "orchestrator" }), json!({})).await;
        assert_eq!(the_loop(&it.shown(id).await)["result"], Value::Null, "another run");
        assert_eq!(it.shown_at(id, completion(iterations - 1)).await, done, "a past state has its own results");
        assert_eq!(it.shown_at(id, completion(iterations - 2)).await, shown);
        let now = it.shown(id).await;
        assert_eq!(it.rebuilt(id).await, now);
    }
    assert!(sizes[1].0 <= sizes[0].0 + 100 && sizes[1].1 <= sizes[0].1 + 100, "{sizes:?}");
}

/// An event that contradicts a sealed iteration leads to a fold of the whole log.
async fn a_late_failure_of_a_completed_iteration_is_shown(it: &mut Setup) {
    let id = it.start_loop(3).await;
    it.iterate(id, 0..2).await;
    it.advance(id).await;
    let command = format!("{id}:l:{}:i1", id + 110);
    // A repeated completion changes nothing.
    it.event(id, 900, "command.completed", json!({ "command_id": command }), json!({ "status": "success" })).await;
    assert_eq!(it.advance(id).await, 1);
    assert_eq!(counts(&it.shown(id).await), [3, 2, 2]);
    let failed = json!({ "status": "FAILED", "context": { "error": "no route" } });
    it.event(id, 1000, "command.failed", json!({ "command_id": command }), failed).await;
    let shown = it.shown(id).await;
    assert_eq!((counts(&shown), &the_loop(&shown)["error"]), ([3, 2, 2], &json!("no route")));
    assert_eq!(the_loop(&shown)["iterations"]["failed"], json!(1));
    assert_eq!(it.advance(id).await, 14, "the whole log is folded");
    let stored = it.shown(id).await;
    assert_eq!((the_loop(&stored), &stored["status"]), (the_loop(&shown), &json!("FAILED")));
    assert_eq!(it.rebuilt(id).await, stored);
    let metrics = it.server.get("/metrics").await.unwrap().text().await.unwrap();
    assert!(metrics.contains(r#"noetl_snapshots_ignored_total{reason="contradicted"}"#));
}
