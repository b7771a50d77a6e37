//! The public API as the demo uses it: GraphQL over HTTP.

use std::time::Duration;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::source::Message;

/// How long an answer may take; the server's own deadline is shorter.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// The server understood and refused; asking again does not help.
    #[error("{0}")]
    Refused(String),
    /// The server could not do it now; asking again may help.
    #[error("the server could not do it: {0}")]
    Failed(String),
    /// The server can't be reached.
    #[error("the server can't be reached; start it with `make run`, or name it with --url: {0}")]
    Unreachable(#[from] reqwest::Error),
}

/// A source subscription.
#[derive(Debug, Deserialize)]
pub(super) struct Subscription {
    pub(super) id: String,
    pub(super) state: String,
}

/// An execution that runs because of a message.
#[derive(Debug)]
pub(super) struct Executed {
    pub(super) id: String,
    pub(super) duplicate: bool,
}

/// A client of one server.
pub(super) struct Api {
    client: reqwest::Client,
    endpoint: String,
}

impl Api {
    pub(super) fn new(url: &str) -> Self {
        Self { client: reqwest::Client::new(), endpoint: format!("{}/graphql", url.trim_end_matches('/')) }
    }

    pub(super) async fn register(&self, path: &str) -> Result<Subscription, ApiError> {
        let query = "mutation Register($path: String!) { done: registerSubscription(input: {path: $path}) {
            result: subscription { id state } userErrors { message retryable } } }";
        self.mutate(query, json!({ "path": path })).await
    }

    pub(super) async fn transition(&self, action: &str, id: &str) -> Result<Subscription, ApiError> {
        let query = format!(
            "mutation Transition($id: ID!) {{ done: {action}Subscription(input: {{id: $id}}) {{
                result: subscription {{ id state }} userErrors {{ message retryable }} }} }}"
        );
        self.mutate(&query, json!({ "id": id })).await
    }

    pub(super) async fn subscription(&self, id: &str) -> Result<Subscription, ApiError> {
        let query = "query State($id: ID!) { result: subscription(by: {id: $id}) { id state } }";
        read(self.send(query, json!({ "id": id })).await?)
    }

    pub(super) async fn execute(
        &self,
        playbook: &str,
        subscription: &str,
        message: &Message,
    ) -> Result<Executed, ApiError> {
        let query = "mutation Execute($input: ExecuteInput!) { done: execute(input: $input) {
            result: execution { id } outcome userErrors { message retryable } } }";
        let input = json!({
            "path": playbook,
            "parentExecutionId": subscription,
            "workload": { "order": message.body },
            "dedup": { "key": message.id },
        });
        let mut data = self.send(query, json!({ "input": input })).await?;
        let duplicate = data["done"]["outcome"] == "DUPLICATE";
        let execution: Execution = read(data["done"].take())?;
        Ok(Executed { id: execution.id, duplicate })
    }

    pub(super) async fn cancel(&self, id: &str) -> Result<(), ApiError> {
        let query = "mutation Cancel($id: ID!) { done: cancelExecution(input: {id: $id, reason: \"demo\"}) {
            result: execution { id } userErrors { message retryable } } }";
        let _: Execution = self.mutate(query, json!({ "id": id })).await?;
        Ok(())
    }

    async fn mutate<T: DeserializeOwned>(&self, query: &str, variables: Value) -> Result<T, ApiError> {
        read(self.send(query, variables).await?["done"].take())
    }

    /// The data of the response.
    async fn send(&self, query: &str, variables: Value) -> Result<Value, ApiError> {
        let body = json!({ "query": query, "variables": variables });
        let response = self.client.post(&self.endpoint).timeout(TIMEOUT).json(&body).send().await?;
        let mut response: Value = response.json().await?;
        match response["errors"][0]["message"].as_str() {
            Some(message) => Err(ApiError::Failed(message.to_owned())),
            None => Ok(response["data"].take()),
        }
    }
}

#[derive(Debug, Deserialize)]
struct Execution {
    id: String,
}

/// The `result` of a payload, or its first user error.
fn read<T: DeserializeOwned>(mut payload: Value) -> Result<T, ApiError> {
    if let Some(error) = payload["userErrors"].get(0) {
        let message = error["message"].as_str().unwrap_or_default().to_owned();
        let retryable = error["retryable"].as_bool().unwrap_or(false);
        return Err(if retryable { ApiError::Failed(message) } else { ApiError::Refused(message) });
    }
    serde_json::from_value(payload["result"].take()).map_err(|error| ApiError::Failed(error.to_string()))
}
