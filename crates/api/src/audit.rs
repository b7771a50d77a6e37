//! The audit log: one line of the target `audit` for each mutation, with the caller, the field, the ids in its input
//! and its result, and its outcome. User errors are also counted, and those that are faults of the server are noted for
//! the metrics of operations.
//!
//! The outcome is `DONE`, or the code of the rejection or the fault. If a mutation is abandoned, because its deadline
//! has passed or its client has disconnected, the outcome is `UNKNOWN`: it may or may not be carried out.

use std::fmt::Display;
use std::sync::Arc;

use async_graphql::{Context, Result, Value};
use futures::FutureExt;
use futures::future::BoxFuture;
use graphql_transport::FaultSignal;

use super::access::principal;
use super::errors::UserError;
use noetl_auth::principal::Principal;

/// Maximum number of ids in a line. The field `count` gives the number of all ids.
const MAX_IDS: usize = 20;
/// Maximum number of characters of an id in a line. The caller may send any text as an id.
const MAX_CHARACTERS: usize = 200;

/// Payload of a mutation, as the audit log reads it.
pub(super) trait AuditedPayload {
    /// Returns the reasons the request was refused.
    fn user_errors(&self) -> &[UserError];

    /// Returns the reason the request was refused, which is the outcome in its line.
    fn refusal(&self) -> Option<&UserError> {
        self.user_errors().first()
    }

    /// Returns the errors of single items of the request.
    fn item_errors(&self) -> impl Iterator<Item = &UserError> {
        std::iter::empty()
    }

    /// Returns the ids of the objects that the mutation created or found.
    fn ids(&self) -> Vec<String> {
        Vec::new()
    }
}

/// Implements [`AuditedPayload`] for a payload that has only user errors for the audit log: its own, and those in a list of
/// results.
macro_rules! audited_payload {
    ($payload:ident $(, $results:ident)?) => {
        impl $crate::audit::AuditedPayload for $payload {
            fn user_errors(&self) -> &[$crate::errors::UserError] {
                &self.user_errors
            }

            $(fn item_errors(&self) -> impl Iterator<Item = &$crate::errors::UserError> {
                self.$results.iter().flat_map(|result| &result.user_errors)
            })?
        }
    };
}

pub(super) use audited_payload;

/// Carries out a mutation and writes its line to the audit log. `targets` gives the ids and paths in its input.
pub(super) fn audited<'a, T: AuditedPayload + Send + 'a>(
    ctx: &'a Context<'_>,
    targets: impl IntoIterator<Item = impl Display>,
    work: impl Future<Output = Result<T>> + Send + 'a,
) -> BoxFuture<'a, Result<T>> {
    let line = AuditLine::begin(ctx, targets);
    // Boxed, because the future of a mutation is large.
    let work = work.boxed();
    let faults = ctx.data_opt::<FaultSignal>();
    async move { line?.end(work.await, faults) }.boxed()
}

/// A line of the audit log. It is written when it is dropped, so no mutation ends without a line.
struct AuditLine {
    principal: Arc<Principal>,
    operation: String,
    ids: Vec<String>,
    count: usize,
    outcome: String,
}

impl AuditLine {
    fn begin(ctx: &Context<'_>, targets: impl IntoIterator<Item = impl Display>) -> Result<Self> {
        let mut line = Self {
            principal: Arc::clone(principal(ctx)?),
            operation: ctx.item.node.name.node.to_string(),
            ids: Vec::new(),
            count: 0,
            outcome: "UNKNOWN".to_owned(),
        };
        line.list(targets);
        Ok(line)
    }

    fn end<T: AuditedPayload>(mut self, result: Result<T>, faults: Option<&FaultSignal>) -> Result<T> {
        match &result {
            Ok(payload) => {
                payload.user_errors().iter().chain(payload.item_errors()).for_each(|error| self.count(error, faults));
                self.list(payload.ids());
                let refused = payload.refusal().map(|error| error.code.name());
                refused.unwrap_or("DONE").clone_into(&mut self.outcome);
            }
            Err(error) => {
                let code = error.extensions.as_ref().and_then(|extensions| extensions.get("code"));
                self.outcome = if let Some(Value::String(code)) = code { code.clone() } else { "INTERNAL".to_owned() };
            }
        }
        result
    }

    fn count(&self, error: &UserError, faults: Option<&FaultSignal>) {
        let labels = [("mutation", self.operation.clone()), ("code", error.code.name().to_owned())];
        metrics::counter!("noetl_user_errors_total", &labels).increment(1);
        if error.code.is_fault()
            && let Some(faults) = faults
        {
            faults.note();
        }
    }

    fn list(&mut self, ids: impl IntoIterator<Item = impl Display>) {
        for id in ids {
            self.count += 1;
            if self.ids.len() < MAX_IDS {
                self.ids.push(id.to_string().chars().take(MAX_CHARACTERS).collect());
            }
        }
    }
}

impl Drop for AuditLine {
    fn drop(&mut self) {
        let Self { principal, operation, ids, count, outcome } = self;
        tracing::info!(
            target: "audit",
            subject = &*principal.subject,
            tenant = principal.tenant.as_deref(),
            operation,
            ids = ids.join(" "),
            count,
            outcome,
            "mutation"
        );
    }
}
