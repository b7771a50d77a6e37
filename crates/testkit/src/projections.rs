//! Executions, their events, and the states that are projected from these.

use serde_json::{Value, json};
use sqlx::{Executor, PgConnection, Postgres};

use super::{Deployment, Server, eventually};

/// Settings that turn the projector and the event stream off. Then only the test advances projections, and once, when a
/// server has started, the fill of the executions' list ([`Deployment::replica_without_projector`] waits for it).
pub const NO_PROJECTOR_NO_STREAM: [(&str, &str); 2] =
    [("NOETL_PROJECTOR", "false"), ("NOETL_EVENT_STREAM_ENABLED", "false")];

const STATE: &str = "query($id: ID!) { execution(id: $id) {
    status endedAt error context
    steps { nodes { name status attempt error result iterations { expected dispatched completed } } }
    snapshot { version appliedCount checksum schemaVersion behindBy }
} }";

/// Operation that advances projections. It has the variable `ids`.
pub const ADVANCE_PROJECTIONS: &str = "mutation($ids: [ID!]!) { advanceProjections(input: {executionIds: $ids}) {
    results { index executionId advanced { version appliedCount folded } userErrors { code message field retryable } }
    userErrors { code field }
} }";

impl Deployment {
    /// Starts a server that never advances an execution by itself: it has no projector, and its fill of the executions'
    /// list has ended.
    pub async fn replica_without_projector(&self) -> Server {
        let server = self.replica_with(&NO_PROJECTOR_NO_STREAM).await;
        for shard in 0..self.shard_dsns.len() {
            fill_has_ended(&mut *self.shard_session(shard).await).await;
        }
        server
    }

    /// Returns the number of events of executions that no projector has projected, over all shards.
    pub async fn unprojected(&self) -> i64 {
        let events = "SELECT count(*) FROM noetl.event, noetl.projection_cursor
                      WHERE (NOT pg_visible_in_snapshot(tx_id, done) OR execution_id = ANY (deferred))
                        AND event_type NOT LIKE 'subscription.%'";
        self.sum_over_shards(events).await
    }

    /// Waits until the projectors have projected all events.
    pub async fn until_projected(&self) {
        eventually("all events are projected", async || (self.unprojected().await == 0).then_some(())).await;
    }
}

impl Server {
    /// Registers a playbook, starts an execution of it, and returns the execution's id.
    pub async fn start_execution(&self) -> i64 {
        self.register_entry("run", &json!({ "kind": "playbook" })).await;
        self.started(json!({ "path": "run" })).await.parse().unwrap()
    }

    /// Returns the state of an execution and its snapshot. The state is null if the execution is unknown.
    pub async fn execution_state(&self, id: i64) -> Value {
        self.data(STATE, json!({ "id": id.to_string() })).await["execution"].clone()
    }

    /// Advances the projections of executions. Returns the states that are stored as `advanced`, and the errors of the
    /// other executions as `failed`.
    pub async fn advance_projections(&self, ids: &[i64]) -> Value {
        let ids: Vec<String> = ids.iter().map(i64::to_string).collect();
        let payload = self.data(ADVANCE_PROJECTIONS, json!({ "ids": ids })).await["advanceProjections"].take();
        assert_eq!(payload["userErrors"], json!([]), "{payload}");
        let (mut advanced, mut failed) = (Vec::new(), Vec::new());
        for result in payload["results"].as_array().unwrap() {
            let (into, from) = match result["userErrors"].get(0) {
                Some(error) => (&mut failed, error),
                None => (&mut advanced, &result["advanced"]),
            };
            let mut outcome = from.clone();
            outcome["executionId"] = result["executionId"].clone();
            into.push(outcome);
        }
        json!({ "advanced": advanced, "failed": failed })
    }
}

/// Waits until the fill of the executions' list has ended, so that it stores no row of a log that is written later.
pub async fn fill_has_ended(database: &mut PgConnection) {
    eventually("the fill of the list has ended", async || {
        let ended = sqlx::query_scalar("SELECT ended_at IS NOT NULL FROM noetl.read_model_fill");
        let ended: Option<bool> = ended.fetch_optional(&mut *database).await.unwrap();
        (ended == Some(true)).then_some(())
    })
    .await;
}

/// Inserts an event of the step `a`, as another server does. The event id is the execution id plus `offset`; `meta` and
/// `context` are JSON.
pub async fn insert_step_event(
    to: impl Executor<'_, Database = Postgres>,
    execution: i64,
    offset: i64,
    event_type: &str,
    meta: &str,
    context: &str,
) {
    sqlx::query(
        "INSERT INTO noetl.event (execution_id, event_id, event_type, node_name, meta, context)
         VALUES ($1, $1 + $2, $3, 'a', $4::jsonb, $5::jsonb)",
    )
    .bind(execution)
    .bind(offset)
    .bind(event_type)
    .bind(meta)
    .bind(context)
    .execute(to)
    .await
    .unwrap();
}
