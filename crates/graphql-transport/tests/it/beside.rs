//! The routes beside the API have limits too: of the body, of the time, and of the requests in flight.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{Request, StatusCode};
use axum::routing::{get, post};
use bytes::Bytes;
use futures::stream;
use graphql_transport::{Limits, limited};
use tokio::sync::Notify;
use tower::ServiceExt;

const SHORT: Duration = Duration::from_millis(100);

fn routes(limits: &Limits, end: &Arc<Notify>) -> Router {
    let end = Arc::clone(end);
    let waiting = get(async move || end.notified().await);
    let routes = Router::new().route("/waiting", waiting).route("/livez", get(async || "ok"));
    limited(routes.route("/form", post(async |body: String| body)), limits, &["/livez"])
}

async fn status(routes: &Router, request: Request<Body>) -> StatusCode {
    routes.clone().oneshot(request).await.unwrap().status()
}

fn request(method: &str, path: &str, body: Body) -> Request<Body> {
    Request::builder().method(method).uri(path).body(body).unwrap()
}

#[tokio::test]
async fn bodies_of_other_routes_have_a_size_and_a_time() {
    let limits = Limits { body_timeout: SHORT, ..Limits::default() };
    let routes = routes(&limits, &Arc::default());
    assert_eq!(status(&routes, request("POST", "/form", "x".repeat(60_000).into())).await, StatusCode::OK);
    let large = request("POST", "/form", "x".repeat(70_000).into());
    assert_eq!(status(&routes, large).await, StatusCode::PAYLOAD_TOO_LARGE);
    let silent = Body::from_stream(stream::pending::<Result<Bytes, Infallible>>());
    assert_eq!(status(&routes, request("POST", "/form", silent)).await, StatusCode::REQUEST_TIMEOUT);
}

#[tokio::test]
async fn other_routes_have_a_deadline() {
    let routes = routes(&Limits { deadline: SHORT, ..Limits::default() }, &Arc::default());
    assert_eq!(status(&routes, request("GET", "/waiting", Body::empty())).await, StatusCode::SERVICE_UNAVAILABLE);
}

#[tokio::test]
async fn other_routes_have_slots_and_probes_need_none() {
    let end = Arc::default();
    // An eighth of the requests is for other routes, and a quarter of it for one caller.
    let routes = routes(&Limits { requests: 32, caller_share: 25, ..Limits::default() }, &end);
    let waiting = tokio::spawn(routes.clone().oneshot(request("GET", "/waiting", Body::empty())));
    let form = async || status(&routes, request("POST", "/form", Body::empty())).await;
    tokio::time::timeout(Duration::from_mins(1), async {
        while form().await != StatusCode::SERVICE_UNAVAILABLE {
            tokio::task::yield_now().await;
        }
    })
    .await
    .expect("the only slot is taken");
    assert_eq!(status(&routes, request("GET", "/livez", Body::empty())).await, StatusCode::OK);
    end.notify_one();
    assert_eq!(waiting.await.unwrap().unwrap().status(), StatusCode::OK);
    assert_eq!(form().await, StatusCode::OK);
}

#[tokio::test]
async fn other_routes_have_two_slots_whatever_the_limit_of_the_api_is() {
    for requests in [1, 8] {
        let end = Arc::default();
        let routes = routes(&Limits { requests, caller_share: 100, ..Limits::default() }, &end);
        let waiting = || routes.clone().oneshot(request("GET", "/waiting", Body::empty()));
        let ending = async {
            for _ in 0..10_000 {
                end.notify_one();
                tokio::task::yield_now().await;
            }
        };
        // Both are polled before the first one can end.
        let (first, second) = tokio::select! {
            biased;
            both = async { tokio::join!(waiting(), waiting()) } => both,
            () = ending => panic!("they do not end"),
        };
        assert_eq!([first.unwrap().status(), second.unwrap().status()], [StatusCode::OK; 2], "{requests}");
    }
}
