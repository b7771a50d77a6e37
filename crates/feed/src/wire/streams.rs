//! Access to JetStream, and the creation of the deployment's streams.
//!
//! A user of the broker may lack the right to create streams. Then the streams are made by hand, and a stream that is
//! missing or does not fit is named with the command that creates it. An existing stream is never changed here.

use std::sync::atomic::Ordering;

use async_nats::Client;
use async_nats::jetstream::context::{
    ContextBuilder, CreateStreamError, CreateStreamErrorKind, GetStreamError, GetStreamErrorKind,
};
use async_nats::jetstream::stream::{Config, DiscardPolicy, RetentionPolicy, Stream};
use async_nats::jetstream::{Context, ErrorCode};

use super::names::{Api, StreamNames};

/// Reason why a stream can't be used.
#[derive(Debug, thiserror::Error)]
pub enum UnusableStream {
    /// The broker did not say whether the stream exists.
    #[error("the stream {name} can't be looked up: {reason}")]
    Unknown {
        /// Name of the stream.
        name: String,
        /// Error of the broker.
        reason: String,
    },
    /// The stream does not exist, and the broker did not create it.
    #[error("the stream {name} does not exist and can't be created: {reason}; create it: `{command}`")]
    NotCreated {
        /// Name of the stream.
        name: String,
        /// Error of the broker.
        reason: String,
        /// Command that creates the stream.
        command: String,
    },
    /// The stream exists with settings that do not fit.
    #[error("the stream {name} can't be used because {problem}; correct it, or replace it by that of `{command}`")]
    Unfit {
        /// Name of the stream.
        name: String,
        /// Reason that it does not fit.
        problem: String,
        /// Command that creates a stream that fits.
        command: String,
    },
}

/// Returns a context for requests to the JetStream that has the streams.
#[must_use]
pub fn context(client: Client, names: &StreamNames) -> Context {
    match names.api() {
        Api::Own => ContextBuilder::new().build(client),
        Api::Domain(domain) => ContextBuilder::new().domain(&**domain).build(client),
        Api::Imported(prefix) => ContextBuilder::new().api_prefix(prefix.to_string()).build(client),
    }
}

/// Returns the number of times that the client has connected to the broker. If it grows, consumers may be gone, and the
/// broker may have lost data: it forgets consumers when it restarts, and the client notices this late.
#[must_use]
pub fn connects(client: &Client) -> u64 {
    client.statistics().connects.load(Ordering::Relaxed)
}

/// Opens a stream, and creates it if it does not exist. An existing stream must have the subjects, and keep and
/// acknowledge messages; its other settings may differ.
pub async fn open_or_create(context: &Context, names: &StreamNames, wanted: Config) -> Result<Stream, UnusableStream> {
    let name = wanted.name.clone();
    match context.get_stream(&name).await {
        Ok(stream) => match problem(&stream.cached_info().config, &wanted) {
            None => Ok(stream),
            Some(problem) => Err(UnusableStream::Unfit { name, problem, command: command(&wanted, names.api()) }),
        },
        Err(error) if is_missing(&error) => {
            let refused = |error: CreateStreamError| {
                let (reason, command) = (refusal(&error), command(&wanted, names.api()));
                UnusableStream::NotCreated { name, reason, command }
            };
            context.create_stream(wanted.clone()).await.map_err(refused)
        }
        Err(error) => Err(UnusableStream::Unknown { name, reason: error.to_string() }),
    }
}

/// Returns whether the broker responded that the stream does not exist.
#[must_use]
pub fn is_missing(error: &GetStreamError) -> bool {
    matches!(error.kind(), GetStreamErrorKind::JetStream(cause) if cause.error_code() == ErrorCode::STREAM_NOT_FOUND)
}

/// Describes why the broker did not create a stream.
fn refusal(error: &CreateStreamError) -> String {
    match error.kind() {
        CreateStreamErrorKind::JetStream(cause) if cause.error_code() == ErrorCode::STREAM_MAX_BYTES_REQUIRED => {
            format!("{cause}; set NOETL_EVENT_STREAM_MAX_BYTES")
        }
        _ => error.to_string(),
    }
}

