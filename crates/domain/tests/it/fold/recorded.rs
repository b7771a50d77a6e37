//! Reading the recorded logs.

use std::fs;
use std::path::Path;

use chrono::{DateTime, NaiveDateTime, Utc};
use noetl_domain::event::Event;
use noetl_domain::ids::Id;
use noetl_domain::projection::Projection;
use serde_json::Value;

/// A recorded execution.
#[derive(Debug, Clone)]
pub struct Log {
    /// Name of the file without its extension.
    pub name: String,
    /// Events in the order of their ids.
    pub events: Vec<Event>,
    /// Result that NoETL gives.
    pub noetl: Value,
}

impl Log {
    /// Returns all recorded logs, ordered by name.
    pub fn all() -> Vec<Self> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
        let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let mut names: Vec<String> = files
            .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
            .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
            .collect();
        names.sort();
        names.iter().map(|name| Self::read(name)).collect()
    }

    /// Returns the recorded log with this name.
    pub fn read(name: &str) -> Self {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(format!("{name}.json"));
        let recorded: Value = serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
        let events = recorded["events"].as_array().unwrap().iter().map(event).collect();
        Self { name: name.to_owned(), events, noetl: recorded["noetl"].clone() }
    }
}

/// Returns the projection of these events, folded in the given order.
pub fn fold<'a>(events: impl IntoIterator<Item = &'a Event>) -> Projection {
    let mut projection = Projection::default();
    events.into_iter().for_each(|event| projection.fold(event));
    projection
}

/// Returns the event of a row of `noetl.event`.
pub fn event(row: &Value) -> Event {
    let id = |column: &str| row[column].as_i64().map(Id::new);
    let text = |column: &str| row[column].as_str().map(str::to_owned);
    let json = |column: &str| Some(row[column].clone()).filter(|value| !value.is_null());
    Event {
        execution_id: id("execution_id").unwrap(),
        event_id: id("event_id").unwrap(),
        catalog_id: id("catalog_id").unwrap(),
        parent_event_id: id("parent_event_id"),
        parent_execution_id: id("parent_execution_id"),
        created_at: time(row["created_at"].as_str().unwrap()),
        event_type: text("event_type").unwrap(),
        node_id: text("node_id"),
        node_name: text("node_name"),
        node_type: text("node_type"),
        status: text("status"),
        duration: row["duration"].as_f64(),
        context: json("context"),
        result: json("result"),
        meta: json("meta"),
        error: text("error"),
        stack_trace: text("stack_trace"),
        tenant_id: text("tenant_id").unwrap(),
        organization_id: text("organization_id").unwrap(),
    }
}

/// Returns a time as NoETL writes it: with an offset in its API, without one in rows, which are UTC.
pub fn time(text: &str) -> DateTime<Utc> {
    let naive = || NaiveDateTime::parse_from_str(text, "%Y-%m-%dT%H:%M:%S%.f").unwrap().and_utc();
    text.parse().unwrap_or_else(|_| naive())
}
