//! Reads a request's parameters. [`Limits`] bounds the size of a body and the time for its arrival.

use axum::body::Body;
use axum::extract::Query;
use axum::http::{HeaderMap, Uri, header};
use bytes::{Bytes, BytesMut};
use futures::StreamExt;
use serde::Deserialize;

use super::document::TypeSystem;
use super::extensions::KnownExtensions;
use super::given_variables::GivenVariables;
use super::lexer;
use super::limits::Limits;
use super::media;
use super::operation::{Operation, Parameters, Unreadable};
use super::rejection::RequestRejection;
use super::resources::RequestSlot;
use plain_json as json;

/// Headers that describe the body of a POST.
#[derive(Debug, Clone, Copy)]
pub(super) struct BodyHead {
    is_json: bool,
    /// Value of `Content-Length` in bytes.
    length: Option<usize>,
}

impl From<&HeaderMap> for BodyHead {
    fn from(headers: &HeaderMap) -> Self {
        let length = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
        Self { is_json: media::is_json(headers), length }
    }
}

/// Reads the parameters of a POST.
pub(super) async fn from_body(
    head: BodyHead,
    body: Body,
    limits: &Limits,
    slot: &mut RequestSlot,
) -> Result<Parameters, RequestRejection> {
    if !head.is_json {
        return Err(RequestRejection::ContentType);
    }
    let reading = tokio::time::timeout(limits.body_timeout, read(head, body, limits, slot));
    let bytes = reading.await.map_err(|_| RequestRejection::BodyTooSlow)??;
    parameters(&bytes.freeze(), limits)
}

/// Reads the parameters of a GET.
pub(super) fn from_uri(uri: &Uri) -> Result<Parameters, RequestRejection> {
    let Query(parameters) =
        Query::<QueryParameters>::try_from_uri(uri).map_err(|error| RequestRejection::Malformed(error.body_text()))?;
    let QueryParameters { query, document_id, operation_name, variables, extensions } = parameters;
    let variables = from_text("variables", variables, GivenVariables::parse)?;
    let extensions =
        from_text("extensions", extensions, |text| json::parse::<Option<KnownExtensions>>(text.as_bytes()))?;
    Ok(Parameters::new(query, document_id, operation_name, variables, extensions.unwrap_or_default())?)
}

async fn read(
    head: BodyHead,
    body: Body,
    limits: &Limits,
    slot: &mut RequestSlot,
) -> Result<BytesMut, RequestRejection> {
    let limit = limits.body_bytes;
    if head.length.is_some_and(|length| length > limit) {
        return Err(RequestRejection::BodyTooLarge { limit });
    }
    let mut bytes = BytesMut::with_capacity(head.length.unwrap_or_default().min(1 << 16));
    let mut chunks = body.into_data_stream();
    while let Some(chunk) =
        tokio::time::timeout(limits.body_pause, chunks.next()).await.map_err(|_| RequestRejection::BodyTooSlow)?
    {
        let chunk = chunk.map_err(|_| RequestRejection::BodyIncomplete)?;
        if bytes.len() + chunk.len() > limit {
            return Err(RequestRejection::BodyTooLarge { limit });
        }
        slot.buffer(chunk.len())?;
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}

fn parameters(body: &Bytes, limits: &Limits) -> Result<Parameters, RequestRejection> {
    if body.trim_ascii_start().first() == Some(&b'[') {
        return Err(RequestRejection::Batch);
    }
    if lexer::json_values(body) > limits.json_values {
        return Err(RequestRejection::TooManyJsonValues { limit: limits.json_values });
    }
    json::check("", body)?;
    Ok(Parameters::read(body)?)
}

impl From<Unreadable> for RequestRejection {
    fn from(unreadable: Unreadable) -> Self {
        Self::Malformed(unreadable.to_string())
    }
}

/// Checks the body of a POST and returns its request, without running it.
///
/// # Errors
///
/// Returns the code of the first error in the response that the body would get.
pub async fn check_body(
    body: Bytes,
    limits: &Limits,
    types: &TypeSystem,
) -> Result<async_graphql::Request, &'static str> {
    let parameters = parameters(&body, limits).map_err(|rejection| rejection.code())?;
    let operation = Operation::check(parameters, limits, types).map_err(|error| error.code())?;
    Ok(operation.request)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct QueryParameters {
    query: Option<String>,
    document_id: Option<String>,
    operation_name: Option<String>,
    variables: Option<String>,
    extensions: Option<String>,
}

/// Reads JSON from a parameter of the URL. An empty parameter counts as absent.
fn from_text<T: Default>(
    name: &str,
    text: Option<String>,
    parse: impl FnOnce(String) -> serde_json::Result<T>,
) -> Result<T, RequestRejection> {
    match text.filter(|text| !text.is_empty()) {
        None => Ok(T::default()),
        Some(text) => {
            json::check(name, text.as_bytes())?;
            parse(text).map_err(|error| RequestRejection::Malformed(format!("{name}: {error}")))
        }
    }
}
