//! JSON columns, which are read as text: `column::text AS "column: Text"`.

use sqlx::error::BoxDynError;
use sqlx::postgres::{PgTypeInfo, PgValueRef};
use sqlx::{Decode, Postgres, Type};

use crate::text::{Text, Unreadable};

/// Value of a JSON column, or its error if this server can't read it.
#[derive(Debug, Clone)]
pub struct Received(pub Result<Text, Unreadable>);

impl Received {
    /// Returns the JSON, or a JSON value that describes the error.
    #[must_use]
    pub fn shown(&self) -> Text {
        self.0.clone().unwrap_or_else(|unreadable| unreadable.to_error_value())
    }
}

macro_rules! read_as_text {
    ($type:ty, $read:expr) => {
        impl Type<Postgres> for $type {
            fn type_info() -> PgTypeInfo {
                <str as Type<Postgres>>::type_info()
            }

            fn compatible(given: &PgTypeInfo) -> bool {
                <str as Type<Postgres>>::compatible(given)
            }
        }

        impl<'r> Decode<'r, Postgres> for $type {
            fn decode(value: PgValueRef<'r>) -> Result<Self, BoxDynError> {
                <&str as Decode<Postgres>>::decode(value).map($read)
            }
        }
    };
}

read_as_text!(Text, Text::or_error_value);
read_as_text!(Received, |json| Self(Text::new(json)));