/// Returns the setting of an existing stream because of which it can't be used.
fn problem(found: &Config, wanted: &Config) -> Option<String> {
    let is_held = |subject: &str| found.subjects.iter().any(|held| covers(held, subject));
    if let Some(subject) = wanted.subjects.iter().find(|subject| !is_held(subject)) {
        return Some(format!("it does not have the subjects {subject}"));
    }
    let problems = [
        (found.retention != RetentionPolicy::Limits, "its retention is not `limits`, so it removes messages early"),
        (found.no_ack, "it acknowledges no messages (`no_ack`)"),
        (found.sealed, "it is sealed"),
    ];
    problems.into_iter().find(|(applies, _)| *applies).map(|(_, problem)| problem.to_owned())
}

/// Returns whether a pattern of subjects matches every subject that another one matches.
fn covers(wide: &str, narrow: &str) -> bool {
    let mut narrow = narrow.split('.');
    for token in wide.split('.') {
        match narrow.next() {
            Some(_) if token == ">" => return true,
            Some(other) if token == other || (token == "*" && other != ">") => {}
            _ => return false,
        }
    }
    narrow.next().is_none()
}

/// Returns the command of the `nats` client that creates a stream.
fn command(config: &Config, api: &Api) -> String {
    let Config { name, max_age, max_bytes, duplicate_window, num_replicas, .. } = config;
    let (subjects, discard) =
        (config.subjects.join(","), if config.discard == DiscardPolicy::New { "new" } else { "old" });
    let api = match api {
        Api::Own => String::new(),
        Api::Domain(domain) => format!(" --js-domain={domain}"),
        Api::Imported(prefix) => format!(" --js-api-prefix='{prefix}'"),
    };
    let size = if *max_bytes > 0 { format!(" --max-bytes={max_bytes}") } else { String::new() };
    format!(
        "nats stream add {name} --subjects='{subjects}' --storage=file --retention=limits --discard={discard} \
         --max-age={}s{size} --dupe-window={}s --replicas={num_replicas} --defaults{api}",
        max_age.as_secs(),
        duplicate_window.as_secs()
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn config(subjects: &[&str]) -> Config {
        let subjects = subjects.iter().map(|subject| (*subject).to_owned()).collect();
        Config { name: "noetl_events".to_owned(), subjects, ..Config::default() }
    }

    #[test]
    fn an_existing_stream_must_have_the_subjects_and_keep_and_acknowledge_messages() {
        let wanted = config(&["noetl.events.>"]);
        for fits in [&["noetl.events.>"][..], &["other.>", "noetl.>"], &[">"], &["noetl.*.>"]] {
            assert_eq!(problem(&config(fits), &wanted), None, "{fits:?}");
        }
        for lacks in [&["noetl_events"][..], &[], &["noetl.events.*"], &["noetl.events"], &["noetl.events.a.>"], &["*"]]
        {
            let problem = problem(&config(lacks), &wanted);
            assert_eq!(problem.as_deref(), Some("it does not have the subjects noetl.events.>"), "{lacks:?}");
        }
        let cases = [
            (Config { retention: RetentionPolicy::Interest, ..wanted.clone() }, "retention"),
            (Config { no_ack: true, ..wanted.clone() }, "acknowledges"),
            (Config { sealed: true, ..wanted.clone() }, "sealed"),
        ];
        for (found, part) in cases {
            assert!(problem(&found, &wanted).unwrap().contains(part), "{part}");
        }
    }

    #[test]
    fn the_command_creates_the_stream_with_its_limits() {
        let (max_age, duplicate_window) = (Duration::from_hours(24), Duration::from_mins(2));
        let plain = Config { max_age, duplicate_window, num_replicas: 3, ..config(&["noetl.events.>"]) };
        assert_eq!(
            command(&plain, &Api::Own),
            "nats stream add noetl_events --subjects='noetl.events.>' --storage=file --retention=limits --discard=old \
             --max-age=86400s --dupe-window=120s --replicas=3 --defaults"
        );
        let limited = Config { max_bytes: 5_000_000, discard: DiscardPolicy::New, ..plain };
        let imported = command(&limited, &Api::Imported("JS.shared.API".parse().unwrap()));
        assert!(imported.ends_with(" --js-api-prefix='JS.shared.API'"), "{imported}");
        let limited = command(&limited, &Api::Domain("hub".into()));
        assert!(limited.contains("--discard=new --max-age=86400s --max-bytes=5000000 "), "{limited}");
        assert!(limited.ends_with(" --js-domain=hub"), "{limited}");
    }
}
