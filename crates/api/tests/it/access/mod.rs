//! Each role can use exactly the fields that its capabilities permit. A table classifies every field of the schema, and
//! the tests query each field as every role.

mod samples;
mod table;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use async_graphql::parser::parse_schema;
use async_graphql::parser::types::{
    BaseType, FieldDefinition, InputValueDefinition, Type, TypeDefinition, TypeKind, TypeSystemDefinition,
};
use async_graphql::{EmptyMutation, EmptySubscription, ObjectType, Request, Response, Schema, SubscriptionType, Value};
use futures::StreamExt;
use noetl_api::schema::{Mutation, Query, Subscription, sdl};
use noetl_auth::principal::{Capabilities, Capability, Principal, Role};

use samples::Samples;
use table::{FIELDS, Need};

/// The types of the schema by name.
struct Types(BTreeMap<String, TypeDefinition>);

impl Types {
    fn read() -> Self {
        let definitions = parse_schema(sdl()).unwrap().definitions.into_iter();
        let types = definitions.filter_map(|definition| match definition {
            TypeSystemDefinition::Type(definition) => Some((definition.node.name.node.to_string(), definition.node)),
            _ => None,
        });
        Self(types.collect())
    }

    fn fields(&self, name: &str) -> Vec<&FieldDefinition> {
        match &self.0[name].kind {
            TypeKind::Object(object) => object.fields.iter().map(|field| &field.node).collect(),
            _ => Vec::new(),
        }
    }

    /// Returns a selection of a field with its required arguments, such as `event(id: "1") { __typename }`.
    fn selection(&self, of: &str, field: &str) -> String {
        let definition = self.fields(of).into_iter().find(|one| one.name.node == field).unwrap();
        let arguments = definition.arguments.iter().filter_map(|argument| self.argument(&argument.node));
        let arguments = arguments.collect::<Vec<_>>().join(", ");
        let arguments = if arguments.is_empty() { arguments } else { format!("({arguments})") };
        let kind = self.0.get(base(&definition.ty.node)).map(|definition| &definition.kind);
        let composite = matches!(kind, Some(TypeKind::Object(_) | TypeKind::Union(_) | TypeKind::Interface(_)));
        format!("{field}{arguments} {}", if composite { "{ __typename }" } else { "" })
    }

    fn argument(&self, argument: &InputValueDefinition) -> Option<String> {
        let ty = &argument.ty.node;
        (!ty.nullable && argument.default_value.is_none())
            .then(|| format!("{}: {}", argument.name.node, self.value(ty)))
    }

    fn value(&self, ty: &Type) -> String {
        let name = match &ty.base {
            BaseType::List(item) => return format!("[{}]", self.value(item)),
            BaseType::Named(name) => name.as_str(),
        };
        match self.0.get(name).map(|definition| (&definition.kind, definition)) {
            Some((TypeKind::Enum(values), _)) => values.values[0].node.value.node.to_string(),
            Some((TypeKind::InputObject(object), definition)) => {
                let one_of = definition.directives.iter().any(|directive| directive.node.name.node == "oneOf");
                let field =
                    |field: &InputValueDefinition| format!("{}: {}", field.name.node, self.value(&field.ty.node));
                let fields: Vec<String> = if one_of {
                    vec![field(&object.fields[0].node)]
                } else {
                    object.fields.iter().filter_map(|field| self.argument(&field.node)).collect()
                };
                format!("{{ {} }}", fields.join(", "))
            }
            _ => match name {
                "Int" | "Float" => "1".to_owned(),
                "Boolean" => "true".to_owned(),
                "DateTime" => "\"2026-01-01T00:00:00Z\"".to_owned(),
                _ => "\"1\"".to_owned(),
            },
        }
    }
}

fn base(ty: &Type) -> &str {
    match &ty.base {
        BaseType::Named(name) => name.as_str(),
        BaseType::List(item) => base(item),
    }
}

fn needs() -> BTreeMap<(String, String), Need> {
    let rows = FIELDS.iter().flat_map(|(of, need, fields)| {
        fields.split_whitespace().map(|field| (((*of).to_owned(), field.to_owned()), *need))
    });
    let rows: Vec<_> = rows.collect();
    let needs: BTreeMap<_, _> = rows.iter().cloned().collect();
    assert_eq!(needs.len(), rows.len(), "a field is classified twice");
    needs
}

/// Returns callers with every role, with no role, with every single capability, and with all capabilities except one.
fn callers() -> Vec<(String, Principal)> {
    let only = |capabilities| Principal { capabilities, ..Principal::new("caller", &[]) };
    let roles = Role::ALL.into_iter().map(|role| (role.to_string(), Principal::new("caller", &[role])));
    let alone = Capability::ALL.into_iter().map(|one| (format!("only {one}"), only(Capabilities::of(&[one]))));
    let without = Capability::ALL.into_iter().map(|one| {
        let others: Vec<_> = Capability::ALL.into_iter().filter(|other| *other != one).collect();
        (format!("all but {one}"), only(Capabilities::of(&others)))
    });
    roles.chain(alone).chain(without).chain([("no role".to_owned(), Principal::new("caller", &[]))]).collect()
}

