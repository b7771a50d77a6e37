//! Live connections end when the admission of their caller ends.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use graphql_transport::Admitted;
use reqwest::header::ACCEPT;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::server::{Server, client, reaches, soon};

const EXPIRED: (u16, &str) = (4403, "The token has expired or was withdrawn");

/// Starts a server that admits every caller with the given expiry time and revocation.
async fn admitting(expires_at: Option<Instant>, revoked: CancellationToken) -> Server {
    Server::with(|edge| {
        edge.admit = Some(Arc::new(move |_| {
            let anonymous = Admitted::anonymous(Arc::new(|request| request));
            let admitted = Admitted { expires_at, revoked: revoked.clone(), ..anonymous };
            std::future::ready(Ok(admitted)).boxed()
        }));
    })
    .await
}

/// Opens an event stream of `subscription { silent }`. Returns a future of its whole text.
async fn event_stream(server: &Server) -> impl Future<Output = String> {
    let url = server.url_with("/graphql/stream", &[("query", "subscription { silent }")]);
    let response = client().get(url).header(ACCEPT, "text/event-stream").send().await.unwrap();
    async { soon(response.text()).await.unwrap() }
}

fn assert_expired(text: &str) {
    let last = text.split_once("event: next\ndata: {\"errors\"").expect(text).1;
    assert!(last.contains("UNAUTHENTICATED") && last.ends_with("\n\nevent: complete\ndata:\n\n"), "{text}");
}

#[tokio::test]
async fn live_connections_end_when_the_admission_expires() {
    let server = admitting(Some(Instant::now() + Duration::from_secs(1)), CancellationToken::new()).await;
    let mut socket = server.socket().await;
    socket.subscribe("1", "subscription { silent }").await;
    let stream = event_stream(&server).await;
    let (code, reason) = socket.close().await;
    assert_eq!((code, reason.as_str()), EXPIRED);
    assert_expired(&stream.await);
    reaches(&server.probe.ended, 2).await;
}

#[tokio::test]
async fn live_connections_end_when_the_admission_is_withdrawn() {
    let revoked = CancellationToken::new();
    let server = admitting(None, revoked.clone()).await;
    let mut socket = server.socket().await;
    socket.subscribe("1", "subscription { endless(bytes: 100) }").await;
    socket.next().await;
    let stream = event_stream(&server).await;
    revoked.cancel();
    let (code, reason) = socket.close().await;
    assert_eq!((code, reason.as_str()), EXPIRED);
    assert_expired(&stream.await);
    reaches(&server.probe.ended, 2).await;
}
