//! Workers that read the rows from the stream to which the relay publishes them.

use std::time::Duration;

use async_nats::jetstream::consumer::PullConsumer;
use async_nats::jetstream::consumer::pull::Config;
use async_nats::jetstream::{self, Context, Message};
use futures::TryStreamExt;
use futures::future::join_all;
use serde_json::Value;
use tokio::time::Instant;

use super::Traffic;
use super::client::Client;
use super::worker::{IDLE, LEASE, run};
use crate::{eventually, sleep_in_scenario};

const STREAM: &str = "noetl_executions";
/// Consumer that all workers share.
const WORKERS: &str = "workers";

/// Works until the traffic has stopped, all messages are completed, and the stream has given nothing for two leases.
pub(super) async fn work(traffic: &Traffic, mut client: Client<'_>) {
    let options = async_nats::ConnectOptions::new().retry_on_initial_connect();
    let context = jetstream::new(options.connect(&traffic.brokers).await.unwrap());
    let consumer = eventually("the stream has a consumer", || consumer(&context)).await;
    let mut busy = Instant::now();
    while !traffic.all_finished() || busy.elapsed() < Duration::from_secs(2 * LEASE) {
        if !traffic.all_finished() {
            busy = Instant::now();
        }
        let messages = match read(&consumer).await {
            Ok(messages) => messages,
            Err(error) => {
                traffic.note_repeated(&format!("broker: {error}"));
                Vec::new()
            }
        };
        if messages.is_empty() {
            sleep_in_scenario(IDLE).await;
            continue;
        }
        busy = Instant::now();
        let clients = messages.iter().map(|_| client.branch()).collect::<Vec<_>>();
        join_all(messages.iter().zip(clients).map(async |(message, mut client)| {
            let payload: Value = serde_json::from_slice(&message.payload).unwrap();
            let number = |field: &str| payload[field].as_str().unwrap().parse().unwrap();
            let vanishes = client.once_in(50);
            // The broker delivers a message again that was not acknowledged.
            if run(traffic, number("execution_id"), number("event_id"), None, client).await
                && !vanishes
                && let Err(error) = message.ack().await
            {
                traffic.note_repeated(&format!("acknowledgement: {error}"));
            }
        }))
        .await;
    }
}

async fn consumer(context: &Context) -> Option<PullConsumer> {
    let stream = context.get_stream(STREAM).await.ok()?;
    let config =
        Config { durable_name: Some(WORKERS.to_owned()), ack_wait: Duration::from_secs(LEASE), ..Config::default() };
    stream.get_or_create_consumer(WORKERS, config).await.ok()
}

/// Returns the next messages of the stream, if there are some now.
async fn read(consumer: &PullConsumer) -> Result<Vec<Message>, async_nats::Error> {
    let messages = consumer.fetch().max_messages(16).messages().await?;
    messages.try_collect().await
}