fn permits(need: Need, caller: &Principal) -> bool {
    match need {
        Need::Open | Need::Caller => true,
        Need::Any(capabilities) => caller.has_any(capabilities),
    }
}

fn code(response: &Response) -> Option<String> {
    let mut codes = response.errors.iter().filter_map(|error| match error.extensions.as_ref()?.get("code")? {
        Value::String(code) => Some(code.clone()),
        _ => None,
    });
    codes.next()
}

/// Runs a query and returns the error code of the response. No services are behind the schema, so a permitted query may
/// fail with any other code.
async fn ask<Q: ObjectType + 'static, M: ObjectType + 'static, S: SubscriptionType + 'static>(
    schema: &Schema<Q, M, S>,
    query: &str,
    caller: Option<&Principal>,
) -> Option<String> {
    let request = Request::new(query);
    let request = if let Some(caller) = caller { request.data(Arc::new(caller.clone())) } else { request };
    let response = schema.execute_stream(request).next().await.unwrap();
    for error in &response.errors {
        assert!(!error.message.contains("Unknown") && !error.message.contains("Invalid"), "{query}: {error:?}");
    }
    code(&response)
}

#[test]
fn every_field_of_the_schema_is_classified() {
    let (types, needs) = (Types::read(), needs());
    let fields = types
        .0
        .keys()
        .flat_map(|name| types.fields(name).into_iter().map(move |field| (name.clone(), field.name.node.to_string())));
    let fields: BTreeSet<_> = fields.collect();
    let classified: BTreeSet<_> = needs.keys().cloned().collect();
    let missing: Vec<_> = fields.difference(&classified).collect();
    assert!(missing.is_empty(), "classify these fields, and add a guard to each one that needs it: {missing:?}");
    let gone: Vec<_> = classified.difference(&fields).collect();
    assert!(gone.is_empty(), "the schema does not have these fields: {gone:?}");
    for ((of, field), need) in &needs {
        let root = ["Query", "Mutation", "Subscription"].contains(&of.as_str());
        assert!(!root || *need != Need::Open, "the root field {of}.{field} needs a guard");
    }
}

/// JSON values and error texts of other programs can contain secrets.
#[test]
fn every_json_field_has_a_guard() {
    let (types, needs) = (Types::read(), needs());
    for ((of, field), need) in needs {
        let definition = types.fields(&of).into_iter().find(|one| one.name.node == field.as_str()).unwrap();
        let json = base(&definition.ty.node) == "JSON";
        assert!(!json || need != Need::Open, "{of}.{field} is JSON and needs a guard");
    }
}

#[tokio::test]
async fn every_root_field_is_refused_to_callers_without_its_capability() {
    let (types, schema) = (Types::read(), Schema::new(Query::default(), Mutation::default(), Subscription::default()));
    for ((of, field), need) in needs() {
        let keyword = match of.as_str() {
            "Query" | "Mutation" | "Subscription" => of.to_lowercase(),
            _ => continue,
        };
        let query = format!("{keyword} {{ {} }}", types.selection(&of, &field));
        for (name, caller) in callers() {
            let refused = ask(&schema, &query, Some(&caller)).await.as_deref() == Some("FORBIDDEN");
            assert_eq!(refused, !permits(need, &caller), "{name}: {query}");
        }
        assert_eq!(ask(&schema, &query, None).await.as_deref(), Some("UNAUTHENTICATED"), "{query}");
    }
}

#[tokio::test]
async fn every_guarded_field_is_refused_to_callers_without_its_capability() {
    let (types, schema) = (Types::read(), Schema::new(Samples, EmptyMutation, EmptySubscription));
    let needs = needs();
    let guarded: BTreeSet<&str> = needs
        .iter()
        .filter(|((of, _), need)| **need != Need::Open && !["Query", "Mutation", "Subscription"].contains(&of.as_str()))
        .map(|((of, _), _)| of.as_str())
        .collect();
    for ((of, field), need) in needs.iter().filter(|((of, _), _)| guarded.contains(of.as_str())) {
        let query = format!("{{ sample{of} {{ {} }} }}", types.selection(of, field));
        for (name, caller) in callers() {
            let refused = ask(&schema, &query, Some(&caller)).await.as_deref() == Some("FORBIDDEN");
            assert_eq!(refused, !permits(*need, &caller), "{name}: {query}");
        }
        let unknown = ask(&schema, &query, None).await;
        assert_eq!(unknown.as_deref() == Some("UNAUTHENTICATED"), *need != Need::Open, "{query}: {unknown:?}");
    }
}

#[tokio::test]
async fn a_refusal_names_the_field_and_the_missing_capability() {
    let schema = Schema::new(Query::default(), Mutation::default(), Subscription::default());
    let viewer = Arc::new(Principal::new("ann", &[Role::Viewer]));
    let query = "mutation { retryOutbox(input: { select: { filter: { statuses: [FAILED] } } }) { matched } }";
    let response = schema.execute(Request::new(query).data(viewer)).await;
    assert_eq!(code(&response).as_deref(), Some("FORBIDDEN"));
    let message = &response.errors[0].message;
    assert!(message.contains("retryOutbox") && message.contains("RETRY"), "{message}");
}
