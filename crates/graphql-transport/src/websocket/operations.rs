//! The operations that run on one socket, by id.

use std::collections::HashMap;
use std::future::pending;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::extract::ws::Message;
use futures::stream::{AbortHandle, Abortable, BoxStream, SelectAll};
use futures::{FutureExt, Stream, StreamExt};

use super::super::reply::Reply;
use super::message::{Outgoing, next};

/// Operations that run on one socket. An id is in use from `start` until `stop`, or until the last message of its
/// operation is returned.
#[derive(Default)]
pub(super) struct Operations {
    running: SelectAll<Abortable<Running>>,
    handles: HashMap<String, Handle>,
}

struct Handle {
    abort: AbortHandle,
    live: bool,
}

impl Operations {
    pub(super) fn len(&self) -> usize {
        self.handles.len()
    }

    pub(super) fn contains(&self, id: &str) -> bool {
        self.handles.contains_key(id)
    }

    /// Starts an operation under a free id. `live` marks a subscription.
    pub(super) fn start(&mut self, id: String, replies: BoxStream<'static, Reply>, live: bool) {
        let (abort, registration) = AbortHandle::new_pair();
        self.handles.insert(id.clone(), Handle { abort, live });
        self.running.push(Abortable::new(Running { id, replies: Some(replies) }, registration));
    }

    /// Cancels an operation without a message. None of its messages is returned any more.
    pub(super) fn stop(&mut self, id: &str) {
        if let Some(handle) = self.handles.remove(id) {
            handle.abort.abort();
        }
    }

    /// Cancels all subscriptions without a message. Queries and mutations continue.
    pub(super) fn stop_live(&mut self) {
        self.handles.retain(|_, handle| {
            if handle.live {
                handle.abort.abort();
            }
            !handle.live
        });
    }

    /// Returns the next message of any operation. Waits as long as no operation runs. Safe to cancel.
    pub(super) async fn next(&mut self) -> Message {
        match self.running.next().await {
            Some(emission) => self.hand_out(emission),
            None => pending().await,
        }
    }

    /// Returns the next message if one is ready.
    pub(super) fn ready(&mut self) -> Option<Message> {
        let emission = self.running.next().now_or_never()??;
        Some(self.hand_out(emission))
    }

    fn hand_out(&mut self, emission: Emission) -> Message {
        if emission.last {
            self.handles.remove(&emission.id);
        }
        emission.message
    }
}

/// A message of an operation.
struct Emission {
    id: String,
    message: Message,
    /// Whether the message ends the operation.
    last: bool,
}

/// The messages of one operation: `next` for each reply, then `complete`; or `error` if the operation did not run.
struct Running {
    id: String,
    replies: Option<BoxStream<'static, Reply>>,
}

impl Stream for Running {
    type Item = Emission;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Emission>> {
        let this = &mut *self;
        let Some(replies) = &mut this.replies else {
            return Poll::Ready(None);
        };
        let reply = std::task::ready!(replies.poll_next_unpin(context));
        let id = this.id.as_str();
        let (message, last) = match &reply {
            Some(reply) if reply.executed() => (next(id, reply), false),
            Some(reply) => (Outgoing::Error { id, payload: &reply.errors }.to_message(), true),
            None => (Outgoing::Complete { id }.to_message(), true),
        };
        let emission = Emission { id: this.id.clone(), message, last };
        if last {
            this.replies = None;
        }
        Poll::Ready(Some(emission))
    }
}
