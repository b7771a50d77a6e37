//! Reads a request's parameters. [`Limits`] bounds the size of a body and the time for its arrival.

use async_graphql::{Extensions, Variables};
use async_graphql_axum::GraphQLRequest;
use axum::body::Body;
use axum::extract::{FromRequest, Query, Request};
use axum::http::{HeaderMap, Method, Uri, header};
use bytes::{Bytes, BytesMut};
use futures::StreamExt;
use serde::Deserialize;

use super::document::TypeSystem;
use super::lexer;
use super::limits::Limits;
use super::media;
use super::operation::{Operation, Parameters, RawParameters};
use super::rejection::RequestRejection;
use super::resources::RequestSlot;
use plain_json::{self as json, Typed};

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
    parameters(bytes.freeze(), limits).await
}

/// Reads the parameters of a GET.
pub(super) fn from_uri(uri: &Uri) -> Result<Parameters, RequestRejection> {
    let Query(parameters) =
        Query::<QueryParameters>::try_from_uri(uri).map_err(|error| RequestRejection::Malformed(error.body_text()))?;
    let raw = RawParameters {
        query: parameters.query,
        document_id: parameters.document_id,
        operation_name: parameters.operation_name,
        variables: from_text("variables", parameters.variables.as_deref())?,
        extensions: from_text("extensions", parameters.extensions.as_deref())?,
    };
    Parameters::try_from(raw).map_err(|missing| RequestRejection::Malformed(missing.to_string()))
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

pub(super) async fn parameters(bytes: Bytes, limits: &Limits) -> Result<Parameters, RequestRejection> {
    if bytes.trim_ascii_start().first() == Some(&b'[') {
        return Err(RequestRejection::Batch);
    }
    if lexer::json_values(&bytes) > limits.json_values {
        return Err(RequestRejection::TooManyJsonValues { limit: limits.json_values });
    }
    json::check("", &bytes)?;
    match extract(bytes.clone()).await {
        Ok(request) if !request.query.is_empty() => Ok(request.into()),
        // The extractor's errors name neither field nor position, and it refuses a request without `query`.
        _ => json::parse(&bytes).map_err(|error| RequestRejection::Malformed(error.to_string())),
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
    let parameters = parameters(body, limits).await.map_err(|rejection| rejection.code())?;
    let operation = Operation::check(parameters, limits, types).map_err(|error| error.code())?;
    Ok(operation.request)
}

/// Reads a JSON body with the extractor of async-graphql-axum.
async fn extract(bytes: Bytes) -> Result<async_graphql::Request, RequestRejection> {
    let mut request = Request::new(Body::from(bytes));
    // The extractor reads the URL of a GET, so this is a POST. It reads a body without a content-type as JSON.
    *request.method_mut() = Method::POST;
    Ok(GraphQLRequest::<RequestRejection>::from_request(request, &()).await?.into_inner())
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

/// A value of the executor that the URL carries as JSON text.
#[derive(Deserialize)]
#[serde(transparent)]
struct Parameter<T>(T);

impl Typed for Parameter<Variables> {}
impl Typed for Parameter<Extensions> {}

/// Reads JSON from a parameter of the URL. An empty parameter counts as absent.
fn from_text<T: Default>(name: &str, text: Option<&str>) -> Result<T, RequestRejection>
where
    Parameter<T>: Typed,
{
    match text.filter(|text| !text.is_empty()) {
        None => Ok(T::default()),
        Some(text) => {
            json::check(name, text.as_bytes())?;
            let parsed =
                json::parse(text.as_bytes()).map_err(|error| RequestRejection::Malformed(format!("{name}: {error}")));
            parsed.map(|Parameter(value)| value)
        }
    }
}
