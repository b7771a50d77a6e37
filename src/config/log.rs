//! Logging.

use super::{Definition, Sources};

pub(super) const SETTINGS: [Definition; 2] = [
    Definition::text(
        "NOETL_LOG",
        "`info,sqlx=warn,async_nats=warn`",
        "log filter such as `info,noetl=debug`. SIGHUP reads it again from the file of `NOETL_CONFIG`",
    ),
    Definition::text("NOETL_LOG_FORMAT", "text", "`text`, or `json` for an object on each line"),
];

/// Settings of the log.
#[derive(Debug, Clone)]
pub struct LogSettings {
    /// Filter such as `info,noetl=debug`.
    pub filter: String,
    /// Whether each line is a JSON object rather than text.
    pub json: bool,
}

pub(super) fn read(sources: &Sources) -> LogSettings {
    LogSettings {
        filter: sources.text("NOETL_LOG").unwrap_or("info,sqlx=warn,async_nats=warn").to_owned(),
        json: sources.text("NOETL_LOG_FORMAT").is_some_and(|format| format.eq_ignore_ascii_case("json")),
    }
}
