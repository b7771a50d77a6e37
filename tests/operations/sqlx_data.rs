//! The committed query descriptions equal the descriptions by a freshly migrated database.

use std::fs;

use noetl_testkit::{Deployment, repository};
use serde_json::Value;
use sqlx::{AssertSqlSafe, Column, Either, Executor, SqlSafeStr, TypeInfo};

/// Returns a type in the form of the committed data: a name, or an object that names a custom type.
fn type_name(described: &Value) -> String {
    described.as_str().map_or_else(|| described.to_string(), str::to_owned)
}

#[tokio::test]
async fn committed_query_descriptions_match_the_migrated_database() {
    let deployment = Deployment::start(1).await;
    let mut database = deployment.shard(0).await;
    let folder = repository().join(".sqlx");
    let mut drifted = Vec::new();
    let mut count = 0;
    for file in fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        let data: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        let query = data["query"].as_str().unwrap();
        count += 1;
        let described = match database.describe(AssertSqlSafe(query).into_sql_str()).await {
            Ok(described) => described,
            Err(error) => {
                drifted.push(format!("{query}\n  {error}"));
                continue;
            }
        };
        let committed: Vec<(String, String)> = data["describe"]["columns"]
            .as_array()
            .unwrap()
            .iter()
            .map(|column| (column["name"].as_str().unwrap().to_owned(), type_name(&column["type_info"])))
            .collect();
        let columns = described.columns.iter();
        let now: Vec<(String, String)> = columns
            .map(|column| (column.name().to_owned(), type_name(&serde_json::to_value(column.type_info()).unwrap())))
            .collect();
        if committed != now {
            drifted.push(format!("{query}\n  committed {committed:?}\n  now {now:?}"));
        }
        let nullable = serde_json::to_value(&described.nullable).unwrap();
        if nullable != data["describe"]["nullable"] {
            drifted.push(format!("{query}\n  nullable {} now {nullable}", data["describe"]["nullable"]));
        }
        let parameters = match &described.parameters {
            Some(Either::Left(types)) => types.iter().map(|one| one.name().to_owned()).collect::<Vec<_>>().len(),
            Some(Either::Right(count)) => *count,
            None => 0,
        };
        let expected = data["describe"]["parameters"]["Left"].as_array().map_or(0, Vec::len);
        if parameters != expected {
            drifted.push(format!("{query}\n  {expected} parameters committed, {parameters} now"));
        }
    }
    assert!(count > 20, "only {count} queries were found");
    assert!(drifted.is_empty(), "run `make sqlx`; {} are out of date:\n{}", drifted.len(), drifted.join("\n"));
}
