//! A read of given executions opens only the partitions of events that can have them, so it does not cost more with each
//! quarter.

use std::collections::BTreeSet;

use noetl_testkit::QUIET;
use noetl_testkit::plans::deployment_with_plans;
use serde_json::{Value, json};

/// Partitions of ids before all others.
const OLD: i64 = 20;

/// Adds the names of the tables that a plan opens.
fn tables(node: &Value, found: &mut BTreeSet<String>) {
    found.extend(node["Relation Name"].as_str().map(str::to_owned));
    for child in node["Plans"].as_array().into_iter().flatten() {
        tables(child, found);
    }
}

#[tokio::test]
async fn reads_of_given_executions_open_only_the_partitions_of_their_events() {
    let (deployment, mut log, _postgres) = deployment_with_plans().await;
    let mut database = deployment.cluster().await;
    for n in 1..=OLD {
        let partition = format!(
            "CREATE TABLE noetl.event_old{n} PARTITION OF noetl.event
             FOR VALUES FROM ({n}000000000000) TO ({}000000000000)",
            n + 1
        );
        sqlx::query(sqlx::AssertSqlSafe(partition)).execute(&mut database).await.unwrap();
    }
    let server = deployment.replica_with(&QUIET).await;
    let (first, second) = (server.start_execution().await, server.start_execution().await);
    for id in [first, second] {
        let event = |n: i64, event_type: &str| {
            let event_id = (id + n).to_string();
            json!({ "executionId": id.to_string(), "eventId": event_id, "type": event_type, "nodeName": "work" })
        };
        let sent = server.project(&[event(10, "step.enter"), event(11, "playbook.completed")]).await;
        assert_eq!(sent["projected"], 2, "{sent}");
    }
    assert_eq!(server.advance_projections(&[first]).await["failed"], json!([]));
    let own: String = sqlx::query_scalar("SELECT DISTINCT tableoid::regclass::text FROM noetl.event")
        .fetch_one(&mut database)
        .await
        .unwrap();
    log.plans();
    let fields = "status error context result workload
                  steps { nodes { name status } } events(first: 5) { nodes { id context } }";
    let query = format!(
        "query($id: ID!) {{ execution(id: $id) {{ {fields} }} executions(first: 5) {{ nodes {{ {fields} }} }} }}"
    );
    let read = server.data(&query, json!({ "id": first.to_string() })).await;
    assert_eq!(read["execution"]["status"], "COMPLETED", "{read}");
    assert_eq!(read["executions"]["nodes"].as_array().unwrap().len(), 2, "{read}");
    // The housekeeping task that searches all logs may run at the same time.
    let is_read = |text: &str| text.contains("noetl.event") && !text.starts_with("WITH RECURSIVE log AS");
    let of_request = |plan: &Value| plan["Query Text"].as_str().is_some_and(is_read);
    let plans: Vec<Value> = log.plans().into_iter().filter(of_request).collect();
    assert!(plans.len() >= 4, "{}", plans.len());
    for plan in plans {
        let mut found = BTreeSet::new();
        tables(&plan["Plan"], &mut found);
        let partitions: Vec<&String> = found.iter().filter(|table| table.starts_with("event_")).collect();
        assert!(partitions.iter().all(|table| own.ends_with(*table)), "{partitions:?}\n{plan:#}");
    }
}
