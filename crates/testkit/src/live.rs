//! A WebSocket client for live subscriptions and other operations (the graphql-transport-ws protocol).

use futures::{SinkExt, StreamExt};
use reqwest::StatusCode;
use reqwest::header::HeaderMap;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::{Error, Message, Utf8Bytes};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

use super::WAIT_TIMEOUT;

/// A WebSocket of the server.
pub struct Live {
    socket: WebSocketStream<MaybeTlsStream<TcpStream>>,
    /// The server's close code, if the server closed the socket with one.
    pub close_code: Option<u16>,
}

/// The server's response to the request for a WebSocket.
pub struct Handshake {
    /// Status of the response.
    pub status: StatusCode,
    /// Headers of the response.
    pub headers: HeaderMap,
    /// The socket, unless the server refused it. No message was sent on it.
    pub socket: Option<Live>,
}

impl Handshake {
    /// Requests a socket with the given headers. Returns `None` if the server is unreachable.
    pub async fn new(url: &str, headers: &[(&'static str, &str)]) -> Option<Self> {
        let mut request = format!("{}/graphql", url.replacen("http", "ws", 1)).into_client_request().unwrap();
        request.headers_mut().insert("sec-websocket-protocol", "graphql-transport-ws".parse().unwrap());
        for (name, value) in headers {
            request.headers_mut().insert(*name, value.parse().unwrap());
        }
        let (response, socket) = match connect_async(request).await {
            Ok((socket, response)) => (response, Some(Live { socket, close_code: None })),
            Err(Error::Http(response)) => (*response, None),
            Err(_) => return None,
        };
        Some(Self { status: response.status(), headers: response.headers().clone(), socket })
    }
}

impl Live {
    /// Opens a live subscription that the server must accept.
    pub async fn open(url: &str, query: &str, variables: Value) -> Self {
        Self::try_open(url, query, variables).await.expect("the server accepts a live subscription")
    }

    /// Opens a live subscription. Returns `None` if the server is unreachable.
    pub async fn try_open(url: &str, query: &str, variables: Value) -> Option<Self> {
        let mut live = Self::init(url, &[], Value::Null).await?;
        assert_eq!(live.message().await?["type"], "connection_ack");
        live.subscribe(query, variables).await?;
        Some(live)
    }

    /// Opens a socket with the given headers and sends `connection_init`, with the payload unless it is null.
    pub async fn init(url: &str, headers: &[(&'static str, &str)], payload: Value) -> Option<Self> {
        let mut live = Handshake::new(url, headers).await?.socket?;
        let payload = if payload.is_null() { json!({}) } else { json!({ "payload": payload }) };
        let mut init = json!({ "type": "connection_init" });
        init.as_object_mut().unwrap().extend(payload.as_object().unwrap().clone());
        live.send(init).await?;
        Some(live)
    }

    /// Starts the first operation on the socket. Call it after the acknowledgement.
    pub async fn subscribe(&mut self, query: &str, variables: Value) -> Option<()> {
        self.subscribe_as("1", query, variables).await
    }

    /// Starts an operation with an id and variables. Returns `None` if the socket has ended.
    pub async fn subscribe_as(&mut self, id: &str, query: &str, variables: Value) -> Option<()> {
        let payload = json!({ "query": query, "variables": variables });
        self.send(json!({ "id": id, "type": "subscribe", "payload": payload })).await
    }

    /// Returns the data of the next item. Returns `None` if the subscription or the socket has ended.
    pub async fn next(&mut self) -> Option<Value> {
        let message = self.message().await?;
        match message["type"].as_str() {
            Some("next") => {
                assert_eq!(message["payload"].get("errors"), None);
                Some(message["payload"]["data"].clone())
            }
            Some("complete") => None,
            other => panic!("{other:?}: {message}"),
        }
    }

    /// Returns the next item as [`Self::next`] does. Also accepts that the subscription ends because the broker is
    /// unreachable.
    pub async fn next_allowing_unavailable(&mut self) -> Option<Value> {
        let mut message = self.message().await?;
        let payload = &message["payload"];
        let errors = if message["type"] == "error" { payload } else { &payload["errors"] };
        if errors.is_array() {
            assert_eq!(
                errors[0]["extensions"],
                json!({ "code": "STREAM_UNAVAILABLE", "retryable": true }),
                "{message}"
            );
            return None;
        }
        (message["type"] == "next").then(|| message["payload"]["data"].take())
    }

    /// Returns the errors that refuse or end the subscription.
    pub async fn errors(&mut self) -> Value {
        let message = self.message().await.expect("the socket stays open");
        match message["type"].as_str() {
            Some("error") => message["payload"].clone(),
            Some("next") if message["payload"]["errors"].is_array() => message["payload"]["errors"].clone(),
            _ => panic!("no errors: {message}"),
        }
    }

    /// Returns the data of the next item without errors. The errors of the items before it have this code.
    pub async fn next_after(&mut self, code: &str) -> Value {
        loop {
            let mut message = self.message().await.expect("the socket stays open");
            assert_eq!(message["type"], "next", "{message}");
            if !message["payload"]["errors"].is_array() {
                return message["payload"]["data"].take();
            }
            assert_eq!(message["payload"]["errors"][0]["extensions"]["code"], code, "{message}");
        }
    }

    /// Returns the first errors, as [`Self::errors`] does. Calls `check` with the data of each item before them.
    pub async fn errors_after(&mut self, mut check: impl FnMut(&Value)) -> Value {
        loop {
            let message = self.message().await.expect("the socket stays open");
            let payload = &message["payload"];
            match message["type"].as_str() {
                Some("error") => return payload.clone(),
                Some("next") if payload["errors"].is_array() => return payload["errors"].clone(),
                Some("next") => check(&payload["data"]),
                _ => panic!("no errors: {message}"),
            }
        }
    }

    /// Closes the socket. A server that stops does not wait for this client then.
    pub async fn close(&mut self) {
        // The server may have closed it before.
        drop(self.socket.close(None).await);
    }

    /// Sends a protocol message. Returns `None` if the socket has ended.
    pub async fn send(&mut self, message: Value) -> Option<()> {
        self.send_text(message.to_string()).await
    }

    /// Sends a text that may be no valid protocol message. Returns `None` if the socket has ended.
    pub async fn send_text(&mut self, text: impl Into<Utf8Bytes>) -> Option<()> {
        self.socket.send(Message::text(text)).await.ok()
    }

    /// Returns the next message. Returns `None` if the socket has ended.
    pub async fn message(&mut self) -> Option<Value> {
        Some(serde_json::from_str(&self.text().await?).unwrap())
    }

    /// Returns the text of the next message. Returns `None` if the socket has ended.
    pub async fn text(&mut self) -> Option<Utf8Bytes> {
        tokio::time::timeout(WAIT_TIMEOUT, self.text_at_any_time()).await.expect("the socket stays silent")
    }

    /// Returns the text of the next message as [`Self::text`] does, but waits without a time limit.
    pub async fn text_at_any_time(&mut self) -> Option<Utf8Bytes> {
        loop {
            match self.socket.next().await? {
                Ok(Message::Text(text)) => return Some(text),
                Ok(Message::Ping(_) | Message::Pong(_)) => {}
                Ok(Message::Close(frame)) => {
                    self.close_code = frame.map(|frame| frame.code.into());
                    return None;
                }
                Ok(_) | Err(_) => return None,
            }
        }
    }
}
