//! What a replica says about itself and about the other replicas.

use noetl_testkit::{Deployment, Server, http_client};
use serde_json::{Value, json};

const REPLICAS: &str =
    "{ server { replica version startedAt } replicas { machineId replica version startedAt leaseExpiresAt } }";

#[tokio::test]
async fn the_list_of_replicas_names_each_running_process_until_its_lease_ends() {
    let deployment = Deployment::start(1).await;
    let (first, mut second) = (deployment.replica().await, deployment.replica().await);
    let listed = async |of: &Server| of.data(REPLICAS, json!({})).await;
    let (data, other) = (listed(&first).await, listed(&second).await["server"].take());
    let replicas = data["replicas"].as_array().unwrap();
    assert_eq!(replicas.len(), 2, "{data}");
    for server in [&data["server"], &other] {
        let same = |replica: &&Value| replica["replica"] == server["replica"];
        let replica = replicas.iter().find(same).unwrap_or_else(|| panic!("{server} is not in {data}"));
        // The database stores microseconds.
        let started = |of: &Value| of["startedAt"].as_str().unwrap()[..19].to_owned();
        assert_eq!((&replica["version"], started(replica)), (&server["version"], started(server)), "{data}");
        assert!(replica["leaseExpiresAt"].is_string());
    }

    // A holder that does not describe itself leaves the description of the last one.
    let held = data["replicas"].as_array().unwrap().iter().find(|of| of["replica"] == other["replica"]).unwrap();
    let held = i16::try_from(held["machineId"].as_i64().unwrap()).unwrap();
    second.kill_9().await;
    assert_eq!(listed(&first).await["replicas"].as_array().unwrap().len(), 2, "the lease is still valid");
    let of_earlier = "UPDATE noetl.machine_lease SET owner = gen_random_uuid(), expires_at = now() + interval '1 hour'
                      WHERE machine_id = $1";
    sqlx::query(of_earlier).bind(held).execute(&mut deployment.cluster().await).await.unwrap();
    let data = listed(&first).await;
    let earlier = data["replicas"].as_array().unwrap().iter().find(|of| of["machineId"] == held).unwrap();
    assert_eq!(
        (&earlier["replica"], &earlier["version"], &earlier["startedAt"]),
        (&Value::Null, &Value::Null, &Value::Null)
    );
    let expired = "UPDATE noetl.machine_lease SET expires_at = now() - interval '1 second' WHERE machine_id = $1";
    sqlx::query(expired).bind(held).execute(&mut deployment.cluster().await).await.unwrap();
    assert_eq!(listed(&first).await["replicas"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_replica_shows_its_settings_and_no_secret() {
    let deployment = Deployment::start(0).await;
    let changed = [
        ("NOETL_POOL_SIZE", "5"),
        ("NOETL_PROJECTOR", "off"),
        ("NOETL_TRACE_URL", "https://jaeger.example/trace/{traceId}"),
        ("NOETL_INTERNAL_API_TOKEN", "secret-of-the-workers-0123456789"),
    ];
    let server = deployment.replica_with(&changed).await;
    let request = http_client()
        .post(format!("{}/graphql", server.url))
        .bearer_auth("secret-of-the-workers-0123456789")
        .json(&json!({ "query": "{ server { features traceUrl settings { name value isDefault } } }" }));
    let text = request.send().await.unwrap().text().await.unwrap();
    assert!(!text.contains("secret") && !text.contains("postgres://"), "{text}");
    let answer: Value = serde_json::from_str(&text).unwrap();
    let info = &answer["data"]["server"];
    let settings = info["settings"].as_array().unwrap();
    for expected in [
        json!({ "name": "NOETL_POOL_SIZE", "value": "5", "isDefault": false }),
        json!({ "name": "NOETL_PROJECTOR", "value": "false", "isDefault": false }),
        json!({ "name": "NOETL_OUTBOX_MAX_ATTEMPTS", "value": "20", "isDefault": true }),
        json!({ "name": "NOETL_DOCUMENTS_MODE", "value": "off", "isDefault": true }),
    ] {
        assert!(settings.contains(&expected), "{expected} is not in {settings:#?}");
    }
    assert!(settings.is_sorted_by_key(|setting| setting["name"].as_str().unwrap().to_owned()));
    assert_eq!(info["traceUrl"], "https://jaeger.example/trace/{traceId}");
    assert!(!info["features"].as_array().unwrap().contains(&json!("PROJECTOR")), "{info}");
}
