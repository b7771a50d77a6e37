//! Reads of an execution's state are always exact: with any stored snapshot, with late commits, during concurrent
//! advances, and after crashes.

use std::time::Duration;

use futures::future::join_all;
use noetl_domain::projection::SHAPE;
use noetl_domain::tenant::Scope;
use noetl_storage::error::DatabaseName;
use noetl_storage::pools::Database;
use noetl_storage::snapshots;
use noetl_testkit::projections::{ADVANCE_PROJECTIONS, NO_PROJECTOR_NO_STREAM, insert_step_event};
use noetl_testkit::{Deployment, Server, WAIT_TIMEOUT, eventually};
use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, Connection, PgConnection};

/// An execution on a server without projector, so that only the test advances it.
struct Setup {
    deployment: Deployment,
    server: Server,
    shard: PgConnection,
    id: i64,
}

async fn setup() -> Setup {
    let deployment = Deployment::start(0).await;
    let server = deployment.replica_without_projector().await;
    let id = server.start_execution().await;
    let shard = deployment.shard(0).await;
    Setup { deployment, server, shard, id }
}

/// Writes the events of a loop with 100 expected iterations, of which the given number is issued.
async fn write_loop(shard: &mut PgConnection, id: i64, iterations: i64) {
    insert_step_event(&mut *shard, id, 100, "step.enter", "{}", r#"{"iterations_expected": 100}"#).await;
    for n in 0..iterations {
        insert_step_event(&mut *shard, id, 101 + n, "command.issued", &format!(r#"{{"command_id": "i{n}"}}"#), "{}")
            .await;
    }
}

impl Setup {
    /// Starts another execution.
    async fn start_next(&mut self) {
        self.id = self.server.start_execution().await;
    }

    async fn state(&self) -> Value {
        self.server.execution_state(self.id).await
    }

    async fn advance(&self) -> Value {
        let payload = self.server.advance_projections(&[self.id]).await;
        assert_eq!(payload["failed"], json!([]), "{payload}");
        payload["advanced"][0].clone()
    }

    /// Returns the state after a rebuild from the whole log.
    async fn rebuilt(&mut self) -> Value {
        run(&mut self.shard, "DELETE FROM noetl.projection_snapshot").await;
        let mut state = self.state().await;
        assert_eq!(state["snapshot"], Value::Null);
        state.as_object_mut().unwrap().remove("snapshot");
        state
    }

    async fn change_snapshot(&mut self, set: &str) {
        let change = format!("UPDATE noetl.projection_snapshot SET {set} WHERE aggregate_id = '{}'", self.id);
        run(&mut self.shard, &change).await;
    }

    async fn ignored(&self, reason: &str) -> f64 {
        let text = self.server.get("/metrics").await.unwrap().text().await.unwrap();
        let name = format!("noetl_snapshots_ignored_total{{reason=\"{reason}\"}} ");
        text.lines().find_map(|line| line.strip_prefix(&name)).map_or(0.0, |value| value.parse().unwrap())
    }
}

async fn run(shard: &mut PgConnection, statement: &str) {
    sqlx::query(AssertSqlSafe(statement.to_owned())).execute(shard).await.unwrap();
}

fn iterations(state: &Value) -> (i64, i64) {
    let iterations = &state["steps"]["nodes"][0]["iterations"];
    (iterations["dispatched"].as_i64().unwrap(), iterations["completed"].as_i64().unwrap())
}

#[tokio::test]
async fn reads_and_stored_states_are_exact_with_any_snapshot() {
    let mut it = setup().await;
    a_worker_reads_its_own_writes_before_and_after_they_are_advanced(&mut it).await;
    it.start_next().await;
    a_snapshot_of_noetl_is_neither_read_nor_changed(&mut it).await;
    it.start_next().await;
    the_next_read_includes_events_with_small_ids_and_late_commits(&mut it).await;
    it.start_next().await;
    a_snapshot_that_is_altered_or_of_another_shape_or_database_is_ignored(&mut it).await;
    it.start_next().await;
    routing_meta_of_other_servers_is_kept_when_a_snapshot_is_saved(&mut it).await;
    it.start_next().await;
    an_older_snapshot_never_overwrites_a_newer_one(&mut it).await;
    it.start_next().await;
    values_beyond_json_limits_are_kept_as_text(&mut it).await;
    it.start_next().await;
    each_execution_of_an_advance_request_fails_or_succeeds_separately(&it).await;
    it.start_next().await;
    the_list_shows_advanced_states_and_shows_endings_immediately(&mut it).await;
    a_snapshot_has_the_routing_of_the_execution(&it.server, &mut it.shard).await;
}

/// A read has all committed events, whether they are advanced or not.
async fn a_worker_reads_its_own_writes_before_and_after_they_are_advanced(it: &mut Setup) {
    write_loop(&mut it.shard, it.id, 3).await;
    let fresh = it.state().await;
    assert_eq!((iterations(&fresh), &fresh["snapshot"]), ((3, 0), &Value::Null), "{fresh}");

    let advanced = it.advance().await;
    assert_eq!((&advanced["appliedCount"], &advanced["folded"]), (&json!("5"), &json!("5")));
    assert_eq!(advanced["version"], json!((it.id + 103).to_string()));
    let stored = it.state().await;
    let snapshot = &stored["snapshot"];
    assert_eq!((&snapshot["behindBy"], &snapshot["schemaVersion"]), (&json!("0"), &json!(SHAPE)));
    assert_eq!(it.advance().await["folded"], json!("0"), "no event is left to fold");

    insert_step_event(&mut it.shard, it.id, 110, "command.completed", r#"{"command_id": "i1"}"#, "{}").await;
    insert_step_event(&mut it.shard, it.id, 111, "ctx.updated", "{}", r#"{"values": {"page": 2}}"#).await;
    insert_step_event(&mut it.shard, it.id, 112, "playbook.failed", "{}", r#"{"error": "no rows"}"#).await;
    let after = it.state().await;
    assert_eq!(after["snapshot"]["behindBy"], json!("3"));
    assert_eq!((iterations(&after), &after["context"]), ((3, 1), &json!({ "page": 2 })));
    assert_eq!((&after["status"], &after["error"]), (&json!("FAILED"), &json!("no rows")));
    assert!(after["endedAt"].is_string());
    let advanced = it.advance().await;
    assert_eq!((&advanced["appliedCount"], &advanced["folded"]), (&json!("8"), &json!("3")));
}

/// NoETL keeps its own snapshot of an execution in the same table, with another shape.
async fn a_snapshot_of_noetl_is_neither_read_nor_changed(it: &mut Setup) {
    let theirs = "SELECT version, snapshot::text, checksum, updated_at::text FROM noetl.projection_snapshot
                  WHERE aggregate_type = 'orchestrator_workflow_state'";
    let insert = format!(
        r#"INSERT INTO noetl.projection_snapshot (aggregate_id, aggregate_type, version, snapshot, checksum)
           VALUES ('{}', 'orchestrator_workflow_state', 9000000000000000000, '{{"status": "FAILED"}}', 'x')"#,
        it.id,
    );
    run(&mut it.shard, &insert).await;
    let stored: (i64, String, String, String) = sqlx::query_as(theirs).fetch_one(&mut it.shard).await.unwrap();
    assert_eq!((&it.state().await["status"], it.ignored("shape").await), (&json!("PENDING"), 0.0));
    insert_step_event(&mut it.shard, it.id, 5, "playbook.completed", "{}", "{}").await;
    it.advance().await;
    let state = it.state().await;
    assert_eq!((&state["status"], &state["snapshot"]["behindBy"]), (&json!("COMPLETED"), &json!("0")));
    let kept: (i64, String, String, String) = sqlx::query_as(theirs).fetch_one(&mut it.shard).await.unwrap();
    assert_eq!(kept, stored);
}

/// The row of an execution has its advanced state, and its end before that.
async fn the_list_shows_advanced_states_and_shows_endings_immediately(it: &mut Setup) {
    let list = "{ executions(first: 5) { nodes { id status endedAt error } } }";
    let id = it.id;
    let stored = async |shard: &mut PgConnection| -> (String, Option<String>) {
        let row = "SELECT status, last_event_type FROM noetl.execution WHERE execution_id = $1";
        sqlx::query_as(row).bind(id).fetch_one(shard).await.unwrap()
    };
    insert_step_event(&mut it.shard, it.id, 5, "playbook.completed", "{}", "{}").await;
    let listed = it.server.data(list, json!({})).await["executions"]["nodes"][0].take();
    assert_eq!((&listed["id"], &listed["status"]), (&json!(id.to_string()), &json!("COMPLETED")));
    assert_eq!(stored(&mut it.shard).await.0, "PENDING");
    it.advance().await;
    assert_eq!(stored(&mut it.shard).await, ("COMPLETED".to_owned(), Some("playbook.completed".to_owned())));

    // An execution that another server started is read from its log, and gets a row when it is advanced.
    let other = it.id + 1_000_000;
    insert_step_event(&mut it.shard, other, 1, "playbook_started", "{}", r#"{"path": "theirs", "workload": {"x": 1}}"#)
        .await;
    let query = "query($id: ID!) { execution(id: $id) { path status startedAt workload } }";
    let theirs = async || it.server.data(query, json!({ "id": other.to_string() })).await["execution"].clone();
    let unlisted = theirs().await;
    assert_eq!((&unlisted["path"], &unlisted["status"]), (&json!("theirs"), &json!("PENDING")));
    assert!(unlisted["startedAt"].is_string());
    assert_eq!(it.server.advance_projections(&[other]).await["failed"], json!([]));
    assert_eq!(theirs().await, unlisted);

    // The catalog entry is taken from the start event, even if that event comes last.
    let reversed = it.id + 2_000_000;
    insert_step_event(&mut it.shard, reversed, 2, "step.enter", "{}", "{}").await;
    it.server.advance_projections(&[reversed]).await;
    insert_step_event(&mut it.shard, reversed, 1, "playbook_started", "{}", r#"{"path": "run"}"#).await;
    run(
        &mut it.shard,
        "UPDATE noetl.event SET catalog_id = (SELECT min(catalog_id) FROM noetl.catalog) WHERE catalog_id = 0",
    )
    .await;
    it.server.advance_projections(&[reversed]).await;
    let query = "query($id: ID!) { execution(id: $id) { catalogEntry { path } } }";
    let found = it.server.data(query, json!({ "id": reversed.to_string() })).await["execution"].clone();
    assert_eq!(found["catalogEntry"]["path"], json!("run"));
}

/// A read has each event that was committed before it, in whatever order.
async fn the_next_read_includes_events_with_small_ids_and_late_commits(it: &mut Setup) {
    // This transaction begins before all others and commits after the snapshot was stored.
    let mut early = it.deployment.shard(0).await;
    let mut late = early.begin().await.unwrap();
    insert_step_event(&mut *late, it.id, 150, "command.completed", r#"{"command_id": "i0"}"#, "{}").await;
    let mut other = it.deployment.shard(0).await;
    let mut rolled_back = other.begin().await.unwrap();
    insert_step_event(&mut *rolled_back, it.id, 151, "command.completed", r#"{"command_id": "i1"}"#, "{}").await;

    write_loop(&mut it.shard, it.id, 3).await;
    it.advance().await;
    // The ids of these events are far below the snapshot's version.
    insert_step_event(&mut it.shard, it.id, 2, "ctx.updated", "{}", r#"{"values": {"page": 1}}"#).await;
    let behind = it.state().await;
    assert_eq!((iterations(&behind), &behind["context"]), ((3, 0), &json!({ "page": 1 })));
    late.commit().await.unwrap();
    rolled_back.rollback().await.unwrap();
    let after = it.state().await;
    assert_eq!((iterations(&after), &after["snapshot"]["behindBy"]), ((3, 1), &json!("2")));
    assert_eq!(it.advance().await["appliedCount"], json!("7"));
    let mut advanced = it.state().await;
    advanced.as_object_mut().unwrap().remove("snapshot");
    assert_eq!(advanced, it.rebuilt().await);
}

/// A snapshot that this server did not store as it is counts as absent.
async fn a_snapshot_that_is_altered_or_of_another_shape_or_database_is_ignored(it: &mut Setup) {
    write_loop(&mut it.shard, it.id, 2).await;
    for (set, reason) in [
        (r#"snapshot = replace(snapshot::text, '"i1"', '"i2"')::jsonb"#, "checksum"),
        ("version = version + 1", "checksum"),
        (r#"meta = jsonb_set(meta, '{as_of}', '"999999999:999999999:"')"#, "checksum"),
        (r#"meta = jsonb_set(meta, '{as_of}', '"nonsense"')"#, "checksum"),
        ("meta = jsonb_set(meta, '{applied_count}', '1')", "checksum"),
        ("meta = jsonb_set(meta, '{schema}', '99')", "shape"),
        (r#"meta = '{"routing_meta": {"kept": true}}'"#, "shape"),
        (r#"meta = jsonb_set(meta, '{system}', '"1"')"#, "other_database"),
    ] {
        it.advance().await;
        let good = it.state().await;
        it.change_snapshot(set).await;
        let before = it.ignored(reason).await;
        let state = it.state().await;
        assert_eq!((&state["steps"]["nodes"], &state["snapshot"]), (&good["steps"]["nodes"], &Value::Null), "{set}");
        assert!(it.ignored(reason).await > before, "{set} is not counted");
        // The next advance stores a valid snapshot.
        let advanced = it.advance().await;
        assert_eq!(advanced["folded"], advanced["appliedCount"], "{set}");
        assert_eq!(it.state().await["snapshot"]["behindBy"], json!("0"), "{set}");
    }
}

/// What NoETL stores beside a snapshot stays.
async fn routing_meta_of_other_servers_is_kept_when_a_snapshot_is_saved(it: &mut Setup) {
    it.advance().await;
    it.change_snapshot(r#"meta = meta || '{"routing_meta": {"kept": true}}'"#).await;
    write_loop(&mut it.shard, it.id, 1).await;
    it.advance().await;
    let kept = "SELECT meta -> 'routing_meta' FROM noetl.projection_snapshot WHERE aggregate_id = $1";
    let read: Value = sqlx::query_scalar(kept).bind(it.id.to_string()).fetch_one(&mut it.shard).await.unwrap();
    assert_eq!(read, json!({ "kept": true }));
    // Also when the snapshot itself is ignored and replaced.
    it.change_snapshot("meta = meta - 'schema'").await;
    it.advance().await;
    let read: Value = sqlx::query_scalar(kept).bind(it.id.to_string()).fetch_one(&mut it.shard).await.unwrap();
    assert_eq!(read, json!({ "kept": true }));
    assert_eq!(it.state().await["snapshot"]["behindBy"], json!("0"));
}

/// The stored snapshot and the status in the list never go back.
async fn an_older_snapshot_never_overwrites_a_newer_one(it: &mut Setup) {
    let options = it.deployment.shard_dsns[0].parse().unwrap();
    let slow = Database::new(DatabaseName::Cluster, options, 2);
    write_loop(&mut it.shard, it.id, 1).await;
    let older = snapshots::read(&slow, &Scope::Unrestricted, &[it.id], WAIT_TIMEOUT).await.unwrap();
    // The stored snapshot has the same version but is from a later moment.
    insert_step_event(&mut it.shard, it.id, 50, "ctx.updated", "{}", r#"{"values": {"page": 1}}"#).await;
    it.advance().await;
    let standing = it.state().await;
    snapshots::save(&slow, &older).await.unwrap();
    assert_eq!(it.state().await, standing);

    // The older snapshot does not include a cancellation. Saving it must not change the list's status back.
    let older = snapshots::read(&slow, &Scope::Unrestricted, &[it.id], WAIT_TIMEOUT).await.unwrap();
    let cancel = "mutation($id: ID!) { cancelExecution(input: {executionId: $id}) { userErrors { message } } }";
    it.server.data(cancel, json!({ "id": it.id.to_string() })).await;
    snapshots::save(&slow, &older).await.unwrap();
    let listed = "SELECT status FROM noetl.execution WHERE execution_id = $1";
    let listed: String = sqlx::query_scalar(listed).bind(it.id).fetch_one(&mut it.shard).await.unwrap();
    assert_eq!(listed, "CANCELLED");
}

#[tokio::test]
async fn concurrent_writers_and_advances_end_in_one_exact_state() {
    const WRITERS: i64 = 4;
    const EVENTS: i64 = 40;
    let mut it = setup().await;
    write_loop(&mut it.shard, it.id, 0).await;
    let writers = join_all((0..WRITERS).map(async |writer| {
        let mut shard = it.deployment.shard(0).await;
        for n in 0..EVENTS {
            let command = format!(r#"{{"command_id": "w{writer}-{n}"}}"#);
            let mut tx = shard.begin().await.unwrap();
            // Event ids of different writers interleave, and the ids of one writer are not in order.
            let offset = 1000 + ((n * 37) % EVENTS) * WRITERS + writer;
            insert_step_event(&mut *tx, it.id, offset, "command.completed", &command, "{}").await;
            tx.commit().await.unwrap();
        }
    }));
    let second = it.deployment.replica_without_projector().await;
    let (server, id) = (&it.server, it.id);
    let advancers = join_all([server, &second, server, &second].map(async |replica| {
        let mut last = 0;
        for _ in 0..20 {
            let payload = replica.advance_projections(&[id]).await;
            assert_eq!(payload["failed"], json!([]));
            let state = replica.execution_state(id).await;
            let applied: i64 = state["snapshot"]["appliedCount"].as_str().unwrap().parse().unwrap();
            assert!(applied >= last, "a stored state went back");
            last = applied;
        }
    }));
    tokio::join!(writers, advancers);
    let advanced = it.advance().await;
    assert_eq!(advanced["appliedCount"], json!((2 + WRITERS * EVENTS).to_string()), "each event is applied once");
    let mut stored = it.state().await;
    stored.as_object_mut().unwrap().remove("snapshot");
    assert_eq!(iterations(&stored), (WRITERS * EVENTS, WRITERS * EVENTS));
    assert_eq!(stored, it.rebuilt().await);
}

/// An execution that can not be advanced affects no other one of the request.
async fn each_execution_of_an_advance_request_fails_or_succeeds_separately(it: &Setup) {
    let inbox = it.server.subscribe("inbox").await;
    let payload = it.server.advance_projections(&[it.id, it.id, 12345, inbox.parse().unwrap()]).await;
    assert_eq!(payload["advanced"].as_array().unwrap().len(), 2, "a repeated id has a result each time: {payload}");
    let failed = payload["failed"].as_array().unwrap();
    assert_eq!(failed.iter().map(|one| &one["code"]).collect::<Vec<_>>(), ["NOT_FOUND", "NOT_FOUND"]);

    // A malformed id refuses only itself.
    let advance = async |ids: Value| {
        it.server.data(ADVANCE_PROJECTIONS, json!({ "ids": ids })).await["advanceProjections"].clone()
    };
    let mixed = advance(json!(["x", it.id.to_string(), "-1", "12345"])).await;
    let outcome = |result: &Value| {
        let error = &result["userErrors"][0];
        json!([result["index"], result["executionId"], result["advanced"].is_object(), error["code"], error["field"]])
    };
    let outcomes: Vec<Value> = mixed["results"].as_array().unwrap().iter().map(outcome).collect();
    let expected = [
        json!([0, "x", false, "INVALID_INPUT", ["executionIds", "0"]]),
        json!([1, it.id.to_string(), true, null, null]),
        json!([2, "-1", false, "INVALID_INPUT", ["executionIds", "2"]]),
        json!([3, "12345", false, "NOT_FOUND", ["executionIds", "3"]]),
    ];
    assert_eq!((outcomes, &mixed["userErrors"]), (expected.to_vec(), &json!([])));
    assert_eq!(advance(json!(["x"])).await["results"].as_array().unwrap().len(), 1);

    let many: Vec<String> = (1..=1001).map(|id: i64| id.to_string()).collect();
    for ids in [json!([]), json!(many), json!(vec!["x"; 1001]), json!(vec!["5"; 1001])] {
        let refused = advance(ids).await;
        let expected = json!([{ "code": "INVALID_INPUT", "field": ["executionIds"] }]);
        assert_eq!((&refused["userErrors"], &refused["results"]), (&expected, &json!([])));
    }
    let many: Vec<i64> = (1..=1000).collect();
    assert_eq!(it.server.advance_projections(&many).await["failed"].as_array().unwrap().len(), 1000);
}

/// A value that JSON numbers or nesting can not express is read and stored.
async fn values_beyond_json_limits_are_kept_as_text(it: &mut Setup) {
    let deep = format!("{}1{}", "[".repeat(300), "]".repeat(300));
    insert_step_event(&mut it.shard, it.id, 2, "ctx.updated", "{}", &format!(r#"{{"values": {{"deep": {deep}}}}}"#))
        .await;
    insert_step_event(&mut it.shard, it.id, 3, "ctx.updated", "{}", r#"{"values": {"plain": 1.7976931348623157e308}}"#)
        .await;
    insert_step_event(&mut it.shard, it.id, 4, "ctx.updated", "{}", r#"{"values": {"huge": 1e400}}"#).await;
    insert_step_event(&mut it.shard, it.id, 5, "call.done", "{}", "{}").await;
    let change = "UPDATE noetl.event SET created_at = 'infinity', result = '1e400'
                  WHERE event_type = 'call.done' AND execution_id = $1";
    sqlx::query(change).bind(it.id).execute(&mut it.shard).await.unwrap();
    for _ in 0..2 {
        let state = it.state().await;
        assert_eq!(state["context"]["plain"], json!(1.797_693_134_862_315_7e308));
        assert_eq!(state["steps"]["nodes"][0]["name"], json!("a"));
        assert!(state["steps"]["nodes"][0]["result"].as_str().unwrap().starts_with("1000"));
        it.advance().await;
    }
    assert_eq!(it.state().await["snapshot"]["behindBy"], json!("0"), "the state was not stored and loaded");
}

#[tokio::test]
async fn a_process_killed_during_an_advance_leaves_an_exact_state() {
    let mut it = setup().await;
    write_loop(&mut it.shard, it.id, 5).await;
    let settings = [NO_PROJECTOR_NO_STREAM[0], NO_PROJECTOR_NO_STREAM[1], ("NOETL_FAULT_POINT", "advance.read")];
    let mut doomed = it.deployment.replica_with(&settings).await;
    assert!(doomed.send(ADVANCE_PROJECTIONS, json!({ "ids": [it.id.to_string()] })).await.is_err());
    assert!(!doomed.ended().await.success());
    assert_eq!(it.state().await["snapshot"], Value::Null);
    assert_eq!(it.advance().await["appliedCount"], json!("7"));

    // The process is also killed at random times. The stored state must be exact each time.
    for round in 0..6_u64 {
        let mut doomed = it.deployment.replica_without_projector().await;
        let offset = 300 + i64::try_from(round).unwrap();
        let command = format!(r#"{{"command_id": "k{round}"}}"#);
        insert_step_event(&mut it.shard, it.id, offset, "command.completed", &command, "{}").await;
        let ids = json!({ "ids": [it.id.to_string()] });
        let asked = doomed.send(ADVANCE_PROJECTIONS, ids);
        let kill = tokio::time::timeout(Duration::from_millis(round), asked);
        drop(kill.await);
        doomed.kill_9().await;
        let (dispatched, completed) = iterations(&it.state().await);
        assert_eq!((dispatched, completed), (6 + i64::try_from(round).unwrap(), 1 + i64::try_from(round).unwrap()));
    }
    eventually("the locks of the killed processes are released", async || {
        let waiting = it.server.advance_projections(&[it.id]).await;
        (waiting["failed"] == json!([])).then_some(())
    })
    .await;
    let mut stored = it.state().await;
    stored.as_object_mut().unwrap().remove("snapshot");
    assert_eq!(stored, it.rebuilt().await);
}

/// The snapshot of an execution has the routing of its started event, also if that comes last.
async fn a_snapshot_has_the_routing_of_the_execution(server: &Server, shard: &mut PgConnection) {
    server.register_entry("run", &json!({ "kind": "playbook" })).await;
    let trace = json!({ "traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01" });
    let started = server.execute(json!({ "path": "run", "executionPool": "gpu", "trace": trace })).await;
    let id: i64 = started["execution"]["id"].as_str().unwrap().parse().unwrap();
    let meta = "SELECT meta FROM noetl.event WHERE event_type = 'playbook_started' AND execution_id = $1";
    let meta: Value = sqlx::query_scalar(meta).bind(id).fetch_one(&mut *shard).await.unwrap();
    assert_eq!((&meta["execution_pool"], &meta["trace"]), (&json!("gpu"), &trace));
    let routing = "SELECT meta -> 'routing_meta' FROM noetl.projection_snapshot WHERE aggregate_id = $1";
    for offset in [100, 200] {
        server.advance_projections(&[id]).await;
        let stored: Value = sqlx::query_scalar(routing).bind(id.to_string()).fetch_one(&mut *shard).await.unwrap();
        assert_eq!(stored, meta);
        insert_step_event(&mut *shard, id, offset, "step.enter", "{}", "{}").await;
    }
    // An execution whose start is not in the log yet.
    insert_step_event(&mut *shard, 77, 1, "step.enter", "{}", "{}").await;
    server.advance_projections(&[77]).await;
    let stored: Option<Value> = sqlx::query_scalar(routing).bind("77").fetch_one(&mut *shard).await.unwrap();
    assert_eq!(stored, None);
    let start = "INSERT INTO noetl.event (execution_id, event_id, event_type, meta)
                 VALUES (77, 70, 'playbook_started', '{\"execution_pool\": \"cpu\"}')";
    run(shard, start).await;
    server.advance_projections(&[77]).await;
    let stored: Option<Value> = sqlx::query_scalar(routing).bind("77").fetch_one(&mut *shard).await.unwrap();
    assert_eq!(stored, Some(json!({ "execution_pool": "cpu" })));
}
