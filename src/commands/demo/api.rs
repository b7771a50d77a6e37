//! The operations of the public API that the demo uses.

use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

use super::super::client::{Client, ClientError, refusal};
use super::source::Message;
use plain_json::{self as json, Typed};

/// A source subscription.
#[derive(Debug, Deserialize)]
pub(super) struct Subscription {
    pub(super) id: String,
    pub(super) status: String,
}

/// A source subscription with the settings of its document that the demo obeys.
#[derive(Debug, Deserialize)]
pub(super) struct Registered {
    #[serde(flatten)]
    pub(super) subscription: Subscription,
    #[serde(default)]
    pub(super) spec: Option<Spec>,
}

/// Settings in the document of a source subscription.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Spec {
    pub(super) dispatch: Dispatch,
    pub(super) limits: Limits,
}

/// Start of the executions.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Dispatch {
    pub(super) playbook: Option<String>,
}

/// Limits of a runtime.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Limits {
    pub(super) max_in_flight: Option<usize>,
    pub(super) max_dispatch_per_second: Option<u32>,
}

/// The parts of an execution that a worker reads.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Run {
    pub(super) id: String,
    pub(super) status: String,
    #[serde(default, deserialize_with = "json::value")]
    pub(super) workload: Value,
    #[serde(rename = "catalogEntry", deserialize_with = "workflow")]
    pub(super) workflow: Value,
    steps: Steps,
}

#[derive(Debug, Deserialize)]
struct Steps {
    nodes: Vec<StepState>,
}

#[derive(Debug, Deserialize)]
struct StepState {
    name: String,
    status: String,
}

/// Deserializes a catalog entry to its steps.
fn workflow<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Value, D::Error> {
    Ok(json::value(deserializer)?["document"]["workflow"].take())
}

impl Run {
    /// Returns whether a step is completed or skipped.
    pub(super) fn has_done(&self, name: &str) -> bool {
        let done = |step: &StepState| step.name == name && ["COMPLETED", "SKIPPED"].contains(&step.status.as_str());
        self.steps.nodes.iter().any(done)
    }
}

/// Returns whether an execution with this status has ended.
pub(super) fn has_ended(status: &str) -> bool {
    !["PENDING", "RUNNING"].contains(&status)
}

/// The operations of the demo.
pub(super) struct Api(pub(super) Client);

impl Api {
    pub(super) async fn register(&self, path: &str) -> Result<Registered, ClientError> {
        let query = "mutation Register($path: String!) { done: registerSubscription(input: {path: $path}) {
            result: subscription {
                id status spec { dispatch { playbook } limits { maxInFlight maxDispatchPerSecond } }
            } userErrors { message retryable } } }";
        self.mutate(query, json!({ "path": path })).await
    }

    pub(super) async fn transition(&self, action: &str, id: &str) -> Result<Subscription, ClientError> {
        let query = format!(
            "mutation Transition($id: ID!) {{ done: {action}Subscription(input: {{subscriptionId: $id}}) {{
                result: subscription {{ id status }} userErrors {{ message retryable }} }} }}"
        );
        self.mutate(&query, json!({ "id": id })).await
    }

    pub(super) async fn subscription(&self, id: &str) -> Result<Subscription, ClientError> {
        let query = "query State($id: ID!) { result: subscription(by: {id: $id}) { id status } }";
        read(self.0.send(query, json!({ "id": id })).await?)
    }

    /// Starts the execution of a message, or returns the one that has its dedup key already, in its current state. Also
    /// returns whether it is a duplicate: an earlier request started it.
    pub(super) async fn execute(
        &self,
        playbook: &str,
        subscription: &str,
        message: &Message,
    ) -> Result<(Run, bool), ClientError> {
        let query = "mutation Execute($input: ExecuteInput!) { done: execute(input: $input) {
            result: execution {
                id status workload catalogEntry { document } steps(first: 100) { nodes { name status } }
            } outcome userErrors { message retryable } } }";
        let input = json!({
            "entry": { "path": playbook },
            "parentExecutionId": subscription,
            "workload": { "order": message.body },
            "dedup": { "key": message.id },
        });
        let mut data = self.0.send(query, json!({ "input": input })).await?;
        let duplicate = data["done"]["outcome"] == "DUPLICATE";
        Ok((read(data["done"].take())?, duplicate))
    }

    /// Reserves ids for a worker's events.
    pub(super) async fn reserve_event_ids(&self, count: usize) -> Result<Vec<String>, ClientError> {
        let query = "mutation Reserve($count: Int!) { done: reserveEventIds(input: {count: $count}) {
            result: eventIds userErrors { message retryable } } }";
        let EventIds(ids) = self.mutate(query, json!({ "count": count })).await?;
        Ok(ids)
    }

    /// Sends a worker's events of one execution, and returns its status. Duplicates count as sent.
    pub(super) async fn project(&self, events: &[Value]) -> Result<String, ClientError> {
        let query = "mutation Project($events: [EventInput!]!) { done: projectEvents(input: {events: $events}) {
            executions { status } rejected { userErrors { message retryable } } userErrors { message retryable } } }";
        let done = self.0.send(query, json!({ "events": events })).await?["done"].take();
        let error = done["userErrors"].get(0).or_else(|| done["rejected"].get(0)?["userErrors"].get(0));
        if let Some(error) = error {
            return Err(refusal(error));
        }
        let status = done["executions"][0]["status"].as_str();
        status.map(str::to_owned).ok_or_else(|| ClientError::Refused("the execution does not exist".to_owned()))
    }

    pub(super) async fn cancel(&self, id: &str) -> Result<(), ClientError> {
        let query = "mutation Cancel($id: ID!) { done: cancelExecution(input: {executionId: $id, reason: \"demo\"}) {
            userErrors { message retryable } } }";
        check(&self.0.send(query, json!({ "id": id })).await?["done"])
    }

    async fn mutate<T: Typed>(&self, query: &str, variables: Value) -> Result<T, ClientError> {
        read(self.0.send(query, variables).await?["done"].take())
    }
}

#[derive(Debug, Deserialize)]
#[serde(transparent)]
struct EventIds(Vec<String>);

impl Typed for EventIds {}
impl Typed for Registered {}
impl Typed for Run {}
impl Typed for Subscription {}

/// Fails with the first user error of a payload.
fn check(payload: &Value) -> Result<(), ClientError> {
    payload["userErrors"].get(0).map_or(Ok(()), |error| Err(refusal(error)))
}

/// Returns the `result` of a payload, or its first user error.
fn read<T: Typed>(mut payload: Value) -> Result<T, ClientError> {
    check(&payload)?;
    json::fields(payload["result"].take()).map_err(|error| ClientError::Failed(error.to_string()))
}
