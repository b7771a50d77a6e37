//! The operations that run on one socket, by id.

use std::collections::HashMap;
use std::future::pending;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::extract::ws::Message;
use futures::stream::{AbortHandle, Abortable, BoxStream, SelectAll};
use futures::{FutureExt, Stream, StreamExt};

use super::super::reply::Reply;
use super::message::Outgoing;

/// What runs on a socket. An id is taken from `start` to `stop`, or until its operation's last message is handed out.
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

    /// Runs an operation under an id that is free; a `live` one has no end of its own.
    pub(super) fn start(&mut self, id: String, replies: BoxStream<'static, Reply>, live: bool) {
        let (abort, registration) = AbortHandle::new_pair();
        self.handles.insert(id.clone(), Handle { abort, live });
        self.running.push(Abortable::new(Running { id, replies: Some(replies) }, registration));
    }

    /// Ends an operation without a word; nothing more of it is handed out.
    pub(super) fn stop(&mut self, id: &str) {
        if let Some(handle) = self.handles.remove(id) {
            handle.abort.abort();
        }
    }

    /// Ends all subscriptions without a word; queries and mutations continue.
    pub(super) fn stop_live(&mut self) {
        self.handles.retain(|_, handle| {
            if handle.live {
                handle.abort.abort();
            }
            !handle.live
        });
    }

    /// The next message of any operation; waits for ever while there is none. Safe to cancel.
    pub(super) async fn next(&mut self) -> Message {
        match self.running.next().await {
            Some(emission) => self.hand_out(emission),
            None => pending().await,
        }
    }

    /// A message that is there already.
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

/// A message, and whether it ends its operation.
struct Emission {
    id: String,
    message: Message,
    last: bool,
}

/// The messages of one operation: `next` for each answer and `complete`, or `error` for one that did not run.
struct Running {
    id: String,
    replies: Option<BoxStream<'static, Reply>>,
}

impl Running {
    fn emit(&self, message: &Outgoing<'_>, last: bool) -> Emission {
        Emission { id: self.id.clone(), message: message.to_message(), last }
    }
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
            Some(reply) if reply.executed() => (Outgoing::Next { id, payload: reply }, false),
            Some(reply) => (Outgoing::Error { id, payload: &reply.errors }, true),
            None => (Outgoing::Complete { id }, true),
        };
        let emission = this.emit(&message, last);
        if last {
            this.replies = None;
        }
        Poll::Ready(Some(emission))
    }
}
