//! The document column of the catalog.

use std::sync::{Arc, OnceLock};

use sqlx::error::BoxDynError;
use sqlx::postgres::{PgTypeInfo, PgValueRef};
use sqlx::{Decode, Postgres, Type};

use noetl_domain::document::{Document, DocumentError};

/// Text of a document, which is parsed at most once, when the document is first needed.
#[derive(Debug, Clone)]
pub struct Content {
    text: Arc<str>,
    document: OnceLock<Result<Arc<Document>, DocumentError>>,
}

impl Content {
    /// Returns the text.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the document; parses the text at the first call.
    pub fn document(&self) -> Result<&Document, &DocumentError> {
        self.document.get_or_init(|| Document::parse(&self.text).map(Arc::new)).as_deref()
    }
}

impl Type<Postgres> for Content {
    fn type_info() -> PgTypeInfo {
        <str as Type<Postgres>>::type_info()
    }

    fn compatible(given: &PgTypeInfo) -> bool {
        <str as Type<Postgres>>::compatible(given)
    }
}

impl<'r> Decode<'r, Postgres> for Content {
    fn decode(value: PgValueRef<'r>) -> Result<Self, BoxDynError> {
        let text = <&str as Decode<Postgres>>::decode(value)?;
        Ok(Self { text: text.into(), document: OnceLock::new() })
    }
}
