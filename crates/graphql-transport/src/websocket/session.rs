//! One socket, from its handshake to its close.
//!
//! A server has many sockets, and most of them are idle, so a session is small. It is one heap allocation, and the
//! futures of rare actions are boxed, so they take memory only while they run.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use async_graphql::Executor;
use async_graphql::parser::types::OperationType;
use axum::extract::ws::{Message, WebSocket};
use futures::{FutureExt, SinkExt, StreamExt};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at, sleep_until, timeout, timeout_at};

use super::super::admission::Caller;
use super::super::edge::{AdmittedCaller, LiveConnection, TransportState};
use super::super::limits::Limits;
use super::super::listener::{Busy, Peer};
use super::super::observe;
use super::super::operation::Operation;
use super::super::operation_error::Limit;
use super::super::rejection::RequestRejection;
use super::super::reply::Reply;
use super::super::resources::{CallerKey, ResourceGuard, Taken};
use super::super::transport::Transport;
use super::PROTOCOL;
use super::close::Close;
use super::message::{Incoming, Outgoing, parameters};
use super::operations::Operations;

/// Maximum number of replies that are sent before the socket is read again. So messages of the client are also read
/// while a subscription sends without a pause.
const BURST: usize = 32;

pub(super) struct Session<E> {
    state: Arc<TransportState<E>>,
    limits: Limits,
    socket: WebSocket,
    operations: Operations,
    caller: Caller,
    /// The admitted client; `None` before its `connection_init`.
    client: Option<AdmittedClient<E>>,
    init_deadline: Instant,
    keepalive: Interval,
    last_received: Instant,
    /// Whether the server is shutting down. No more operations begin then.
    closing: bool,
    peer: Option<Peer>,
}

/// An admitted client, with its counted connection and the guard that keeps the upgraded HTTP connection open.
struct AdmittedClient<E> {
    caller: AdmittedCaller<E>,
    connection: LiveConnection,
    _busy: Option<Busy>,
}

/// Event that a socket handles.
enum Event {
    Closing,
    Received(Option<Result<Message, axum::Error>>),
    Reply(Message),
    Keepalive,
    InitDeadline,
    Evicted,
    Expired,
}

impl<E: Executor> Session<E> {
    pub(super) fn new(
        state: Arc<TransportState<E>>,
        socket: WebSocket,
        caller: Caller,
        peer: Option<Peer>,
    ) -> Box<Self> {
        peer.iter().for_each(Peer::upgraded);
        let limits = *state.limits();
        let started = Instant::now();
        let mut keepalive = interval_at(started + limits.keepalive, limits.keepalive.max(Duration::from_millis(1)));
        keepalive.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Box::new(Self {
            state,
            limits,
            socket,
            operations: Operations::default(),
            caller,
            client: None,
            init_deadline: started + limits.init_timeout,
            keepalive,
            last_received: started,
            closing: false,
            peer,
        })
    }

    /// Serves the socket until it ends. Its operations end before it is closed.
    pub(super) async fn run(mut self: Box<Self>) {
        let close = self.serve().await;
        self.operations = Operations::default();
        self.client = None;
        tracing::debug!(code = close.code(), reason = %close, "a WebSocket ends");
        self.close(&close).boxed().await;
    }

    async fn serve(&mut self) -> Close {
        if self.socket.protocol().is_none_or(|protocol| protocol != PROTOCOL) {
            return Close::Subprotocol;
        }
        loop {
            let event = self.event().await;
            if let Err(close) = self.handle(event).await {
                return close;
            }
            // During a shutdown the socket stays open until its queries and mutations have ended, each by its deadline.
            if self.closing && self.operations.len() == 0 {
                return Close::Restart;
            }
        }
    }

    async fn event(&mut self) -> Event {
        tokio::select! {
            () = self.state.closing.cancelled(), if !self.closing => Event::Closing,
            received = self.socket.next() => Event::Received(received),
            message = self.operations.next() => Event::Reply(message),
            _ = self.keepalive.tick() => Event::Keepalive,
            event = admission(self.client.as_ref(), self.peer.as_ref(), self.init_deadline) => event,
        }
    }

    async fn handle(&mut self, event: Event) -> Result<(), Close> {
        match event {
            Event::Closing => {
                self.closing = true;
                self.operations.stop_live();
                Ok(())
            }
            Event::InitDeadline => Err(Close::InitTimeout),
            Event::Evicted => Err(Close::Overloaded),
            Event::Expired => Err(Close::Expired),
            Event::Keepalive if self.last_received.elapsed() > self.limits.idle_timeout => Err(Close::IdleTimeout),
            Event::Keepalive => self.send(Message::Ping(bytes::Bytes::new())).await,
            Event::Reply(message) => self.send(message).await,
            Event::Received(None) => Err(Close::Gone),
            Event::Received(Some(Err(error))) => Err(Close::from_read_error(error)),
            Event::Received(Some(Ok(message))) => {
                self.last_received = Instant::now();
                self.peer.iter().for_each(Peer::message_read);
                self.receive(message).boxed().await
            }
        }
    }

    async fn receive(&mut self, message: Message) -> Result<(), Close> {
        match message {
            Message::Text(text) if text.len() > self.limits.message_bytes => {
                Err(Close::TooBig("The message is too big"))
            }
            Message::Text(text) => self.handle_message(Incoming::parse(&text)?).await,
            Message::Binary(_) => Err(Close::BadMessage("Messages must be text".into())),
            // The library has queued the pong. It is sent before the next read, because a client that only sends pings
            // would fill the queue otherwise.
            Message::Ping(_) => self.flush().await,
            Message::Pong(_) => Ok(()),
            Message::Close(_) => Err(Close::Gone),
        }
    }

