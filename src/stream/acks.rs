//! Publishing with few acknowledgements.
//!
//! Each publish names the sequence that it must follow, so an acknowledged message vouches for all before it: the broker is
//! asked for the acknowledgement of every so many messages, of the first, as only that one tells a repetition from a
//! message out of step, and of the last. What is on its way is bounded in messages and in bytes.

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

use super::publisher::{PublishError, broker};
use noetl_json::{self as json, Typed};

const TIMEOUT: Duration = Duration::from_secs(5);
/// Acknowledgements that may be awaited at a time.
const AWAITED: usize = 8;
/// Bytes after which the next acknowledgement is asked for.
const STEP_BYTES: usize = 256 * 1024;

/// The acknowledgements of one publisher.
#[derive(Debug)]
pub(super) struct Acks {
    client: Client,
    inbox: String,
    replies: Subscriber,
    /// Messages after which the next acknowledgement is asked for.
    step: usize,
    most: usize,
    /// Counts runs: what comes for an earlier one is late.
    run: u64,
    awaited: VecDeque<u64>,
    unasked: (usize, usize),
}

impl Acks {
    /// At most about `window` messages will be on their way at a time.
    pub(super) async fn open(client: Client, window: usize) -> Result<Self, PublishError> {
        let inbox = client.new_inbox();
        let replies = client.subscribe(format!("{inbox}.*.*")).await.map_err(broker)?;
        let (step, most) = ((window / AWAITED).max(1), window.clamp(1, AWAITED));
        Ok(Self { client, inbox, replies, step, most, run: 0, awaited: VecDeque::new(), unasked: (0, 0) })
    }

    /// Begins a run; nothing of an earlier one counts any more.
    pub(super) fn begin(&mut self) {
        self.run += 1;
        self.awaited.clear();
        self.unasked = (self.step, 0);
    }

    /// Publishes the message that is to get this sequence.
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

    /// Waits until everything of this run is stored.
    pub(super) async fn finish(&mut self) -> Result<(), PublishError> {
        while !self.awaited.is_empty() {
            self.confirm().await?;
        }
        Ok(())
    }

    /// Waits for the oldest acknowledgement that was asked for.
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
        return Err(broker("nobody keeps the stream"));
    }
    let Reply(response) = json::parse(&reply.payload).map_err(broker)?;
    match response {
        Response::Ok(ack) if ack.duplicate => Err(PublishError::Repetition(expected)),
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
