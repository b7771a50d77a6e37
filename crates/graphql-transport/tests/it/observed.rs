//! Metrics of the transport. The whole process has one recorder, so other tests count too. The assertions are lower
//! bounds or use labels that no other test uses.

use std::sync::LazyLock;

use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use serde_json::json;

use super::server::Server;

static METRICS: LazyLock<PrometheusHandle> = LazyLock::new(|| PrometheusBuilder::new().install_recorder().unwrap());

fn value(series: &str) -> f64 {
    let text = METRICS.render();
    let line = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    line.map_or(0.0, |value| value.parse().unwrap())
}

#[tokio::test]
async fn operations_refusals_and_connections_are_counted() {
    LazyLock::force(&METRICS);
    let server = Server::start().await;
    server.post("{ hello }").await;
    server.post("{ hello coded }").await;
    server.post("{ panics }").await;
    server.post("{ nothing }").await;
    server.post(&"[".repeat(100)).await;
    let mut socket = server.socket().await;
    socket.subscribe("1", "subscription { silent }").await;
    socket.next().await;
    socket.send(json!({ "type": "nonsense" })).await;
    socket.close().await;

    let of =
        |outcome| format!("graphql_operations_total{{transport=\"post\",operation=\"query\",outcome=\"{outcome}\"}}");
    for outcome in ["ok", "error", "internal"] {
        assert!(value(&of(outcome)) >= 1.0, "{outcome}: {}", METRICS.render());
    }
    assert!(value("graphql_operation_duration_seconds_count{transport=\"post\",operation=\"query\"}") >= 3.0);
    assert!(value("graphql_refusals_total{transport=\"post\",code=\"GRAPHQL_VALIDATION_FAILED\"}") >= 1.0);
    assert!(value("graphql_limit_rejections_total{limit=\"brackets\"}") >= 1.0);
    assert!(value("graphql_refusals_total{transport=\"post\",code=\"LIMIT_EXCEEDED\"}") >= 1.0);
    assert!(value("graphql_socket_closes_total{code=\"4400\"}") >= 1.0);
    assert!(METRICS.render().contains("graphql_connections{transport=\"websocket\"}"));
    assert!(METRICS.render().contains("graphql_operations_active{transport=\"websocket\",operation=\"subscription\"}"));
}
