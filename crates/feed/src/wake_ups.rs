//! Wake-ups across replicas. A replica that is not the leader of a shard forwards its writers' wake-ups over the
//! broker, and the leader receives them. Wake-ups may be lost: the leader polls anyway.

use async_nats::Client;
use futures::StreamExt;

use crate::wire::names::StreamNames;
use noetl_domain::shard::ShardIndex;
use noetl_runtime::wake::WakeUps;

/// Notifies a shard's leader of new events.
pub async fn forward(client: &Client, names: &StreamNames, shard: ShardIndex) {
    if let Err(error) = client.publish(names.wake(shard), bytes::Bytes::new()).await {
        tracing::debug!(shard, %error, "a wake-up was not forwarded");
    }
}

/// Wakes the tailer of each shard for which another replica sends a wake-up. Returns when the connection is closed for
/// good.
pub async fn listen(client: Client, names: StreamNames, wake_ups: WakeUps) -> Result<(), async_nats::SubscribeError> {
    let mut hints = client.subscribe(names.wakes()).await?;
    while let Some(hint) = hints.next().await {
        let shard = hint.subject.rsplit('.').next().and_then(|index| index.parse().ok());
        if let Some(shard) = shard {
            wake_ups.wake_feed(shard);
        }
    }
    Ok(())
}
