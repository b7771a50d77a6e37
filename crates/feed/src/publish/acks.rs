//! Publishing with few acknowledgements.
//!
//! Each publish names the sequence that it must follow, so one acknowledgement confirms all messages before it. A run
//! requests an acknowledgement for the first message, for one message per step, and for the last message. The first is
//! needed because only its acknowledgement distinguishes a duplicate from a message out of sequence. Messages in flight
//! are bounded in number and in bytes.

use serde::Deserialize;
use std::collections::VecDeque;
use std::time::Duration;

use async_nats::jetstream::ErrorCode;
use async_nats::jetstream::publish::PublishAck;
use async_nats::jetstream::response::Response;
use async_nats::{Client, HeaderMap, Message, StatusCode, Subject, Subscriber};
use bytes::Bytes;
use futures::StreamExt;
use tokio::time::timeout;

use crate::publish::error::{PublishError, broker};
use plain_json::{self as json, Typed};

/// Time after which an acknowledgement of the broker counts as lost.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum number of pending acknowledgements.
const AWAITED: usize = 8;
/// Bytes after which the next acknowledgement is requested.
const STEP_BYTES: usize = 256 * 1024;

/// Acknowledgements of one publisher.
#[derive(Debug)]
pub(super) struct Acks {
    client: Client,
    inbox: String,
    replies: Subscriber,
    /// Number of messages after which the next acknowledgement is requested.
    step: usize,
    most: usize,
    /// Number of the current run; acknowledgements of earlier runs are ignored.
    run: u64,
    awaited: VecDeque<u64>,
    unasked: (usize, usize),
}

impl Acks {
    /// Subscribes to acknowledgements. About `window` messages are in flight at most.
    pub(super) async fn open(client: Client, window: usize) -> Result<Self, PublishError> {
        let inbox = client.new_inbox();
        let replies = client.subscribe(format!("{inbox}.*.*")).await.map_err(broker)?;
        let (step, most) = ((window / AWAITED).max(1), window.clamp(1, AWAITED));
        Ok(Self { client, inbox, replies, step, most, run: 0, awaited: VecDeque::new(), unasked: (0, 0) })
    }

    /// Starts a run; acknowledgements of earlier runs are ignored.
    pub(super) fn begin(&mut self) {
        self.run += 1;
        self.awaited.clear();
        self.unasked = (self.step, 0);
    }

    /// Publishes a message that is expected to get this sequence.
    pub(super) async fn publish(
        &mut self,
        subject: Subject,
        headers: HeaderMap,
        payload: Bytes,
        sequence: u64,
        last: bool,
    ) -> Result<(), PublishError> {
        let (messages, bytes) = (self.unasked.0 + 1, self.unasked.1 + payload.len());
        if messages < self.step && bytes < STEP_BYTES && !last {
            self.unasked = (messages, bytes);
            return self.client.publish_with_headers(subject, headers, payload).await.map_err(broker);
        }
        self.unasked = (0, 0);
        let reply = format!("{}.{}.{sequence}", self.inbox, self.run);
        self.client.publish_with_reply_and_headers(subject, reply, headers, payload).await.map_err(broker)?;
        self.awaited.push_back(sequence);
        if self.awaited.len() >= self.most { self.confirm().await } else { Ok(()) }
    }

    /// Waits until every message of this run is stored.
    pub(super) async fn finish(&mut self) -> Result<(), PublishError> {
        while !self.awaited.is_empty() {
            self.confirm().await?;
        }
        Ok(())
    }

    /// Waits for the oldest pending acknowledgement.
    async fn confirm(&mut self) -> Result<(), PublishError> {
        let Some(expected) = self.awaited.pop_front() else { return Ok(()) };
        loop {
            let reply = timeout(TIMEOUT, self.replies.next()).await;
            let reply = reply.map_err(|_| PublishError::Broker(format!("no acknowledgement within {TIMEOUT:?}")))?;
            let reply = reply.ok_or_else(|| broker("the connection was closed"))?;
            if self.is_of_this_run(&reply) {
                return read(&reply, expected);
            }
        }
    }

    fn is_of_this_run(&self, reply: &Message) -> bool {
        let run = reply.subject.strip_prefix(self.inbox.as_str()).and_then(|rest| rest.split('.').nth(1));
        run.is_some_and(|run| run.parse() == Ok(self.run))
    }
}

/// Reply of the broker to a publish.
#[derive(Deserialize)]
#[serde(transparent)]
struct Reply(Response<PublishAck>);

impl Typed for Reply {}

fn read(reply: &Message, expected: u64) -> Result<(), PublishError> {
    if reply.status == Some(StatusCode::NO_RESPONDERS) {
        return Err(broker("no stream received the message"));
    }
    let Reply(response) = json::parse(&reply.payload).map_err(broker)?;
    match response {
        Response::Ok(ack) if ack.duplicate => Err(PublishError::Duplicate(expected)),
        Response::Ok(ack) if ack.sequence == expected => Ok(()),
        Response::Ok(_) => Err(PublishError::OutOfStep),
        Response::Err { error } if is_out_of_step(error.error_code()) => Err(PublishError::OutOfStep),
        Response::Err { error } => Err(broker(error)),
    }
}

fn is_out_of_step(code: ErrorCode) -> bool {
    [
        ErrorCode::STREAM_WRONG_LAST_SEQUENCE,
        ErrorCode::STREAM_WRONG_LAST_SEQUENCE_CONSTANT,
        ErrorCode::STREAM_WRONG_LAST_MESSAGE_ID,
    ]
    .contains(&code)
}
