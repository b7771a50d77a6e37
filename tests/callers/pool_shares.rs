//! One caller can't use all connections to a database: others get theirs, whatever it asks for.

use std::fmt::Write;

use futures::future::join_all;
use noetl_testkit::feed::run;
use noetl_testkit::{Deployment, TokenFile, eventually};
use serde_json::Value;

#[tokio::test]
async fn a_caller_with_many_slow_counts_leaves_connections_to_others() {
    let tokens = TokenFile::new();
    let of = |subject| tokens.add(&["--role", "viewer", "--subject", subject]);
    let (attacker, victim) = (of("attacker"), of("victim"));
    let deployment = Deployment::start(0).await;
    let (name, path) = tokens.setting();
    let server = deployment.replica_with(&[(name, &path), ("NOETL_PROJECTOR", "false")]).await;
    let mut holder = deployment.cluster().await;
    // The counts wait for the table until their time is over.
    run(&mut holder, "BEGIN; LOCK TABLE noetl.execution IN ACCESS EXCLUSIVE MODE").await;
    let mut counts = String::from("{");
    for n in 0..20 {
        write!(counts, " c{n}: executions(first: 1, filter: {{ path: \"p{n}\" }}) {{ totalCount {{ value }} }}")
            .unwrap();
    }
    counts.push('}');
    let attack = join_all((0..12).map(|_| server.send_as(&attacker, &counts, Value::Null)));
    let waiting = "SELECT count(*) FROM pg_stat_activity
                   WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%noetl.execution%'";
    let innocent = async {
        eventually("the counts wait", async || (deployment.in_cluster(waiting).await > 3).then_some(())).await;
        let mut served = 0;
        for _ in 0..20 {
            let answer = server.send_as(&victim, "{ catalogEntries(first: 5) { nodes { id } } }", Value::Null).await;
            assert_eq!(answer.get("errors"), None, "{answer}");
            served += usize::from(deployment.in_cluster(waiting).await > 0);
        }
        run(&mut holder, "ROLLBACK").await;
        served
    };
    let (_, served) = tokio::join!(attack, innocent);
    assert!(served > 0, "the counts did not wait while the other caller was served");
}
