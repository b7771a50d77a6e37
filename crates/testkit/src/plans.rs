//! Plans of the statements that a server runs. PostgreSQL logs each plan with the numbers of rows that it read.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use noetl_local::Postgres;
use serde_json::Value;
use tempfile::TempDir;

use crate::{Deployment, NOT_DURABLE, own_postgres};

/// The plans in the log of a PostgreSQL server.
#[derive(Debug)]
pub struct PlanLog {
    file: File,
    /// Beginning of an entry of another session that the server was writing during the last call.
    rest: String,
}

impl PlanLog {
    fn open(path: &Path) -> Self {
        Self { file: File::open(path).unwrap(), rest: String::new() }
    }

    /// Returns the plans of statements that were logged since the last call.
    pub fn plans(&mut self) -> Vec<Value> {
        self.plans_of(|_| true)
    }

    /// Returns the plans as [`Self::plans`] does, but only those of statements with a wanted text. The others, which can be
    /// most of them, are not parsed. The text is that of the log: its quotes and line breaks are escaped.
    ///
    /// A plan follows its line with a tab. The statement is in the second line of the plan.
    pub fn plans_of(&mut self, is_wanted: impl Fn(&str) -> bool) -> Vec<Value> {
        const BEGINNING: &str = "  plan:\n";
        let mut text = std::mem::take(&mut self.rest);
        self.file.read_to_string(&mut text).unwrap();
        let mut plans = Vec::new();
        let mut entries = text.split(BEGINNING).skip(1).peekable();
        while let Some(entry) = entries.next() {
            let is_last = entries.peek().is_none();
            let is_wanted = entry.lines().nth(1).is_some_and(&is_wanted);
            // The last one may be incomplete.
            if !is_wanted && !is_last {
                continue;
            }
            let body = entry.lines().map_while(|line| line.strip_prefix('\t')).collect::<Vec<_>>().join("\n");
            match serde_json::from_str(&body) {
                Ok(_) if !is_wanted => {}
                Ok(plan) => plans.push(plan),
                Err(error) if error.is_eof() && is_last => self.rest = format!("{BEGINNING}{entry}"),
                Err(error) => panic!("{error}: {body}"),
            }
        }
        plans
    }
}

/// Returns the number of rows that a plan read from tables.
pub fn rows_read(node: &Value) -> f64 {
    let number = |name: &str| node[name].as_f64().unwrap_or(0.0);
    let read = number("Actual Rows") + number("Rows Removed by Filter") + number("Rows Removed by Index Recheck");
    let is_scan = node["Relation Name"].is_string() && node["Node Type"] != "ModifyTable";
    let own = if is_scan { read * number("Actual Loops") } else { 0.0 };
    own + node["Plans"].as_array().into_iter().flatten().map(rows_read).sum::<f64>()
}

/// Starts a deployment of one database, without autovacuum, on a PostgreSQL server that logs every plan. The server must
/// live as long as the deployment, and its folder longer.
pub async fn deployment_with_plans() -> (Deployment, PlanLog, (Postgres, TempDir)) {
    let (mut deployment, (folder, server)) = tokio::join!(
        Deployment::unmigrated(0),
        own_postgres(&[
            NOT_DURABLE,
            ("autovacuum", "off"),
            ("shared_preload_libraries", "auto_explain"),
            ("auto_explain.log_min_duration", "0"),
            ("auto_explain.log_analyze", "on"),
            ("auto_explain.log_timing", "off"),
            ("auto_explain.log_format", "json"),
        ])
    );
    deployment.cluster_dsn = server.dsn("own");
    deployment.shard_dsns = vec![deployment.cluster_dsn.clone()];
    deployment.env.push(("NOETL_CLUSTER_DSN".to_owned(), deployment.cluster_dsn.clone()));
    deployment.migrate().await;
    let log = PlanLog::open(&folder.path().join("postgres/log"));
    (deployment, log, (server, folder))
}
