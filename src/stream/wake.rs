//! Wake hints across replicas. A replica that does not lead a shard passes its writers' hints on over the broker; the
//! leader hears them. Hints may be lost: the leader polls anyway.

use async_nats::Client;
use futures::StreamExt;

use super::names;
use crate::domain::shard::ShardIndex;
use crate::service::wake::Wakes;

/// Tells whoever leads a shard that it has fresh events.
pub async fn pass_on(client: &Client, shard: ShardIndex) {
    if let Err(error) = client.publish(names::wake(shard), bytes::Bytes::new()).await {
        tracing::debug!(shard, %error, "wake hint not passed on");
    }
}

/// Rings the bell of each shard that another replica hints at. Returns when the connection is closed for good.
pub async fn listen(client: Client, heard: Wakes) -> Result<(), async_nats::SubscribeError> {
    let mut hints = client.subscribe("noetl.wake.*").await?;
    while let Some(hint) = hints.next().await {
        let shard = hint.subject.rsplit('.').next().and_then(|index| index.parse().ok());
        if let Some(shard) = shard {
            heard.ring(shard);
        }
    }
    Ok(())
}
