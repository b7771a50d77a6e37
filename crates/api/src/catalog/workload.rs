//! Fields of a workload, for forms.

use async_graphql::{Enum, Object};

use crate::access::READ;
use crate::scalars::Json;
use noetl_domain::document::workload::{self as domain, ValueType};

/// Type of a field of a workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[graphql(remote = "ValueType")]
enum WorkloadFieldType {
    /// Text, which may be a template.
    String,
    /// Whole number.
    Integer,
    /// Number with a fraction.
    Number,
    /// True or false.
    Boolean,
    /// Map.
    Object,
    /// List.
    List,
    /// The type is not known, because the document gives no default.
    Unknown,
}

/// Field of a workload.
#[derive(Debug)]
pub struct WorkloadField<'a>(pub domain::WorkloadField<'a>);

/// Field of a workload. A document has no schema for its workload, so the type is that of the default.
#[Object]
impl WorkloadField<'_> {
    /// Key in the workload.
    async fn name(&self) -> &str {
        self.0.name
    }

    /// Type of the default.
    #[graphql(name = "type")]
    async fn value_type(&self) -> WorkloadFieldType {
        self.0.value_type().into()
    }

    /// Value of the field if a request gives none; null if the document gives no default.
    #[graphql(guard = "READ")]
    async fn default(&self) -> Option<Json> {
        (!self.0.is_required()).then(|| Json(self.0.default.clone()))
    }

    /// Whether a request should give a value, because the document gives no default. The server does not check it.
    async fn required(&self) -> bool {
        self.0.is_required()
    }

    /// Fields of the default, if it is a map, ordered by name.
    async fn fields(&self) -> Vec<WorkloadField<'_>> {
        self.0.fields().into_iter().map(WorkloadField).collect()
    }
}
