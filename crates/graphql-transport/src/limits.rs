//! Limits on the requests of one client. A field of [`Limits`] bounds every buffer, queue and wait of the transport. A
//! request beyond a size limit is refused with `LIMIT_EXCEEDED` and the limit's name, with two exceptions: a request
//! head beyond `header_bytes` gets status 431, and a message beyond `message_bytes` closes its WebSocket with 1009.

use std::time::Duration;

use serde::Serialize;

/// Size in bytes above which a message counts as buffered. The number of connections bounds the smaller ones.
pub(super) const LARGE_MESSAGE_BYTES: usize = 64 << 10;

/// Limits in force. Each is a maximum unless its text says otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Limits {
    /// Bytes of a POST body. Large, because the variables may contain a batch of items. Default 16 MiB.
    pub body_bytes: usize,
    /// JSON values in a request's body. A body of tiny values takes many times its size in memory. Default 1,000,000.
    pub json_values: usize,
    /// Time in which a body must arrive. Default 30 s.
    pub body_timeout: Duration,
    /// Pause between two parts of a body. Default 10 s.
    pub body_pause: Duration,
    /// Bytes of a GraphQL document. Default 256 KiB.
    pub document_bytes: usize,
    /// Lexical tokens of a document. Default 10,000.
    pub tokens: usize,
    /// Depth of nested fields. The introspection query of common tools has depth 15. Default 15.
    pub depth: usize,
    /// Depth of nested selection sets, fragments included. The executor's own limit is 32. Default 30.
    pub nesting: usize,
    /// Operations of a document. Default 20.
    pub operations: usize,
    /// Variables that an operation defines. Default 100.
    pub variables: usize,
    /// Values in the variables that an operation declares. Each 16 bytes of their text allow one more. A value of the
    /// scalar that is carried as text is one value. Default 32,768.
    pub values: usize,
    /// Arguments of a field or directive. Default 30.
    pub arguments: usize,
    /// Directives of a field, fragment, variable or operation. Default 10.
    pub directives: usize,
    /// Fields and fragments of a document, counted after its fragments are spread. Default 2,000.
    pub fields: u64,
    /// Aliases of a document, counted after its fragments are spread. Default 100.
    pub aliases: u64,
    /// Estimated number of values in a response; see the module `cost`. Default 100,000.
    pub cost: u64,
    /// Bytes of the arguments' values. The first use of each variable does not count. Each further use counts, and so
    /// does each element of a list in which the variable is used. Default 1 MiB.
    pub argument_bytes: usize,
    /// Comparisons that validation may make to find fields that can't be merged. Default 50,000.
    pub comparisons: u64,
    /// Errors that are reported for one document. Default 20.
    pub errors: usize,
    /// Page size that is assumed for a connection without `first` and `last`; not a maximum. Default 20.
    pub default_page: u64,
    /// Largest `first` and `last` that the estimated cost takes into account. Set it to the largest page that the
    /// resolvers accept: then a larger one fails its own field, and not the whole operation. Default 100,000.
    pub largest_page: u64,
    /// Largest `limit` that the estimated cost takes into account, as `largest_page`. Default 100,000.
    pub largest_limit: u64,
    /// Number of items that is assumed for a `totalCount` without `upTo`; not a maximum. Default 10,000.
    pub default_count: u64,
    /// Largest `upTo` of a `totalCount` that the estimated cost takes into account, as `largest_page`. Default 100,000.
    pub largest_count: u64,
    /// Bytes of a response, or of one item of a subscription. Default 32 MiB.
    pub response_bytes: usize,
    /// Time for which a query or mutation may run. Default 15 s.
    pub deadline: Duration,
    /// Open HTTP connections and WebSockets of a listener. Default 20,000.
    pub connections: usize,
    /// Open WebSockets and event streams together. Default 10,000.
    pub live_connections: usize,
    /// Bytes of the document and the variables of a subscription. Default 32 KiB.
    pub subscription_bytes: usize,
    /// Estimated memory of all running subscriptions, in bytes: 4 KiB each, and ten times the bytes of their documents and
    /// variables. Default 128 MiB.
    pub live_bytes: usize,
    /// Requests in flight: HTTP requests, and queries and mutations on WebSockets, from admission until there is a
    /// response. Default 1,024.
    pub requests: usize,
    /// Bytes of request bodies and unsent responses together. The same number separately limits the bytes of incomplete
    /// WebSocket messages, in total only. Default 256 MiB.
    pub buffered_bytes: usize,
    /// Share of each of the totals above that one caller may take, in percent. A caller is an authenticated
    /// subject, else an IPv4 address or an IPv6 /64. Default 50.
    pub caller_share: u8,
    /// Time in which a request head, or a TLS handshake, must arrive. Also the time for which a connection may stay
    /// open before its first request. Default 10 s.
    pub header_timeout: Duration,
    /// Bytes of a request head; a value below 8 KiB counts as 8 KiB. A head has at most 100 fields. The HTTP library
    /// refuses a larger head with status 431. Default 64 KiB.
    pub header_bytes: usize,
    /// Time for which a connection may stay open between two requests. Default 75 s.
    pub keep_alive: Duration,
    /// Time without progress in sending a response after which the connection ends. Default 30 s.
    pub write_timeout: Duration,
    /// Requests at once on one HTTP/2 connection. Default 100.
    pub streams_per_connection: u32,
    /// Bytes of one WebSocket message from a client. A larger message closes the socket with 1009. Default 1 MiB.
    pub message_bytes: usize,
    /// Time in which `connection_init` must arrive on a WebSocket. Default 3 s.
    pub init_timeout: Duration,
    /// Operations that run at once on one WebSocket. Default 100.
    pub operations_per_socket: usize,
    /// Time in which a client must read a message of a WebSocket or an event stream. Default 10 s.
    pub send_timeout: Duration,
    /// Interval of WebSocket pings, HTTP/2 pings and stream heartbeats; not a maximum. Default 12 s.
    pub keepalive: Duration,
    /// Time without any message or pong from the client after which a WebSocket is closed. Also the time in which the
    /// pong of an HTTP/2 ping must arrive. Default 30 s.
    pub idle_timeout: Duration,
    /// Time for which a closing WebSocket waits for the client's closing handshake. Default 5 s.
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
            values: 32_768,
            arguments: 30,
            directives: 10,
            fields: 2_000,
            aliases: 100,
            cost: 100_000,
            argument_bytes: 1 << 20,
            comparisons: 50_000,
            errors: 20,
            default_page: 20,
            largest_page: 100_000,
            largest_limit: 100_000,
            default_count: 10_000,
            largest_count: 100_000,
            response_bytes: 32 << 20,
            deadline: Duration::from_secs(15),
            connections: 20_000,
            live_connections: 10_000,
            subscription_bytes: 32 << 10,
            live_bytes: 128 << 20,
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

#[cfg(test)]
mod tests {
    use serde_json::{Map, Value, json};

    use super::*;

    /// Returns the defaults in the table of the README, by the name of the field.
    fn table() -> Map<String, Value> {
        let rows = include_str!("../README.md").lines().filter_map(|line| line.strip_prefix("| `")?.strip_suffix(" |"));
        let cells = rows.filter_map(|row| row.split_once("` | "));
        let limits = cells.filter(|(name, _)| !name.starts_with('/'));
        limits.map(|(name, default)| (name.to_owned(), value(default))).collect()
    }

    fn value(default: &str) -> Value {
        let (number, unit) = default.split_once(' ').unwrap_or((default, ""));
        let number: u64 = number.replace(',', "").parse().unwrap();
        match unit {
            "KiB" => json!(number << 10),
            "MiB" => json!(number << 20),
            "s" => json!({ "secs": number, "nanos": 0 }),
            _ => json!(number),
        }
    }

    #[test]
    fn readme_lists_every_limit_with_its_default() {
        assert_eq!(Value::Object(table()), serde_json::to_value(Limits::default()).unwrap());
    }
}
