//! Access to the outbox through the API and directly in the database.

use async_nats::jetstream;
use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, FromRow};

use super::feed::read_messages;
use super::pages::texts;
use super::{Deployment, Server, eventually};

/// A message that a relay published: id, subject and payload.
pub type RelayedMessage = (String, String, Value);

/// The setting that turns the replica's built-in relay off.
pub const NO_RELAY: (&str, &str) = ("NOETL_OUTBOX_RELAY", "false");

/// A stored outbox row.
#[derive(Debug, Clone, PartialEq, FromRow)]
pub struct Row {
    /// Id of the row.
    pub outbox_id: i64,
    /// Execution of the row, if it has one.
    pub execution_id: Option<i64>,
    /// Status, such as `PENDING`.
    pub status: String,
    /// Number of claims so far.
    pub attempts: i32,
    /// Error of the last failed attempt.
    pub last_error: Option<String>,
    /// Microseconds from the last update until the row is due; the largest number if it is never due.
    pub delay_micros: i64,
}

impl Deployment {
    /// Writes `rows` rows for each of the given executions, in turns.
    pub async fn fill_outbox(&self, shard: usize, executions: &[i64], rows: i64) {
        let insert = "INSERT INTO noetl.outbox (execution_id, event_id, subject, payload)
            SELECT execution, n, 'noetl.executions.test.' || execution,
                   jsonb_build_object('n', n)
            FROM generate_series(1, $2) AS n, unnest($1) AS execution ORDER BY n, execution";
        sqlx::query(insert).bind(executions).bind(rows).execute(&mut *self.shard_session(shard).await).await.unwrap();
    }

    /// Returns the rows of a shard, in outbox order.
    pub async fn outbox(&self, shard: usize) -> Vec<Row> {
        let query = "SELECT outbox_id, execution_id, status, attempts, last_error,
                            CASE WHEN isfinite(available_at)
                                 THEN (extract(epoch FROM available_at - updated_at) * 1000000)::bigint
                                 ELSE 9223372036854775807 END AS delay_micros
                     FROM noetl.outbox ORDER BY outbox_id";
        sqlx::query_as(query).fetch_all(&mut *self.shard_session(shard).await).await.unwrap()
    }

    /// Returns the number of rows on all shards that meet a condition.
    pub async fn outbox_rows(&self, condition: &str) -> i64 {
        self.sum_over_shards(&format!("SELECT count(*) FROM noetl.outbox WHERE {condition}")).await
    }

    /// Returns the messages of a stream to which relays publish.
    pub async fn relayed(&self, stream: &str) -> Vec<RelayedMessage> {
        let context = jetstream::new(async_nats::connect(self.nats.url()).await.unwrap());
        let stream = context.get_stream(stream).await.unwrap();
        let messages = read_messages(&stream).await;
        let read = messages.iter().map(|message| {
            let id = message.headers.as_ref().and_then(|headers| headers.get("Nats-Msg-Id")).unwrap().to_string();
            (id, message.subject.to_string(), serde_json::from_slice(&message.payload).unwrap())
        });
        read.collect()
    }

    /// Waits until this number of rows is marked as published.
    pub async fn until_relayed(&self, rows: i64) {
        eventually("every row is published", async || {
            (self.outbox_rows("status = 'PUBLISHED'").await == rows).then_some(())
        })
        .await;
    }

    /// Expires the leases of all claims. A relay's lease lasts 30 seconds, and no setting changes that.
    pub async fn leases_pass(&self) {
        for shard in 0..self.shard_dsns.len() {
            self.on_shard(shard, "UPDATE noetl.outbox SET lease_until = now() WHERE status = 'IN_FLIGHT'").await;
        }
    }

    /// Deletes all rows of the outbox, so that the ids of the next rows begin at 1 again. The only replica claims a row
    /// with this id on each shard before, so that its low watermarks hide no row that follows.
    pub async fn restart_outbox(&self, server: &Server) {
        const RESTART: &str = "TRUNCATE noetl.outbox RESTART IDENTITY";
        let row = format!("{RESTART}; INSERT INTO noetl.outbox (event_id, payload) VALUES (1, '{{}}')");
        for shard in 0..self.shard_dsns.len() {
            self.on_shard(shard, &row).await;
            eventually("the row with the id 1 is claimed", async || {
                let claimed = server.claim(json!({ "shard": shard })).await;
                (!ids(&claimed).is_empty()).then_some(())
            })
            .await;
            self.on_shard(shard, RESTART).await;
        }
    }

    /// Runs a statement on a shard, without the server.
    pub async fn on_shard(&self, shard: usize, statement: &str) {
        sqlx::raw_sql(AssertSqlSafe(statement)).execute(&mut *self.shard_session(shard).await).await.unwrap();
    }
}

