//! Client of a server's public API: GraphQL over HTTP.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};

use plain_json as json_text;

/// Time limit of a request; the server's own deadline is shorter.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Options that name a server and its caller.
#[derive(Debug, Args)]
pub(super) struct Server {
    /// URL of the server
    #[arg(long, global = true, default_value = "http://127.0.0.1:8082")]
    url: String,
    /// File with the token of the caller, if the server requires a token
    #[arg(long, global = true)]
    token_file: Option<PathBuf>,
}

/// Reason why a request failed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The server refused the request; a repeat would be refused too.
    #[error("{0}")]
    Refused(String),
    /// The request failed; a repeat may succeed.
    #[error("the request failed: {0}")]
    Failed(String),
    /// The server can't be reached.
    #[error("the server can't be reached; start it with `make run`, or name it with --url: {0}")]
    Unreachable(#[from] reqwest::Error),
    /// The HTTP client can't be created.
    #[error("the HTTP client can't be created; install the CA certificates of the system")]
    Client(#[source] reqwest::Error),
    /// The token can't be read.
    #[error("the token file {path} can't be read: {source}")]
    Token {
        /// Path of the token file.
        path: PathBuf,
        /// Cause.
        source: std::io::Error,
    },
}

/// A client of one server.
pub(super) struct Client {
    http: reqwest::Client,
    endpoint: String,
    token: Option<String>,
}

impl Client {
    /// Creates a client. Fails if the machine has no certificates of authorities (CAs).
    pub(super) fn new(server: &Server) -> Result<Self, ClientError> {
        let token = server.token_file.as_deref().map(read_token).transpose()?;
        let http = reqwest::Client::builder().build().map_err(ClientError::Client)?;
        Ok(Self { http, endpoint: format!("{}/graphql", server.url.trim_end_matches('/')), token })
    }

    /// Sends an operation and returns the data of the response.
    pub(super) async fn send(&self, query: &str, variables: Value) -> Result<Value, ClientError> {
        let body = json!({ "query": query, "variables": variables });
        let request = self.http.post(&self.endpoint).timeout(TIMEOUT).json(&body);
        let request = if let Some(token) = &self.token { request.bearer_auth(token) } else { request };
        let response = request.send().await?;
        let status = response.status();
        let mut response = json_text::read(&response.text().await?)
            .map_err(|_| ClientError::Failed(format!("the response ({status}) is not JSON; check the URL")))?;
        match response["errors"][0]["message"].as_str() {
            Some(message) => Err(ClientError::Failed(message.to_owned())),
            None => Ok(response["data"].take()),
        }
    }
}

fn read_token(path: &Path) -> Result<String, ClientError> {
    let read = std::fs::read_to_string(path);
    let text = read.map_err(|source| ClientError::Token { path: path.to_owned(), source })?;
    Ok(text.trim().to_owned())
}

/// Returns the error of a user error in a payload.
pub(super) fn refusal(error: &Value) -> ClientError {
    let message = error["message"].as_str().unwrap_or_default().to_owned();
    if error["retryable"] == true { ClientError::Failed(message) } else { ClientError::Refused(message) }
}
