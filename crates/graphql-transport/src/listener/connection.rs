//! One connection, from its acceptance to its end.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::either::Either;

use super::Shared;
use super::service::Requests;
use super::slots::ConnectionSlot;
use super::socket::Socket;

/// Time in which a request in transit may still arrive before the shutdown closes its idle connection.
const LINGER: Duration = Duration::from_millis(500);

/// Serves a connection until it ends, times out or is evicted.
pub(super) async fn serve(shared: Arc<Shared>, stream: TcpStream, slot: ConnectionSlot) {
    tokio::select! {
        () = slot.evicted() => {}
        () = connect(&shared, stream, slot.clone()) => {}
    }
}

async fn connect(shared: &Arc<Shared>, stream: TcpStream, slot: ConnectionSlot) {
    let stream = match &shared.tls {
        None => Either::Left(stream),
        Some(tls) => match timeout(shared.limits.header_timeout, tls.accept(stream)).await {
            Ok(Ok(stream)) => Either::Right(Box::new(stream)),
            Ok(Err(error)) => return tracing::debug!(%error, "a TLS handshake failed"),
            Err(_) => return,
        },
    };
    let socket = Socket::new(stream, slot.clone(), shared.limits.write_timeout);
    let requests = Requests { shared: Arc::clone(shared), slot: slot.clone() };
    let mut http = pin!(shared.http.serve_connection_with_upgrades(TokioIo::new(socket), requests));
    let mut overdue = pin!(overdue(shared, &slot));
    let mut retirement = pin!(retirement(shared, &slot));
    let mut abandonment = pin!(abandonment(shared, &slot));
    let mut retired = false;
    loop {
        tokio::select! {
            ended = http.as_mut() => {
                if let Err(error) = ended {
                    tracing::debug!(%error, "a connection failed");
                }
                return;
            }
            () = overdue.as_mut() => return,
            () = abandonment.as_mut() => return,
            () = retirement.as_mut(), if !retired => {
                retired = true;
                http.as_mut().graceful_shutdown();
            }
        }
    }
}

/// Waits until the connection has been without a request for too long, or its client has left a response unread.
async fn overdue(shared: &Shared, slot: &ConnectionSlot) {
    let limits = &shared.limits;
    let step = limits.header_timeout.min(limits.keep_alive).min(limits.write_timeout);
    loop {
        if slot.leaves_unread(limits.write_timeout) {
            return tracing::debug!("a client leaves a response unread");
        }
        match slot.due(&shared.limits) {
            Some(due) if due <= Instant::now() => return,
            // A request head that begins in the meantime has an earlier deadline, but not before the step ends.
            Some(due) => sleep_until(due.min(Instant::now() + step)).await,
            None => sleep(step).await,
        }
    }
}

/// Waits until the connection should take no more requests. This is at `draining` for HTTP/2, whose GOAWAY tells the
/// client which requests were taken. HTTP/1 can only close an idle connection, so it waits until requests in transit
/// have arrived after `closing`.
async fn retirement(shared: &Shared, slot: &ConnectionSlot) {
    shared.draining.cancelled().await;
    if !slot.is_http2() {
        shared.closing.cancelled().await;
        sleep(LINGER).await;
    }
}

/// Waits until the listener is closed and the connection has no request in flight. A request whose head is still
/// incomplete then is not accepted.
async fn abandonment(shared: &Shared, slot: &ConnectionSlot) {
    shared.closing.cancelled().await;
    sleep(LINGER * 2).await;
    while slot.due(&shared.limits).is_none() {
        sleep(LINGER).await;
    }
}
