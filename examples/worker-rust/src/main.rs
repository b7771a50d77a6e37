//! worker-rust [--url URL] send KEY                 starts an execution, unless one was started with the same key
//! worker-rust [--url URL] work [--journal PATH]    runs executions and writes every event to the journal

mod api;
mod journal;
mod operations;
mod worker;

use std::error::Error;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use serde_json::json;
use tokio::sync::Notify;

use api::Api;
use journal::Journal;
use operations::{Execute, execute};
use worker::Worker;

/// Returns the value of an option on the command line.
fn option(arguments: &[String], name: &str, default: &str) -> String {
    let place = arguments.iter().position(|argument| argument == name);
    place.and_then(|place| arguments.get(place + 1)).cloned().unwrap_or_else(|| default.to_owned())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let url = option(&arguments, "--url", "http://127.0.0.1:8082/graphql");
    let api = Api::new(url, std::env::var("NOETL_TOKEN").ok());
    if arguments.iter().any(|argument| argument == "send") {
        return send(&api, option(&arguments, "send", "order-19")).await;
    }
    let worker = Worker {
        api,
        pool: option(&arguments, "--pool", "shared"),
        lease_seconds: option(&arguments, "--lease-seconds", "30").parse()?,
        step_time: Duration::from_secs_f64(option(&arguments, "--step-seconds", "0.1").parse()?),
        wake: Notify::new(),
    };
    let journal = Journal::open(Path::new(&option(&arguments, "--journal", "journal.jsonl")))?;
    tokio::try_join!(worker.work(), worker.follow(journal))?;
    Ok(())
}

async fn send(api: &Api, key: String) -> Result<(), Box<dyn Error>> {
    let input = execute::ExecuteInput {
        entry: execute::ExecuteEntryKey::Path("samples/orders/process".to_owned()),
        workload: Some(json!({ "order": { "id": key } })),
        dedup: Some(execute::DedupInput { key, window_seconds: Some(3600), reject_different: false }),
        parent_execution_id: None,
        execution_pool: None,
        labels: None,
        inherit_labels: None,
        tenant_id: None,
        organization_id: None,
        trace: None,
    };
    let payload = api.send::<Execute>(execute::Variables { input }).await?.execute.ok_or("no payload")?;
    println!("{:?} {}", payload.outcome.ok_or("no outcome")?, payload.execution_id.ok_or("no id")?);
    Ok(())
}