/// Returns the reference that settles a claim.
pub fn reference(claim: &Value) -> Value {
    json!({ "entryId": claim["entryId"], "lease": claim["lease"] })
}

/// Returns the references of all claims of a payload.
pub fn references(payload: &Value) -> Vec<Value> {
    payload["claims"].as_array().unwrap().iter().map(reference).collect()
}

/// Returns the entry ids of a payload's claims.
pub fn ids(payload: &Value) -> Vec<String> {
    texts(&payload["claims"], "entryId")
}

impl Server {
    /// Claims rows and returns the payload. If the input selects none, all rows are selected.
    pub async fn claim(&self, mut input: Value) -> Value {
        if input.get("select").is_none() {
            input["select"] = json!({ "all": true });
        }
        let query = "mutation($input: ClaimOutboxInput!) { claimOutbox(input: $input) {
            claims { entryId lease leaseExpiresAt eventId executionId subject payload payloadCodec attempts }
            unavailableShards userErrors { code message field retryable } } }";
        self.data(query, json!({ "input": input })).await["claimOutbox"].clone()
    }

    /// Marks claims as published. Returns the number of `published` rows, the ids of `stale` ones, and the other errors as
    /// `userErrors`.
    pub async fn published(&self, claims: &[Value]) -> Value {
        let query = "mutation($input: MarkOutboxPublishedInput!) { markOutboxPublished(input: $input) {
            published results { index entryId userErrors { code message field retryable } }
            userErrors { code message field retryable } } }";
        let payload = self.data(query, json!({ "input": { "claims": claims } })).await["markOutboxPublished"].take();
        let mut errors = payload["userErrors"].as_array().unwrap().clone();
        let mut stale = Vec::new();
        for (index, result) in payload["results"].as_array().unwrap().iter().enumerate() {
            assert_eq!(result["index"], index);
            for error in result["userErrors"].as_array().unwrap() {
                if error["code"] == "STALE_LEASE" {
                    stale.push(result["entryId"].clone());
                } else {
                    errors.push(error.clone());
                }
            }
        }
        json!({ "published": payload["published"], "stale": stale, "userErrors": errors })
    }

    /// Marks a claim as failed and returns its result.
    pub async fn failed(&self, claim: &Value, error: &str, max_delay: Option<i64>) -> Value {
        let failure = json!({ "entryId": claim["entryId"], "lease": claim["lease"], "error": error });
        let mut payload = self.failed_batch(&[failure], max_delay).await;
        assert_eq!(payload["userErrors"], json!([]), "{payload}");
        payload["results"][0].take()
    }

    /// Marks claims as failed and returns the payload.
    pub async fn failed_batch(&self, failures: &[Value], max_delay: Option<i64>) -> Value {
        let query = "mutation($input: MarkOutboxFailedInput!) { markOutboxFailed(input: $input) {
            results { index entryId retryInSeconds dead userErrors { code message field retryable } }
            userErrors { code message field retryable } } }";
        let mut input = json!({ "failures": failures });
        if let Some(max_delay) = max_delay {
            input["maxDelaySeconds"] = max_delay.into();
        }
        self.data(query, json!({ "input": input })).await["markOutboxFailed"].take()
    }

    /// Extends the leases of claims and returns the payload.
    pub async fn renewed(&self, claims: &[Value], lease_seconds: i64) -> Value {
        let query = "mutation($input: RenewOutboxLeasesInput!) { renewOutboxLeases(input: $input) {
            results { index entryId leaseExpiresAt userErrors { code message field retryable } }
            userErrors { code message field retryable } } }";
        let input = json!({ "claims": claims, "leaseSeconds": lease_seconds });
        self.data(query, json!({ "input": input })).await["renewOutboxLeases"].take()
    }

    /// Retries failed rows and returns the payload.
    pub async fn retry(&self, filter: Value, dry_run: bool) -> Value {
        let query = "mutation($input: RetryOutboxInput!) { retryOutbox(input: $input) {
            matched retried unavailableShards userErrors { code message field retryable } } }";
        self.data(query, json!({ "input": { "select": { "filter": filter }, "dryRun": dry_run } })).await["retryOutbox"]
            .clone()
    }

    /// Discards DEAD rows and returns the payload.
    pub async fn discard(&self, filter: Value, dry_run: bool) -> Value {
        let query = "mutation($input: DiscardOutboxInput!) { discardOutbox(input: $input) {
            matched discarded unavailableShards userErrors { code message field retryable } } }";
        self.data(query, json!({ "input": { "select": { "filter": filter }, "dryRun": dry_run } })).await["discardOutbox"].clone()
    }
}
