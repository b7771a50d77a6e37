//! Traces, the links to them, and the log of slow operations.

use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

use reqwest::Url;
use reqwest::header::{HeaderName, HeaderValue};

use super::Definition;
use super::reader::Reader;

pub(super) const SETTINGS: [Definition; 5] = [
    Definition::text(
        "NOETL_OTLP_ENDPOINT",
        "none",
        "OpenTelemetry collector to which spans are exported (OTLP over HTTP), such as `http://otel:4318`",
    ),
    Definition::text(
        "NOETL_OTLP_HEADERS",
        "none",
        "headers of these exports, such as `authorization=Bearer …`, separated by commas",
    ),
    Definition::value(
        "NOETL_OTLP_SAMPLE_RATIO",
        "share of the traces started by this server that are exported; for other traces, the caller's `traceparent` decides",
    ),
    Definition::value(
        "NOETL_SLOW_OPERATION_MS",
        "minimum duration of a query or mutation that is logged as slow, in milliseconds; 0 turns this off",
    ),
    Definition::text(
        TRACE_URL,
        "none",
        "page that shows a trace, such as `https://jaeger.example/trace/{traceId}`: the console links to it from an execution. All callers can read it, so it can't contain a login",
    ),
];

const TRACE_URL: &str = "NOETL_TRACE_URL";
/// Part of [`TRACE_URL`] that stands for the id of the trace.
const TRACE_ID: &str = "{traceId}";

/// Settings of traces and of the log of slow operations.
#[derive(Debug, Clone)]
pub struct TelemetrySettings {
    /// Export of spans; `None`: spans are not exported.
    pub otlp: Option<OtlpSettings>,
    /// Minimum duration of a query or mutation that is logged as slow; zero: none is logged.
    pub slow_operation: Duration,
    /// URL of a page that shows a trace, with `{traceId}` in place of the id; `None`: no such page is known.
    pub trace_url: Option<String>,
}

/// Settings of the export of spans to a collector, by OTLP over HTTP.
#[derive(Clone)]
pub struct OtlpSettings {
    /// URL that spans are posted to, such as `http://127.0.0.1:4318/v1/traces`.
    pub endpoint: String,
    /// Headers of each request, such as credentials.
    pub headers: HashMap<String, String>,
    /// Share of the traces started by this server that are exported (0 to 1).
    pub sample_ratio: f64,
}

impl fmt::Debug for OtlpSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The headers may contain secrets.
        f.debug_struct("OtlpSettings").field("sample_ratio", &self.sample_ratio).finish_non_exhaustive()
    }
}

pub(super) fn read(read: &mut Reader<'_>) -> TelemetrySettings {
    let sample_ratio = read.within("NOETL_OTLP_SAMPLE_RATIO", 1.0, 0.0, 1.0);
    let (endpoint, headers) = (endpoint(read), headers(read));
    let slow = read.within("NOETL_SLOW_OPERATION_MS", 1_000, 0, u32::MAX);
    TelemetrySettings {
        otlp: endpoint.map(|endpoint| OtlpSettings { endpoint, headers, sample_ratio }),
        slow_operation: Duration::from_millis(slow.into()),
        trace_url: trace_url(read),
    }
}

/// Reads the collector's address and returns the URL for spans, whose path is `/v1/traces`.
fn endpoint(read: &mut Reader<'_>) -> Option<String> {
    let text = read.sources.text("NOETL_OTLP_ENDPOINT")?;
    let url = text.parse::<Url>().ok().filter(|url| ["http", "https"].contains(&url.scheme()));
    if url.is_none() {
        read.problem("NOETL_OTLP_ENDPOINT is not a URL; set it to a collector, such as http://127.0.0.1:4318");
    }
    url.map(|_| format!("{}/v1/traces", text.trim_end_matches('/')))
}

/// Reads the URL of a page that shows a trace. The console makes a link of it, so it has no other scheme than those of
/// pages.
fn trace_url(read: &mut Reader<'_>) -> Option<String> {
    let text = read.sources.text(TRACE_URL)?;
    let example = text.replace(TRACE_ID, "4bf92f3577b34da6a3ce929d0e0e4736").parse::<Url>().ok();
    let is_page = |url: &Url| ["http", "https"].contains(&url.scheme());
    let is_public = |url: &Url| url.username().is_empty() && url.password().is_none();
    let usable = text.contains(TRACE_ID) && example.is_some_and(|url| is_page(&url) && is_public(&url));
    if !usable {
        read.problem(format!(
            "{TRACE_URL} is not the URL of a trace; set it to an address with {TRACE_ID} and without a login, such as \
             https://jaeger.example/trace/{TRACE_ID}"
        ));
    }
    usable.then(|| text.to_owned())
}

fn headers(read: &mut Reader<'_>) -> HashMap<String, String> {
    let parse = |part: String| {
        let (name, value) = part.split_once('=')?;
        let (name, value) = (name.trim().to_owned(), value.trim().to_owned());
        (name.parse::<HeaderName>().is_ok() && value.parse::<HeaderValue>().is_ok()).then_some((name, value))
    };
    let parsed: Option<HashMap<_, _>> = read.sources.list("NOETL_OTLP_HEADERS").into_iter().map(parse).collect();
    parsed.unwrap_or_else(|| {
        read.problem("NOETL_OTLP_HEADERS is not a list of headers; write them as name=value, separated by commas");
        HashMap::new()
    })
}
