//! Sources of the demo's messages.

use std::convert::Infallible;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use async_stream::try_stream;
use futures::stream::BoxStream;
use futures::{Stream, StreamExt};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::io::{AsyncBufRead, AsyncBufReadExt, BufReader};
use tokio::time::{MissedTickBehavior, interval};

use noetl_runtime::clock;
use plain_json as json;

/// A message with its dedup key.
#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    /// Dedup key.
    pub id: String,
    /// Content, which becomes the execution's workload.
    pub body: Value,
}

/// Reason why a source can't be read.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// A file or standard input can't be read.
    #[error("{name} can't be read: {source}")]
    Read {
        /// Path of the file, or `standard input`.
        name: String,
        /// Cause.
        source: std::io::Error,
    },
    /// The source's broker failed.
    #[error("the broker of the source failed: {0}")]
    Broker(String),
}

/// A source of messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// Generated orders.
    Samples,
    /// A message on each line.
    StandardInput,
    /// A subject of a broker.
    Nats(String),
    /// A message on each line.
    File(PathBuf),
}

impl FromStr for Source {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(match text {
            "samples" => Self::Samples,
            "-" => Self::StandardInput,
            _ => match text.strip_prefix("nats:") {
                Some(subject) => Self::Nats(subject.to_owned()),
                None => Self::File(text.into()),
            },
        })
    }
}

type Messages = BoxStream<'static, Result<Message, SourceError>>;

impl Source {
    /// Opens the source. Samples come at `rate` per second; a subject is one of the broker at `nats_url`.
    pub async fn open(self, nats_url: &str, rate: f64) -> Result<Messages, SourceError> {
        match self {
            Self::Samples => Ok(samples(rate).boxed()),
            Self::StandardInput => Ok(lines("standard input".to_owned(), BufReader::new(tokio::io::stdin())).boxed()),
            Self::Nats(subject) => nats(nats_url, subject).await,
            Self::File(path) => {
                let name = path.display().to_string();
                let failed = |source| SourceError::Read { name: name.clone(), source };
                let file = tokio::fs::File::open(&path).await.map_err(failed)?;
                Ok(lines(name, BufReader::new(file)).boxed())
            }
        }
    }
}

/// Generates sample orders, `rate` per second.
fn samples(rate: f64) -> impl Stream<Item = Result<Message, SourceError>> + Send {
    let period = Duration::from_secs_f64(1.0 / rate.clamp(0.01, 10_000.0));
    let run = clock::snowflake_ms();
    try_stream! {
        let mut ticks = interval(period);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        for number in 1_u64.. {
            ticks.tick().await;
            let id = format!("order-{run}-{number}");
            let item = |n: u64| json!({ "sku": format!("sku-{}", (number + n) % 17), "count": n + 1 });
            let items: Vec<Value> = (0..number % 5).map(item).collect();
            let body = json!({ "id": id, "items": items });
            yield Message { id, body };
        }
    }
}

/// Reads one message per line; empty lines are skipped.
fn lines(
    name: String,
    reader: impl AsyncBufRead + Send + Unpin,
) -> impl Stream<Item = Result<Message, SourceError>> + Send {
    try_stream! {
        let (mut lines, mut number) = (reader.lines(), 0_u64);
        while let Some(line) = lines.next_line().await.map_err(|source| SourceError::Read { name: name.clone(), source })? {
            number += 1;
            if !line.trim().is_empty() {
                // The key depends on the place of the line, so equal lines are different messages. Reading the same
                // file again gives the same keys.
                yield message(line.as_bytes(), &format!("{name}:{number}:"));
            }
        }
    }
}

async fn nats(url: &str, subject: String) -> Result<Messages, SourceError> {
    let broker = |error: &dyn std::fmt::Display| SourceError::Broker(error.to_string());
    let client = async_nats::connect(url).await.map_err(|error| broker(&error))?;
    let taken = client.subscribe(subject).await.map_err(|error| broker(&error))?;
    let read = |taken: async_nats::Message| {
        let read = message(&taken.payload, "");
        let named = taken.headers.as_ref().and_then(|headers| headers.get(async_nats::header::NATS_MESSAGE_ID));
        Ok(named.map_or(read.clone(), |id| Message { id: id.to_string(), body: read.body }))
    };
    Ok(taken.map(read).boxed())
}

/// Parses a message. Its dedup key is the `id` of a JSON object; other messages get a hash of their place and content.
fn message(bytes: &[u8], place: &str) -> Message {
    let text = String::from_utf8_lossy(bytes);
    let body = json::read(&text).unwrap_or_else(|_| Value::from(text.as_ref()));
    let id = match &body["id"] {
        Value::String(id) if !id.is_empty() => id.clone(),
        Value::Number(id) => id.to_string(),
        _ => {
            let digest = Sha256::digest([place.as_bytes(), bytes].concat());
            digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat()
        }
    };
    Message { id, body }
}
