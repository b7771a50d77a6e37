//! What one client may ask of the edge. Every buffer, queue and wait of this module is bounded by a field of [`Limits`];
//! a request beyond one is refused with `LIMIT_EXCEEDED` and the limit's name, before it costs anything.

use std::time::Duration;

use serde::Serialize;

/// The limits in force, with their defaults.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Limits {
    /// Bytes of a POST body. Big, since a batch of projected events travels in the variables. Default 16 MiB.
    pub body_bytes: usize,
    /// JSON values in a request's body: a body of tiny values takes many times its size in memory. Default 1,000,000.
    pub json_values: usize,
    /// How long a body may take to arrive. Default 30 s.
    pub body_timeout: Duration,
    /// Longest pause between two parts of a body. Default 10 s.
    pub body_pause: Duration,
    /// Bytes of a GraphQL document. Default 256 KiB.
    pub document_bytes: usize,
    /// Lexical tokens of a document. Default 10,000.
    pub tokens: usize,
    /// Fields inside fields. The introspection query of common tools is 15 deep. Default 15.
    pub depth: usize,
    /// Selection sets inside selection sets, fragments included; the executor itself stops at 32. Default 30.
    pub nesting: usize,
    /// Operations of a document. Default 20.
    pub operations: usize,
    /// Variables that an operation defines. Default 100.
    pub variables: usize,
    /// Arguments of a field or directive. Default 30.
    pub arguments: usize,
    /// Directives of a field, fragment, variable or operation. Default 10.
    pub directives: usize,
    /// Fields and fragments of a document, after its fragments are spread. Default 2,000.
    pub fields: u64,
    /// Aliases of a document, after its fragments are spread. Default 100.
    pub aliases: u64,
    /// The estimated number of values of an answer; see the module `cost`. Default 100,000.
    pub cost: u64,
    /// Bytes of the arguments' values, beyond one use of each variable: a further use counts again, and so does each
    /// element of a list. Default 1 MiB.
    pub argument_bytes: usize,
    /// Comparisons that validation may take to find fields that cannot be merged. Default 50,000.
    pub comparisons: u64,
    /// Errors that are reported of one document. Default 20.
    pub errors: usize,
    /// The page that is assumed where a connection is selected without `first` or `last`. Default 20.
    pub default_page: u64,
    /// Bytes of a response, or of one item of a subscription. Default 32 MiB.
    pub response_bytes: usize,
    /// How long a query or mutation may run. Default 15 s.
    pub deadline: Duration,
    /// Open HTTP connections and WebSockets of a listener. Default 20,000.
    pub connections: usize,
    /// Open WebSockets and event streams together. Default 10,000.
    pub live_connections: usize,
    /// Requests, and queries and mutations on WebSockets, that are read, run or sent at once. Default 1,024.
    pub requests: usize,
    /// Bytes of request bodies and of responses not sent yet, together; also, in total only, bytes of WebSocket messages
    /// that have not arrived whole. Default 256 MiB.
    pub buffered_bytes: usize,
    /// Share of each of the four totals above that one caller may take, in percent. A caller is an authenticated subject,
    /// else an IPv4 address or an IPv6 /64. Default 50.
    pub caller_share: u8,
    /// Time in which a request head, or a TLS handshake, must arrive; also how long a connection may stay open before its
    /// first request. Default 10 s.
    pub header_timeout: Duration,
    /// Bytes of a request head, at least 8 KiB; it has at most 100 fields. Default 64 KiB.
    pub header_bytes: usize,
    /// Time for which a connection may stay open between two requests. Default 75 s.
    pub keep_alive: Duration,
    /// Time for which a client may read nothing of a waiting response before its connection ends. Default 30 s.
    pub write_timeout: Duration,
    /// Requests at once on one HTTP/2 connection. Default 100.
    pub streams_per_connection: u32,
    /// Bytes of one WebSocket message from a client. Default 1 MiB.
    pub message_bytes: usize,
    /// How long a WebSocket may stay open without `connection_init`. Default 3 s.
    pub init_timeout: Duration,
    /// Operations that run at once on one WebSocket. Default 100.
    pub operations_per_socket: usize,
    /// How long a client may take to read what is sent to it. Default 10 s.
    pub send_timeout: Duration,
    /// How often an idle connection is pinged. Default 12 s.
    pub keepalive: Duration,
    /// How long a WebSocket may stay silent, pongs included, before it counts as dead. Default 30 s.
    pub idle_timeout: Duration,
    /// How long a closing WebSocket waits for the client's closing handshake. Default 5 s.
    pub close_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body_bytes: 16 << 20,
            json_values: 1_000_000,
            body_timeout: Duration::from_secs(30),
            body_pause: Duration::from_secs(10),
            document_bytes: 256 << 10,
            tokens: 10_000,
            depth: 15,
            nesting: 30,
            operations: 20,
            variables: 100,
            arguments: 30,
            directives: 10,
            fields: 2_000,
            aliases: 100,
            cost: 100_000,
            argument_bytes: 1 << 20,
            comparisons: 50_000,
            errors: 20,
            default_page: 20,
            response_bytes: 32 << 20,
            deadline: Duration::from_secs(15),
            connections: 20_000,
            live_connections: 10_000,
            requests: 1_024,
            buffered_bytes: 256 << 20,
            caller_share: 50,
            header_timeout: Duration::from_secs(10),
            header_bytes: 64 << 10,
            keep_alive: Duration::from_secs(75),
            write_timeout: Duration::from_secs(30),
            streams_per_connection: 100,
            message_bytes: 1 << 20,
            init_timeout: Duration::from_secs(3),
            operations_per_socket: 100,
            send_timeout: Duration::from_secs(10),
            keepalive: Duration::from_secs(12),
            idle_timeout: Duration::from_secs(30),
            close_timeout: Duration::from_secs(5),
        }
    }
}

impl Limits {
    /// Returns one caller's share of a total, at least 1.
    pub(super) fn per_caller(&self, total: usize) -> usize {
        let share = usize::from(self.caller_share.min(100));
        (total / 100 * share + total % 100 * share / 100).max(1)
    }
}
