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

/// The execution of a message; `duplicate`: an earlier request started it.
#[derive(Debug)]
pub(super) struct Executed {
    pub(super) id: String,
    pub(super) duplicate: bool,
}

/// The parts of an execution that a worker reads.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Run {
    pub(super) id: String,
    status: String,
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
    /// Returns whether the execution has ended.
    pub(super) fn has_ended(&self) -> bool {
        !["PENDING", "RUNNING"].contains(&self.status.as_str())
    }

    /// Returns whether a step is completed or skipped.
    pub(super) fn has_done(&self, name: &str) -> bool {
        let done = |step: &StepState| step.name == name && ["COMPLETED", "SKIPPED"].contains(&step.status.as_str());
        self.steps.nodes.iter().any(done)
    }
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

    pub(super) async fn execute(
        &self,
        playbook: &str,
        subscription: &str,
        message: &Message,
    ) -> Result<Executed, ClientError> {
        let query = "mutation Execute($input: ExecuteInput!) { done: execute(input: $input) {
            result: execution { id } outcome userErrors { message retryable } } }";
        let input = json!({
            "entry": { "path": playbook },
            "parentExecutionId": subscription,
            "workload": { "order": message.body },
            "dedup": { "key": message.id },
        });
        let mut data = self.0.send(query, json!({ "input": input })).await?;
        let duplicate = data["done"]["outcome"] == "DUPLICATE";
        let execution: Execution = read(data["done"].take())?;
        Ok(Executed { id: execution.id, duplicate })
    }

    pub(super) async fn run(&self, id: &str) -> Result<Run, ClientError> {
        let query = "query Run($id: ID!) { result: execution(id: $id) {
            id status workload catalogEntry { document } steps(first: 100) { nodes { name status } } } }";
        read(self.0.send(query, json!({ "id": id })).await?)
    }

    /// Sends a worker's events. Duplicates count as sent.
    pub(super) async fn project(&self, events: &[Value]) -> Result<(), ClientError> {
        let query = "mutation Project($events: [EventInput!]!) { done: projectEvents(input: {events: $events}) {
            rejected { userErrors { message retryable } } userErrors { message retryable } } }";
        let done = self.0.send(query, json!({ "events": events })).await?["done"].take();
        let error = done["userErrors"].get(0).or_else(|| done["rejected"].get(0)?["userErrors"].get(0));
        error.map_or(Ok(()), |error| Err(refusal(error)))
    }

    pub(super) async fn cancel(&self, id: &str) -> Result<(), ClientError> {
        let query = "mutation Cancel($id: ID!) { done: cancelExecution(input: {executionId: $id, reason: \"demo\"}) {
            result: execution { id } userErrors { message retryable } } }";
        let _: Execution = self.mutate(query, json!({ "id": id })).await?;
        Ok(())
    }

    async fn mutate<T: Typed>(&self, query: &str, variables: Value) -> Result<T, ClientError> {
        read(self.0.send(query, variables).await?["done"].take())
    }
}

#[derive(Debug, Deserialize)]
struct Execution {
    id: String,
}

impl Typed for Execution {}
impl Typed for Registered {}
impl Typed for Run {}
impl Typed for Subscription {}

/// Returns the `result` of a payload, or its first user error.
fn read<T: Typed>(mut payload: Value) -> Result<T, ClientError> {
    if let Some(error) = payload["userErrors"].get(0) {
        return Err(refusal(error));
    }
    json::fields(payload["result"].take()).map_err(|error| ClientError::Failed(error.to_string()))
}
