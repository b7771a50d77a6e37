//! The accept loop: serves a router over HTTP/1.1 and HTTP/2, with or without TLS.
//!
//! These guarantees do not depend on the behaviour of clients:
//!
//! - A connection without a request in flight ends after [`header_timeout`](Limits::header_timeout) if its first or
//!   next request head is incomplete, and after [`keep_alive`](Limits::keep_alive) between requests.
//! - A connection ends if its client reads nothing for [`write_timeout`](Limits::write_timeout); unsent data is
//!   dropped. A slow client that continues to read is kept. An HTTP/2 connection also ends if its client gives no window
//!   to one of its responses for this time.
//! - Connections are capped, in total and per address. At the cap a new connection replaces the connection that has
//!   been without a request in flight for the longest time. If all have one, the new connection is refused with 503. So
//!   idle clients never block active ones.
//! - The bytes of incomplete WebSocket messages are capped in total. Above the cap, sockets with a large incomplete
//!   message are closed.
//! - Every request carries its [`Peer`] as an extension.
//!
//! A shutdown has two signals. From `draining` on, responses ask HTTP/1 clients to close, and HTTP/2 clients get a
//! GOAWAY. At `closing` the listener is closed. Idle connections end a short time later, so that requests in transit
//! still arrive. [`Listener::serve`] returns when the last connection has ended. It does not wait for WebSockets.

mod connection;
mod network;
mod service;
mod slots;
mod socket;
mod tls;

use std::io;
use std::net::{Shutdown, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper_util::rt::TokioTimer;
use hyper_util::server::conn::auto::Builder;
use metrics::counter;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::limits::Limits;
use super::metric::Metric;
pub(super) use network::Network;
use service::Tracked;
pub(super) use slots::Busy;
pub use slots::Peer;
use slots::{ConnectionSlot, ConnectionSlots};
pub use tls::{CertificateError, CertificateFiles, Tls};

/// Metrics of listeners. Each listener describes them to the recorder.
pub const METRICS: [Metric; 3] = [
    Metric::gauge("http_connections", &[], "Open HTTP connections and WebSockets"),
    Metric::counter("http_connections_refused_total", &[], "Connections that were refused at the cap on connections"),
    Metric::counter("http_connections_evicted_total", &[], "Idle connections that were closed for a new connection"),
];

/// Response to a connection beyond the cap.
const BUSY: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
/// Pause after the operating system had no file descriptor or memory for a connection.
const EXHAUSTED: Duration = Duration::from_millis(50);

/// Server of a router on a listening socket.
#[derive(Debug, Clone)]
pub struct Listener {
    /// Limits on connections.
    pub limits: Limits,
    /// TLS certificate of the listener; `None` serves without TLS.
    pub tls: Option<Tls>,
    /// Cancelled when clients should move to another replica.
    pub draining: CancellationToken,
    /// Cancelled when no more connections are accepted.
    pub closing: CancellationToken,
}

/// State that all connections of a listener share.
struct Shared {
    limits: Limits,
    tls: Option<Tls>,
    router: Router,
    http: Builder<Tracked>,
    tracker: TaskTracker,
    draining: CancellationToken,
    closing: CancellationToken,
}

impl Listener {
    /// Accepts and serves connections until `closing` is cancelled, then waits until the last connection has ended.
    pub async fn serve(self, socket: TcpListener, router: Router) -> io::Result<()> {
        METRICS.iter().for_each(Metric::describe);
        let Self { limits, tls, draining, closing } = self;
        let slots = Arc::new(ConnectionSlots::new(&limits));
        let tracker = TaskTracker::new();
        let http = http(&limits, &tracker);
        let shared = Arc::new(Shared { limits, tls, router, http, tracker, draining, closing });
        while let Some(accepted) = shared.closing.run_until_cancelled(socket.accept()).await {
            match accepted {
                Ok((stream, address)) => accept(&shared, &slots, stream, address),
                Err(error) if is_of_one_connection(&error) => {}
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    slots.evict_one();
                    sleep(EXHAUSTED).await;
                }
            }
        }
        // Connections that the operating system has already completed may carry requests.
        let socket = socket.into_std()?;
        while let Ok((stream, address)) = socket.accept() {
            stream.set_nonblocking(true)?;
            accept(&shared, &slots, TcpStream::from_std(stream)?, address);
        }
        drop(socket);
        shared.tracker.close();
        shared.tracker.wait().await;
        Ok(())
    }
}

/// Starts a connection's task, or refuses the connection.
fn accept(shared: &Arc<Shared>, slots: &Arc<ConnectionSlots>, stream: TcpStream, address: SocketAddr) {
    let Some(slot) = ConnectionSlot::claim(slots, address) else {
        counter!("http_connections_refused_total").increment(1);
        refuse(stream, shared.tls.is_some());
        return;
    };
    drop(stream.set_nodelay(true));
    shared.tracker.spawn(connection::serve(Arc::clone(shared), stream, slot));
}

/// Closes a connection, with a 503 response if it is not encrypted. Reads what has arrived first, because the operating
/// system would otherwise reset the connection before the client reads the response.
fn refuse(stream: TcpStream, encrypted: bool) {
    if !encrypted {
        let _ = stream.try_read(&mut [0; 4096]);
        let _ = stream.try_write(BUSY);
    }
    let _ = stream.into_std().and_then(|stream| stream.shutdown(Shutdown::Write));
}

fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted)
}

/// Returns the HTTP protocols with their limits. `connection` implements the timeouts of HTTP/1, because they start
/// before the protocol is known.
fn http(limits: &Limits, tracker: &TaskTracker) -> Builder<Tracked> {
    let mut builder = Builder::new(Tracked(tracker.clone()));
    let header_bytes = limits.header_bytes.max(8 << 10);
    builder.http1().header_read_timeout(None).max_buf_size(header_bytes);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(limits.keepalive)
        .keep_alive_timeout(limits.idle_timeout)
        .max_header_list_size(u32::try_from(header_bytes).unwrap_or(u32::MAX))
        .max_concurrent_streams(limits.streams_per_connection)
        .max_send_buf_size(STREAM_BUFFER)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW);
    builder
}

/// Bytes of a response that an HTTP/2 stream buffers before the client has read them.
const STREAM_BUFFER: usize = 64 << 10;
/// Bytes of request bodies that an HTTP/2 client may send before they are read, per stream.
const STREAM_WINDOW: u32 = 256 << 10;
/// Bytes of request bodies that an HTTP/2 client may send before they are read, per connection.
const CONNECTION_WINDOW: u32 = 1 << 20;
