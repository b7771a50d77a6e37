//! Compares databases and streams, and repairs their differences.

use super::databases::connect;
use super::error::AppError;
use super::{arm_fault_point, broker, command_services};
use crate::config::Config;
use noetl_feed::publish::inspection::{self, Inspection, Messages};
use noetl_service::check::findings::Findings;
use noetl_service::check::kinds::Kind;
use noetl_service::check::{Check, Repairer};
use noetl_storage::tail::History;

/// Compares the cluster database, the shards and the streams. With `repair`, repairs the differences. Fails if the
/// cluster database is down, because nothing can be compared without it.
pub async fn check(config: &Config, repair: bool) -> Result<Findings, AppError> {
    arm_fault_point(config);
    let databases = connect(config, Some(4)).await?;
    let mut check = Check::begin(databases.clone()).await;
    check.ids(repair).await;
    if repair {
        let (services, ids) = command_services(config, databases).await?;
        let repairer = Repairer {
            executions: services.executions,
            subscriptions: services.subscriptions,
            projections: services.projections,
        };
        check.rows(Some(&repairer)).await;
        ids.release().await?;
    } else {
        check.rows(None).await;
    }
    let streams = inspect(config, &check).await;
    let mut findings = check.end();
    for (part, stream) in streams {
        add(&mut findings, part, stream);
    }
    Ok(findings)
}

/// Compares the streams of the shards that can be reached. Without a broker, there are no streams.
async fn inspect(config: &Config, check: &Check) -> Vec<(String, Result<Option<Inspection>, String>)> {
    if config.broker.addresses.is_empty() {
        return Vec::new();
    }
    let client = match broker::connect(&config.broker, "noetl-graphql check").await {
        Ok(client) => client,
        Err(error) => return vec![("the streams".to_owned(), Err(error.to_string()))],
    };
    let mut streams = Vec::new();
    for (index, database) in check.shards() {
        let stream = inspection::inspect(client.clone(), index, &config.stream_names, database).await;
        let part = format!("the stream {}", config.stream_names.stream(index));
        streams.push((part, stream.map_err(|error| error.to_string())));
    }
    streams
}

fn add(findings: &mut Findings, part: String, stream: Result<Option<Inspection>, String>) {
    let Inspection { stream, history, behind, missing, foreign } = match stream {
        Ok(Some(inspection)) => inspection,
        Ok(None) => return,
        Err(reason) => return findings.could_not_check(part, reason),
    };
    match history {
        History::Same => {}
        History::Continued => {
            findings.add(Kind::RestoredDatabase, format!("{stream}: another timeline of the same server"), false);
        }
        History::Other => findings.add(Kind::RestoredDatabase, format!("{stream}: another server or history"), false),
    }
    if let Some(lack) = behind {
        findings.add(Kind::StreamBehindCursor, format!("{stream}: {lack}"), false);
    }
    for (kind, Messages { count, examples }) in
        [(Kind::PublishedEventMissing, missing), (Kind::ForeignMessage, foreign)]
    {
        let examples = examples.into_iter().map(|example| format!("{stream}: {example}"));
        findings.add_many(kind, count, examples);
    }
}