    async fn handle_message(&mut self, message: Incoming) -> Result<(), Close> {
        match message {
            Incoming::ConnectionInit { payload } => self.init(payload).await,
            Incoming::Ping => self.send(Outgoing::Pong.to_message()).await,
            Incoming::Pong => Ok(()),
            Incoming::Subscribe { id, payload } => self.subscribe(id, payload).await,
            Incoming::Complete { id } => {
                self.operations.stop(&id);
                Ok(())
            }
        }
    }

    async fn init(&mut self, payload: Option<Map<String, Value>>) -> Result<(), Close> {
        if self.client.is_some() {
            return Err(Close::TooManyInits);
        }
        let caller = Caller { init: payload, ..std::mem::take(&mut self.caller) };
        let admitted = timeout_at(self.init_deadline, self.state.admit(caller)).await;
        let admitted = admitted.map_err(|_| Close::InitTimeout)?.map_err(|rejection| {
            rejection.count(Transport::WebSocket);
            Close::Forbidden
        })?;
        let connection =
            self.state.connect(Transport::WebSocket, &admitted.key).map_err(|rejection| match rejection {
                RequestRejection::Closing => Close::Restart,
                _ => Close::Overloaded,
            })?;
        let busy = self.peer.as_ref().map(Peer::hold);
        self.client = Some(AdmittedClient { caller: admitted, connection, _busy: busy });
        self.send(Outgoing::ConnectionAck.to_message()).await
    }

    async fn subscribe(&mut self, id: String, payload: Box<RawValue>) -> Result<(), Close> {
        let Some(AdmittedClient { caller, .. }) = &self.client else {
            return Err(Close::Unauthorized);
        };
        let (engine, key) = (caller.engine.for_operation(&id), &caller.key);
        if self.operations.contains(&id) {
            return Err(Close::Duplicate(id));
        }
        let parameters = parameters(payload)?;
        let running = self.operations.len() as u64 + 1;
        let within_limit = Limit::OperationsPerSocket.check(running, self.limits.operations_per_socket as u64);
        let within_limit = within_limit.inspect_err(|error| observe::operation_error(Transport::WebSocket, error));
        let parameters = within_limit.and(parameters);
        let checked = parameters.and_then(|parameters| engine.check(parameters, Transport::WebSocket));
        match checked.map(|operation| (self.take(key, &operation), operation)) {
            Ok((Ok(taken), operation)) => {
                let live = operation.kind == OperationType::Subscription;
                let replies = taken.with(engine.replies(operation, Transport::WebSocket));
                self.operations.start(id, replies, live);
                Ok(())
            }
            Ok((Err(rejection), _)) => {
                rejection.count(Transport::WebSocket);
                self.send(Outgoing::Error { id: &id, payload: &rejection.reply().errors }.to_message()).await
            }
            Err(error) => {
                let reply = Reply::from(error);
                self.send(Outgoing::Error { id: &id, payload: &reply.errors }.to_message()).await
            }
        }
    }

    /// Takes what an operation needs until its end.
    fn take(&self, key: &CallerKey, operation: &Operation) -> Result<Taken, RequestRejection> {
        if self.closing {
            return Err(RequestRejection::Closing);
        }
        Ok(self.state.slot(key)?.until_end(operation.kind, operation.text_bytes)?)
    }

    /// Counts a large message as buffered while it is sent. Closes the socket as slow if too many bytes are buffered.
    fn buffer(&self, message: &Message) -> Result<Option<ResourceGuard>, Close> {
        match (message, &self.client) {
            (Message::Text(text), Some(client)) => client.connection.buffer(text.len()).map_err(|_| Close::Slow),
            _ => Ok(None),
        }
    }

    /// Sends a message together with other messages that are ready, up to [`BURST`]. Each has the time limit of its own.
    async fn send(&mut self, message: Message) -> Result<(), Close> {
        let (mut buffered, mut next, mut rest) = (Vec::new(), Some(message), BURST);
        while let Some(message) = next {
            buffered.extend(self.buffer(&message)?);
            sent(timeout(self.limits.send_timeout, self.socket.feed(message)).await)?;
            rest -= 1;
            next = if rest > 0 { self.operations.ready() } else { None };
        }
        self.flush().await
    }

    async fn flush(&mut self) -> Result<(), Close> {
        sent(timeout(self.limits.send_timeout, self.socket.flush()).await)
    }

    /// Sends the close frame, then waits until the client closes, so that the client can read the reason.
    async fn close(&mut self, close: &Close) {
        let socket = &mut self.socket;
        let closing = async move {
            if let Some((code, message)) = close.code().zip(close.message()) {
                socket.send(message).await?;
                observe::socket_close(code);
            }
            while socket.next().await.transpose()?.is_some() {}
            Ok::<_, axum::Error>(())
        };
        // The result does not matter: the connection ends in any case.
        let _: Result<Result<(), axum::Error>, _> = timeout(self.limits.close_timeout, closing).await;
    }
}

/// Waits for the end of a socket's admission. Before the admission, waits for the deadline of `connection_init` or for
/// the eviction of the connection.
async fn admission<E>(client: Option<&AdmittedClient<E>>, peer: Option<&Peer>, init_deadline: Instant) -> Event {
    if let Some(client) = client {
        client.caller.admitted.ended().await;
        return Event::Expired;
    }
    let evicted = async {
        match peer {
            Some(peer) => peer.evicted().await,
            None => pending().await,
        }
    };
    tokio::select! {
        () = sleep_until(init_deadline) => Event::InitDeadline,
        () = evicted => Event::Evicted,
    }
}

fn sent(result: Result<Result<(), axum::Error>, tokio::time::error::Elapsed>) -> Result<(), Close> {
    result.map_err(|_| Close::Slow)?.map_err(|_| Close::Gone)
}
