//! Turns a request into an operation that may run: checked against the limits, validated and merged.

use async_graphql::parser::types::OperationType;
use async_graphql::{Extensions, Request, Value};
use bytes::Bytes;
use serde::Deserialize;

use super::document::{self, Checked, Selected, Shape, TypeSystem};
use super::extensions::{COST, KnownExtensions, PERSISTED_QUERY};
use super::given_variables::{AnyObject, GivenVariables, ObjectText};
use super::limits::Limits;
use super::operation_error::{Limit, OperationError};
use plain_json::{self as json, Borrowed, Typed};

/// Maximum number of bytes of an operation's name in a span or a log line.
const MAX_NAME: usize = 100;

/// The parameters of a request.
#[derive(Debug)]
pub(super) struct Parameters {
    /// Text of the document; empty if the request selects a trusted document.
    pub(super) query: String,
    pub(super) document_id: Option<String>,
    pub(super) operation_name: Option<String>,
    pub(super) variables: GivenVariables,
    pub(super) extensions: Extensions,
}

/// The parameters under their names in the GraphQL-over-HTTP specification. `V` is the form of the variables.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawParameters<V> {
    query: Option<String>,
    document_id: Option<String>,
    operation_name: Option<String>,
    #[serde(default)]
    variables: V,
    #[serde(default)]
    extensions: Option<KnownExtensions>,
}

impl<'a> Borrowed<'a> for RawParameters<Option<ObjectText<'a>>> {}
impl Typed for RawParameters<Option<AnyObject>> {}

/// Reason why a request's parameters could not be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unreadable {
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    #[error("missing `query`, or `documentId` of a trusted document")]
    NoDocument,
}

impl Parameters {
    /// Reads the parameters from the JSON text of a request. The values of the variables stay parts of this text.
    pub(super) fn read(text: &Bytes) -> Result<Self, Unreadable> {
        match json::borrow::<RawParameters<Option<ObjectText<'_>>>>(text) {
            Ok(raw) => {
                let RawParameters { query, document_id, operation_name, variables, extensions } = raw;
                let variables = GivenVariables::of(text, variables);
                Self::new(query, document_id, operation_name, variables, extensions.unwrap_or_default())
            }
            // The errors of this type say more about variables that are not an object.
            Err(error) => Err(json::parse::<RawParameters<Option<AnyObject>>>(text).err().unwrap_or(error).into()),
        }
    }

    /// Returns the parameters, which must have or select a document.
    pub(super) fn new(
        query: Option<String>,
        document_id: Option<String>,
        operation_name: Option<String>,
        variables: GivenVariables,
        KnownExtensions(extensions): KnownExtensions,
    ) -> Result<Self, Unreadable> {
        let selects = document_id.is_some() || extensions.contains_key(PERSISTED_QUERY);
        let query = query.or_else(|| selects.then(String::new)).ok_or(Unreadable::NoDocument)?;
        Ok(Self { query, document_id, operation_name, variables, extensions })
    }
}

/// An operation that is allowed to run.
#[derive(Debug)]
pub(super) struct Operation {
    pub(super) request: Request,
    pub(super) kind: OperationType,
    /// Shape of its responses.
    pub(super) shape: Shape,
    /// Whether it reads the schema by introspection.
    pub(super) introspects: bool,
    /// Bytes of its document and its variables.
    pub(super) text_bytes: usize,
    /// Cost of its document, if the request asks for it.
    pub(super) cost: Option<u64>,
}

impl Operation {
    /// Checks a request, at a cost that the limits bound. The cheapest checks come first.
    pub(super) fn check(parameters: Parameters, limits: &Limits, types: &TypeSystem) -> Result<Self, OperationError> {
        // Some clients send an empty name if they have none.
        let name = parameters.operation_name.filter(|name| !name.is_empty());
        let selected = Selected { query: &parameters.query, operation: name.as_deref() };
        let Checked { kind, document, variables, shape, introspects, absent, cost } =
            document::check(selected, &parameters.variables, types, limits)?;
        let text_bytes = parameters.query.len() + parameters.variables.text().map_or(0, Bytes::len);
        if kind == OperationType::Subscription {
            Limit::SubscriptionBytes.check(text_bytes as u64, limits.subscription_bytes as u64)?;
        }
        let mut request = Request::new(parameters.query).variables(variables).data(absent);
        request.operation_name = name;
        let cost = (parameters.extensions.get(COST) == Some(&Value::Boolean(true))).then_some(cost);
        request.extensions = parameters.extensions;
        request.set_parsed_query(document);
        Ok(Self { request, kind, shape, introspects, text_bytes, cost })
    }

    /// Returns the name of the operation for spans and log lines, truncated to [`MAX_NAME`] bytes; `None` if it has no
    /// name.
    pub(super) fn name(&mut self) -> Option<String> {
        let mut name = match &self.request.operation_name {
            Some(name) => name.clone(),
            None => self.request.parsed_query().ok()?.operations.iter().next()?.0?.to_string(),
        };
        name.truncate(name.floor_char_boundary(MAX_NAME));
        Some(name)
    }
}
