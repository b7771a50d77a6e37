//! A client that repeats a request until the server has carried it out.

use std::time::Duration;

use serde_json::{Value, json};

use super::Traffic;
use crate::random::{Random, below, index, moment, seeded};
use crate::{http_client, sleep_in_scenario};

/// Time limit of a request; the server's own deadlines are shorter.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Pause before a request is repeated.
const PAUSE: Duration = Duration::from_millis(100);
/// Codes of errors that a repetition may not get.
const RETRYABLE: [&str; 5] = ["SHARD_UNAVAILABLE", "TIMEOUT", "OVERLOADED", "SHUTTING_DOWN", "STREAM_UNAVAILABLE"];

pub(super) struct Client<'a> {
    traffic: &'a Traffic,
    http: reqwest::Client,
    random: Random,
}

impl<'a> Client<'a> {
    pub(super) fn new(traffic: &'a Traffic, random: Random) -> Self {
        Self { traffic, http: http_client(), random }
    }

    /// Returns a client that shares the connections and makes other random choices.
    pub(super) fn branch(&mut self) -> Self {
        let random = seeded(below(&mut self.random, u64::MAX), 0);
        Self { traffic: self.traffic, http: self.http.clone(), random }
    }

    /// Returns true once in `times` calls, at random.
    pub(super) fn once_in(&mut self, times: u64) -> bool {
        below(&mut self.random, times) == 0
    }

    /// Sends a mutation until it is carried out, and returns its payload. The mutation has the alias `done`. Any other
    /// failure than one that is temporary by its code is a fault of the server.
    pub(super) async fn until_done(&mut self, query: &str, variables: &Value) -> Value {
        let mut url = self.address().await;
        loop {
            match attempt(&self.http, &url, query, variables).await {
                Ok(payload) => return payload,
                Err(reason) => self.traffic.note_repeated(&reason),
            }
            sleep_in_scenario(PAUSE).await;
            url = self.address().await;
        }
    }

    /// Sends a mutation until it is carried out, twice at the same time to any two replicas. Returns both payloads.
    pub(super) async fn until_done_twice(&mut self, query: &str, variables: &Value) -> [Value; 2] {
        let mut other = self.branch();
        let (one, other) = tokio::join!(self.until_done(query, variables), other.until_done(query, variables));
        [one, other]
    }

    /// Sends a mutation and vanishes at a random moment, so that it is unknown whether it was carried out.
    pub(super) async fn send_and_vanish(&mut self, query: &str, variables: &Value) {
        let (url, limit) = (self.address().await, moment(&mut self.random, 30));
        if let Ok(Err(reason)) = tokio::time::timeout(limit, attempt(&self.http, &url, query, variables)).await {
            self.traffic.note_repeated(&reason);
        }
    }

    /// Returns a random address. Waits while there is none.
    async fn address(&mut self) -> String {
        loop {
            let addresses = self.traffic.addresses.lock().unwrap().clone();
            if !addresses.is_empty() {
                return addresses[index(&mut self.random, addresses.len())].clone();
            }
            sleep_in_scenario(PAUSE).await;
        }
    }
}

/// Sends a mutation once. Returns its payload, also with `STALE_LEASE`, or the reason to repeat it.
async fn attempt(http: &reqwest::Client, url: &str, query: &str, variables: &Value) -> Result<Value, String> {
    let body = json!({ "query": query, "variables": variables });
    let request = http.post(format!("{url}/graphql")).timeout(TIMEOUT).json(&body);
    let response = request.send().await.map_err(|error| reason(&error))?;
    let status = response.status();
    let text = response.text().await.map_err(|error| reason(&error))?;
    // A load balancer in front of the replicas responds with a page when it finds none.
    let Ok(mut response) = serde_json::from_str::<Value>(&text) else { return Err(format!("HTTP {status}")) };
    if let Some(error) = response["errors"].get(0) {
        return Err(temporary(&error["extensions"]["code"], error));
    }
    let payload = response["data"]["done"].take();
    let failed = payload["userErrors"].get(0).or_else(|| payload["rejected"].get(0)?["userErrors"].get(0));
    let failed = failed.filter(|error| error["code"] != "STALE_LEASE");
    failed.map_or(Ok(()), |error| Err(temporary(&error["code"], error))).map(|()| payload.clone())
}

/// Returns the code of an error that a repetition may not get. Panics if the error is of another kind.
fn temporary(code: &Value, error: &Value) -> String {
    let code = code.as_str().unwrap_or_default();
    assert!(RETRYABLE.contains(&code), "{error}");
    code.to_owned()
}

/// Returns the kind of a failed transfer.
fn reason(error: &reqwest::Error) -> String {
    let kind = if error.is_timeout() {
        "no response in time"
    } else if error.is_connect() {
        "no connection"
    } else {
        "broken connection"
    };
    kind.to_owned()
}
