//! Event logs that NoETL's server and worker wrote.

use std::fs;

use serde_json::Value;
use sqlx::{AssertSqlSafe, PgConnection};

use super::sources::repository;

/// A recorded execution.
pub struct Recording {
    /// Name of the file without its extension.
    pub name: String,
    /// Rows of the log, ordered by event id.
    pub rows: Vec<Value>,
    /// Result that NoETL gives.
    pub noetl: Value,
}

impl Recording {
    /// Returns the id of the execution.
    pub fn execution_id(&self) -> String {
        self.rows[0]["execution_id"].to_string()
    }
}

/// Returns all recordings.
pub fn recordings() -> Vec<Recording> {
    let folder = repository().join("crates/domain/tests/golden");
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let files = files.filter(|path| path.extension().is_some_and(|extension| extension == "json"));
    let read = |path: std::path::PathBuf| {
        let recorded: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        let mut rows = recorded["events"].as_array().unwrap().clone();
        rows.sort_by_key(|row| row["event_id"].as_i64());
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        Recording { name, rows, noetl: recorded["noetl"].clone() }
    };
    files.map(read).collect()
}

/// Inserts a row with the columns that this database has. Its transaction id is assigned here.
pub async fn insert_row(database: &mut PgConnection, row: &Value) {
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
