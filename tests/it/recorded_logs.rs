//! Event logs that NoETL's server and worker wrote are read as they are: nothing was projected before, and no execution
//! has a row in the list.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use noetl_testkit::{Deployment, Server};
use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, PgConnection};

/// Step fields in which the result differs from NoETL's: file, step, field. docs/design/noetl-results.md has the
/// reasons.
const EXCEPTIONS: [(&str, &str, &str); 2] = [("big_result", "start", "result"), ("tool_exit_1", "start", "error")];

const QUERY: &str = "query($id: ID!) { execution(id: $id) {
    id path status workload steps { name status error result } events(first: 100) { nodes { id } } } }";

/// A recorded execution.
struct Recording {
    name: String,
    rows: Vec<Value>,
    /// Result that NoETL gives.
    noetl: Value,
}

fn recordings() -> Vec<Recording> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/domain/tests/golden");
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let files = files.filter(|path| path.extension().is_some_and(|extension| extension == "json"));
    let read = |path: std::path::PathBuf| {
        let recorded: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        Recording {
            name: path.file_stem().unwrap().to_str().unwrap().to_owned(),
            rows: recorded["events"].as_array().unwrap().clone(),
            noetl: recorded["noetl"].clone(),
        }
    };
    files.map(read).collect()
}

/// Inserts a row with the columns that this database has. Its transaction id is assigned here.
async fn insert(database: &mut PgConnection, row: &Value) {
    let columns: Vec<String> = sqlx::query_scalar(
        "SELECT attname::text FROM pg_attribute
         WHERE attrelid = 'noetl.event'::regclass AND attnum > 0 AND NOT attisdropped AND attname <> 'tx_id'",
    )
    .fetch_all(&mut *database)
    .await
    .unwrap();
    let given: Vec<String> = columns.into_iter().filter(|column| row.get(column).is_some()).collect();
    let given = given.join(", ");
    let insert =
        format!("INSERT INTO noetl.event ({given}) SELECT {given} FROM jsonb_populate_record(NULL::noetl.event, $1)");
    sqlx::query(AssertSqlSafe(insert)).bind(row).execute(database).await.unwrap();
}

/// Returns the steps of NoETL's result by name: state, error, result.
fn steps_of_noetl(noetl: &Value) -> BTreeMap<String, Value> {
    let step = |(name, step): (&String, &Value)| {
        let state = step["state"].as_str().unwrap().to_uppercase();
        (name.clone(), json!({ "status": state, "error": step["error"], "result": step["result"] }))
    };
    noetl["state"]["steps"].as_object().unwrap().iter().map(step).collect()
}

fn steps_of_api(execution: &Value) -> BTreeMap<String, Value> {
    let steps = execution["steps"].as_array().unwrap().iter();
    steps
        .map(|step| {
            let mut step = step.as_object().unwrap().clone();
            let name = step.remove("name").unwrap().as_str().unwrap().to_owned();
            (name, Value::Object(step))
        })
        .collect()
}

async fn execution(server: &Server, recording: &Recording) -> Value {
    let id = recording.rows[0]["execution_id"].to_string();
    server.data(QUERY, json!({ "id": id })).await["execution"].clone()
}

#[tokio::test]
async fn a_log_that_noetl_wrote_gives_noetls_result_without_a_projection() {
    let deployment = Deployment::start(0).await;
    let server = deployment.replica_with(&[("NOETL_EVENT_STREAM_ENABLED", "false")]).await;
    let recordings = recordings();
    assert!(recordings.len() >= 22, "{} recordings", recordings.len());
    let mut database = deployment.cluster().await;
    for recording in &recordings {
        // The order of the rows must not matter.
        for row in recording.rows.iter().rev() {
            insert(&mut database, row).await;
        }
    }

    for recording in &recordings {
        let (name, found) = (&recording.name, execution(&server, recording).await);
        assert_eq!(found["status"], recording.noetl["status"]["status"], "{name}");
        assert_eq!(found["path"], recording.noetl["execution"]["path"], "{name}");
        assert_eq!(found["workload"], recording.noetl["execution"]["workload"], "{name}");
        let events = found["events"]["nodes"].as_array().unwrap().len();
        assert_eq!(events, recording.rows.len().min(100), "{name}");
        let (mut expected, mut steps) = (steps_of_noetl(&recording.noetl), steps_of_api(&found));
        for (_, step, field) in EXCEPTIONS.iter().filter(|(file, ..)| file == name) {
            for steps in [&mut expected, &mut steps] {
                steps.get_mut(*step).unwrap().as_object_mut().unwrap().remove(*field);
            }
        }
        assert_eq!(steps, expected, "{name}");
    }
}
