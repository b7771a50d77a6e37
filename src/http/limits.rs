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
    /// How long a query or mutation may run. Default 15 s.
    pub deadline: Duration,
    /// Open sockets and event streams together. Default 10,000.
    pub connections: usize,
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
            deadline: Duration::from_secs(15),
            connections: 10_000,
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
