//! A request becomes an operation: checked against the limits, validated, merged, its kind known, nothing run yet.

use async_graphql::parser::types::OperationType;
use async_graphql::{Extensions, Request, Variables};
use bytes::Bytes;
use serde::Deserialize;

use super::body;
use super::document::{self, Checked, Selected, Shape, TypeSystem};
use super::invalid::Invalid;
use super::limits::Limits;
use noetl_json::Typed;

/// The parameters of a request.
#[derive(Debug, Deserialize)]
#[serde(try_from = "Given")]
pub(super) struct Parameters {
    /// Empty where a trusted document is selected.
    pub(super) query: String,
    pub(super) document_id: Option<String>,
    pub(super) operation_name: Option<String>,
    pub(super) variables: Variables,
    pub(super) extensions: Extensions,
}

/// The parameters as the GraphQL-over-HTTP specification names them.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Given {
    pub(super) query: Option<String>,
    pub(super) document_id: Option<String>,
    pub(super) operation_name: Option<String>,
    #[serde(default)]
    pub(super) variables: Variables,
    #[serde(default)]
    pub(super) extensions: Extensions,
}

/// A request without a document.
#[derive(Debug, thiserror::Error)]
#[error("missing `query`, or `documentId` of a trusted document")]
pub(super) struct NoDocument;

impl TryFrom<Given> for Parameters {
    type Error = NoDocument;

    fn try_from(given: Given) -> Result<Self, NoDocument> {
        let Given { query, document_id, operation_name, variables, extensions } = given;
        let selects = document_id.is_some() || extensions.contains_key("persistedQuery");
        let query = query.or_else(|| selects.then(String::new)).ok_or(NoDocument)?;
        Ok(Self { query, document_id, operation_name, variables, extensions })
    }
}

impl From<Request> for Parameters {
    fn from(request: Request) -> Self {
        let Request { query, operation_name, variables, extensions, .. } = request;
        Self { query, document_id: None, operation_name, variables, extensions }
    }
}

impl Typed for Parameters {}

/// An operation that is allowed to run.
#[derive(Debug)]
pub(super) struct Operation {
    pub(super) request: Request,
    pub(super) kind: OperationType,
    /// What its answers look like.
    pub(super) shape: Shape,
    /// Whether it reads the schema.
    pub(super) introspects: bool,
}

impl Operation {
    /// Checks a request. The cheapest checks come first; nothing here takes longer than the limits allow.
    pub(super) fn check(parameters: Parameters, limits: &Limits, types: &TypeSystem) -> Result<Self, Invalid> {
        // Clients that have no name to give may give an empty one.
        let name = parameters.operation_name.filter(|name| !name.is_empty());
        let selected = Selected { query: &parameters.query, operation: name.as_deref() };
        let Checked { kind, document, variables, shape, introspects } =
            document::check(selected, parameters.variables, types, limits)?;
        let mut request = Request::new(parameters.query).variables(variables);
        request.operation_name = name;
        request.extensions = parameters.extensions;
        request.set_parsed_query(document);
        Ok(Self { request, kind, shape, introspects })
    }
}

/// Checks the body of a POST, from its bytes to an operation that may run. Nothing is run.
///
/// # Errors
///
/// The code of the first error that the response would have.
pub async fn check_body(body: Bytes, limits: &Limits, types: &TypeSystem) -> Result<Request, &'static str> {
    let parameters = body::parameters(body, limits).await.map_err(|fault| fault.code())?;
    let operation = Operation::check(parameters, limits, types).map_err(|invalid| invalid.code())?;
    Ok(operation.request)
}
