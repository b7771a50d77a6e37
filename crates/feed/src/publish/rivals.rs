//! Copies of one database whose servers publish to the same stream: at most one of them may.
//!
//! A promoted standby and its old primary, or a restored dump and its original, have the same feed, the same batches and
//! the same cursor. A leader asks on the broker for other leaders of its feed before it publishes, and answers such
//! requests while it leads. A database that was promoted replaces the one that it was promoted from. In all other cases
//! the database that publishes already continues. So two copies never take the stream from each other in turns.
//!
//! This only avoids a conflict. If two copies publish nevertheless, for example after one was frozen, the expected
//! sequences keep their messages apart, and [`super::recovery`] finds the messages of the other one.

use std::time::Duration;

use async_nats::{Client, Message, StatusCode, Subject, Subscriber};
use futures::StreamExt;
use tokio::time::{Instant, timeout_at};

use crate::publish::error::{PublishError, broker};
use crate::publish::leader::Leader;

/// Time for which a leader waits for the answers of others.
const ANSWER_WITHIN: Duration = Duration::from_millis(300);

const ASKS: &str = "asks";
const LEADS: &str = "leads";

/// Message of a leader: itself, and whether it leads already.
#[derive(Debug, PartialEq, Eq)]
struct Introduction {
    leader: Leader,
    leads: bool,
}

/// Returns the payload of a message.
fn introduction(leader: &Leader, leads: bool) -> String {
    let Leader { owner, database, started } = leader;
    format!("{} {started} {owner} {database}", if leads { LEADS } else { ASKS })
}

fn read(payload: &[u8]) -> Option<Introduction> {
    let mut parts = std::str::from_utf8(payload).ok()?.splitn(3, ' ');
    let leads = match parts.next()? {
        LEADS => true,
        ASKS => false,
        _ => return None,
    };
    let started = parts.next()?.parse().ok()?;
    let (owner, database) = parts.next()?.rsplit_once(' ')?;
    let leader = Leader { owner: owner.parse().ok()?, database: database.parse().ok()?, started };
    Some(Introduction { leader, leads })
}

/// Answers of one leader to others of its feed.
pub(super) struct Rivals {
    client: Client,
    subject: Subject,
    me: Leader,
    requests: Subscriber,
}

impl Rivals {
    /// Asks for other leaders of the feed, and begins to receive the requests of others. Returns the leader that
    /// continues instead of this one, if there is one.
    pub(super) async fn meet(
        client: Client,
        subject: String,
        me: Leader,
    ) -> Result<Result<Self, Leader>, PublishError> {
        let subject = Subject::from(subject);
        if let Some(leader) = ask(&client, &subject, me).await? {
            return Ok(Err(leader));
        }
        let requests = client.subscribe(subject.clone()).await.map_err(broker)?;
        // Another leader that asked at the same moment got no answer. Both announce themselves.
        client.publish(subject.clone(), introduction(&me, true).into()).await.map_err(broker)?;
        Ok(Ok(Self { client, subject, me, requests }))
    }

    /// Answers requests until a leader comes that continues instead of this one, and returns that one.
    pub(super) async fn answer(&mut self) -> Result<Leader, PublishError> {
        loop {
            let message = self.requests.next().await.ok_or_else(|| broker("the connection was closed"))?;
            let Some(Introduction { leader, leads }) = read(&message.payload) else { continue };
            if !self.me.is_rival(&leader) {
                continue;
            }
            if leader.replaces(&self.me) || (leads && leader.precedes(&self.me)) {
                return Ok(leader);
            }
            self.reply(message).await?;
        }
    }

    /// Sends this leader to the one that asked. An announcement is answered by another one.
    async fn reply(&self, to: Message) -> Result<(), PublishError> {
        let subject = to.reply.unwrap_or_else(|| self.subject.clone());
        self.client.publish(subject, introduction(&self.me, true).into()).await.map_err(broker)
    }
}

/// Asks for leaders of the feed. Returns one that `me` does not replace.
async fn ask(client: &Client, subject: &Subject, me: Leader) -> Result<Option<Leader>, PublishError> {
    let inbox = client.new_inbox();
    let mut replies = client.subscribe(inbox.clone()).await.map_err(broker)?;
    let question = introduction(&me, false).into();
    client.publish_with_reply(subject.clone(), inbox, question).await.map_err(broker)?;
    let until = Instant::now() + ANSWER_WITHIN;
    while let Ok(Some(reply)) = timeout_at(until, replies.next()).await {
        if reply.status == Some(StatusCode::NO_RESPONDERS) {
            break;
        }
        let leader = read(&reply.payload).map(|introduction| introduction.leader);
        if let Some(leader) = leader.filter(|leader| me.is_rival(leader) && !me.replaces(leader)) {
            return Ok(Some(leader));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use noetl_domain::feed::{FeedId, FeedOwner};

    #[test]
    fn introductions_round_trip_and_other_texts_are_ignored() {
        let owner = FeedOwner { feed: FeedId::new(1), system_identifier: 7, timeline: 2 };
        let me = Leader { owner, database: 5, started: 50 };
        for leads in [false, true] {
            assert_eq!(read(introduction(&me, leads).as_bytes()), Some(Introduction { leader: me, leads }));
        }
        for text in ["", "leads", "leads x 1 2 3 4", "other 5 1 2 3 4", "leads 5 1 2 3"] {
            assert_eq!(read(text.as_bytes()), None, "{text}");
        }
    }
}
