//! Client of the GraphQL API: sends typed operations, and repeats them while the server is away.

use std::time::Duration;

use eventsource_stream::Eventsource;
use futures::{Stream, StreamExt};
use graphql_client::GraphQLQuery;
use reqwest::{RequestBuilder, Response};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::{sleep, timeout};

const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
const REQUEST_TIMEOUT: Duration = Duration::from_secs(20);
/// The server sends a heartbeat every 10 seconds, so a silent stream is dead.
const SILENCE: Duration = Duration::from_secs(30);
/// Codes of `errors[]` after which the same request may succeed (docs/errors.md).
const RETRYABLE: [&str; 5] = ["OVERLOADED", "SHUTTING_DOWN", "STREAM_UNAVAILABLE", "SHARD_UNAVAILABLE", "TIMEOUT"];

/// Reason why a request failed.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// A repeat would be refused too.
    #[error("the server refused a request: {0}")]
    Refused(String),
    /// A repeat may succeed.
    #[error("unavailable: {0}")]
    Unavailable(String),
}

impl From<reqwest::Error> for ApiError {
    fn from(error: reqwest::Error) -> Self {
        Self::Unavailable(error.to_string())
    }
}

/// Sends operations to one server. Every operation of the worker may be sent again: execute has a dedup key, events
/// have ids, and leases have tokens.
pub struct Api {
    url: String,
    token: Option<String>,
    client: reqwest::Client,
}

impl Api {
    pub fn new(url: String, token: Option<String>) -> Self {
        Self { url, token, client: reqwest::Client::new() }
    }

    /// Returns the data of a response; repeats the request until the server responds.
    pub async fn send<Q: GraphQLQuery>(&self, variables: Q::Variables) -> Result<Q::ResponseData, ApiError> {
        let body = Q::build_query(variables);
        let mut pause = FIRST_PAUSE;
        loop {
            match self.attempt(&body).await {
                Err(ApiError::Unavailable(reason)) => eprintln!("{} failed: {reason}", body.operation_name),
                outcome => return outcome,
            }
            sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    async fn attempt<Data: DeserializeOwned>(&self, body: &impl Serialize) -> Result<Data, ApiError> {
        let response = self.post("", body).timeout(REQUEST_TIMEOUT).send().await?;
        let data = checked(response.json().await?)?;
        serde_json::from_value(data).map_err(|error| ApiError::Refused(error.to_string()))
    }

    /// Returns the items of a live subscription, as server-sent events. The stream ends with the connection.
    pub async fn follow<Q: GraphQLQuery>(
        &self,
        variables: Q::Variables,
    ) -> Result<impl Stream<Item = Result<Q::ResponseData, ApiError>> + use<Q>, ApiError> {
        let request = self.post("/stream", &Q::build_query(variables)).header("accept", "text/event-stream");
        let response: Response = timeout(REQUEST_TIMEOUT, request.send()).await.map_err(unavailable)??;
        if response.status().is_client_error() {
            return Err(ApiError::Refused(response.text().await?));
        }
        let events = tokio_stream::StreamExt::timeout(response.bytes_stream().eventsource(), SILENCE);
        let items = events.filter_map(async |event| match event {
            Ok(Ok(event)) if event.event == "next" => Some(item(&event.data)),
            Ok(Ok(_)) => None,
            Ok(Err(error)) => Some(Err(unavailable(error))),
            Err(silence) => Some(Err(unavailable(silence))),
        });
        Ok(items)
    }

    fn post(&self, route: &str, body: &impl Serialize) -> RequestBuilder {
        let request = self.client.post(format!("{}{route}", self.url)).json(body);
        match &self.token {
            Some(token) => request.bearer_auth(token),
            None => request,
        }
    }
}

fn unavailable(error: impl std::fmt::Display) -> ApiError {
    ApiError::Unavailable(error.to_string())
}

fn item<Data: DeserializeOwned>(text: &str) -> Result<Data, ApiError> {
    let data = checked(serde_json::from_str(text).map_err(unavailable)?)?;
    serde_json::from_value(data).map_err(|error| ApiError::Refused(error.to_string()))
}

/// Returns the data of a response without errors.
fn checked(mut response: Value) -> Result<Value, ApiError> {
    if let Some(error) = response["errors"].get(0) {
        let code = error["extensions"]["code"].as_str().unwrap_or_default();
        return Err(failure(RETRYABLE.contains(&code), code, error));
    }
    let data = response["data"].take();
    let mut payloads = data.as_object().into_iter().flat_map(|fields| fields.values());
    match payloads.find_map(user_error) {
        Some(error) => Err(failure(error["retryable"] == true, error["code"].as_str().unwrap_or_default(), error)),
        None => Ok(data),
    }
}

/// Returns the first error of a payload or of one of its items.
fn user_error(payload: &Value) -> Option<&Value> {
    let items = ["results", "rejected"].iter().filter_map(|list| payload[*list].as_array()).flatten();
    std::iter::once(payload).chain(items).find_map(|part| part["userErrors"].get(0))
}

fn failure(retryable: bool, code: &str, error: &Value) -> ApiError {
    let text = format!("{code}: {}", error["message"].as_str().unwrap_or_default());
    if retryable { ApiError::Unavailable(text) } else { ApiError::Refused(text) }
}
