//! Types of the operations in operations.graphql, made from the schema when the program is built.

use graphql_client::GraphQLQuery;
use serde_json::Value;

// Types of the schema's scalars.
type BigInt = String;
type DateTime = String;
#[expect(clippy::upper_case_acronyms, reason = "the name in the schema")]
type JSON = Value;

macro_rules! operations {
    ($($name:ident: $derives:tt),* $(,)?) => {$(
        #[derive(GraphQLQuery)]
        #[graphql(
            schema_path = "../../schema.graphql",
            query_path = "src/operations.graphql",
            response_derives = "Debug",
            variables_derives = $derives,
            skip_serializing_none
        )]
        pub struct $name;
    )*};
}

operations! {
    Execute: "Debug", Claim: "Debug", Delivered: "Debug", Failed: "Debug", Run: "Debug",
    ReserveIds: "Debug", Report: "Debug, Default", Follow: "Debug",
}
