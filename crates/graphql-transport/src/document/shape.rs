//! Gives a response the shape of its operation.
//!
//! The executor orders fields by the time at which they are resolved, omits a failed field from its object, and sets an
//! object to null if all its fields failed. The GraphQL specification (sections 6.3 and 6.4.4) requires other results.
//! Fields have the order of the document. A failed field is null. If the field is non-null, the null moves up to the
//! nearest enclosing value that is nullable.
//!
//! The types of the schema determine which values are nullable. Validation ensures that fields of different types with
//! the same response key have the same nullability.

use std::collections::HashMap;
use std::sync::Arc;

use async_graphql::{Name, PathSegment, Pos, Response, ServerError, Value};
use async_graphql_value::indexmap::IndexMap;
use plain_json::UNWRITTEN;

use crate::reply::{code, set_code};

/// Merged selection of one object, in the order of the document.
#[derive(Debug, Default)]
pub(crate) struct Shape {
    members: Vec<Member>,
    /// Shapes of the object types of an interface or a union, if they differ. The type of an object determines the order of
    /// its fields.
    of_types: Vec<(Name, Self)>,
}

#[derive(Debug, Clone)]
pub(super) struct Member {
    pub(super) key: Name,
    /// Positions at which the document selects the field.
    pub(super) positions: Vec<Pos>,
    /// Whether the field is selected on objects of every possible type.
    pub(super) selected_on_all_types: bool,
    /// Nullability of the field, then of each level of its lists. A level beyond the end is nullable.
    pub(super) nullable: Vec<bool>,
    /// Shared by the types of an object, so the memory is proportional to the size of the merged operation.
    pub(super) shape: Arc<Shape>,
}

impl Shape {
    /// Returns the shape of objects of one type.
    pub(super) fn new(members: Vec<Member>) -> Self {
        Self { members, of_types: Vec::new() }
    }

    /// Returns the shape of objects that have one of several types. Their responses name the type ([`UNWRITTEN`]).
    pub(super) fn any_of(of_types: Vec<(Name, Self)>) -> Self {
        let mut shapes = of_types.iter().map(|(_, shape)| shape);
        let mut members = shapes.next().map_or_else(Vec::new, |shape| shape.members.clone());
        shapes.for_each(|shape| add_members(&mut members, &shape.members));
        Self { members, of_types }
    }

    /// Returns the shape of an object of this shape.
    fn of(&self, fields: &IndexMap<Name, Value>) -> &Self {
        if self.of_types.is_empty() {
            return self;
        }
        let Some(Value::String(object)) = fields.get(UNWRITTEN) else { return self };
        self.of_types.iter().find(|(name, _)| name.as_str() == object).map_or(self, |(_, shape)| shape)
    }

    /// Gives a response this shape, and sets the code of errors of argument values.
    pub(crate) fn apply(&self, response: &mut Response) {
        for error in &mut response.errors {
            if self.is_argument_error(error) {
                set_code(error, "GRAPHQL_VALIDATION_FAILED");
            }
            self.fill(&mut response.data, &error.path);
        }
        if !response.errors.is_empty() && !self.complete(&mut response.data) {
            response.data = Value::Null;
        }
        self.order(&mut response.data);
    }

    /// Returns the number of fields.
    pub(super) fn len(&self) -> usize {
        self.members.len()
    }

    fn member(&self, key: &str) -> Option<&Member> {
        self.members.iter().find(|member| member.key.as_str() == key)
    }

    /// Returns whether an error without a code is about an argument's value, found just before the field ran. Such an
    /// error is not located at its field, as a resolver's own error is.
    fn is_argument_error(&self, error: &ServerError) -> bool {
        let mut keys = error.path.iter().filter_map(|segment| match segment {
            PathSegment::Field(key) => Some(key.as_str()),
            PathSegment::Index(_) => None,
        });
        let first = keys.next().and_then(|key| self.member(key));
        let member = keys.try_fold(first, |member, key| Some(member?.shape.member(key)));
        let position = error.locations.first();
        let elsewhere = |member: &Member| position.is_some_and(|position| !member.positions.contains(position));
        code(error).is_none() && error.source.is_none() && member.flatten().is_some_and(elsewhere)
    }

    /// Inserts null if the failed field at `path` was omitted.
    fn fill(&self, value: &mut Value, path: &[PathSegment]) {
        let Some((PathSegment::Field(key), mut rest)) = path.split_first() else {
            return;
        };
        let Some(member) = self.member(key) else {
            return;
        };
        if *value == Value::Null {
            *value = Value::Object([].into_iter().collect());
        }
        let Value::Object(fields) = value else { return };
        let mut value = fields.entry(member.key.clone()).or_insert(Value::Null);
        while let Some((PathSegment::Index(index), beyond)) = rest.split_first() {
            let Value::List(items) = value else { return };
            let Some(item) = items.get_mut(*index) else {
                return;
            };
            (value, rest) = (item, beyond);
        }
        member.shape.fill(value, rest);
    }

    /// Returns whether all fields of an object have allowed values. Inserts null for omitted fields first, because an
    /// error without a path does not name the field that it caused to be omitted.
    fn complete(&self, value: &mut Value) -> bool {
        let Value::Object(fields) = value else {
            return true;
        };
        self.members.iter().all(|member| {
            if member.selected_on_all_types && !fields.contains_key(&member.key) {
                fields.insert(member.key.clone(), Value::Null);
            }
            fields.get_mut(&member.key).is_none_or(|value| member.complete(value, 0))
        })
    }

    /// Sorts the keys of an object, and of all objects inside it, into the order of the document.
    fn order(&self, value: &mut Value) {
        match value {
            Value::List(items) => items.iter_mut().for_each(|item| self.order(item)),
            Value::Object(fields) if !self.members.is_empty() => {
                let shape = self.of(fields);
                if !shape.is_ordered(fields.keys()) {
                    let position = |key: &Name| shape.members.iter().position(|member| member.key == *key);
                    fields.sort_by_cached_key(|key, _| position(key).unwrap_or(usize::MAX));
                }
                let mut members = shape.members.iter();
                for (key, value) in fields.iter_mut() {
                    if let Some(member) = members.find(|member| member.key == *key) {
                        member.shape.order(value);
                    }
                }
            }
            _ => {}
        }
    }

    fn is_ordered<'a>(&self, mut keys: impl Iterator<Item = &'a Name>) -> bool {
        let mut members = self.members.iter();
        keys.all(|key| members.any(|member| member.key == *key))
    }
}

/// Adds the fields of objects of a further type.
fn add_members(members: &mut Vec<Member>, others: &[Member]) {
    let mut common = vec![false; members.len()];
    let indices: HashMap<Name, usize> =
        members.iter().enumerate().map(|(index, member)| (member.key.clone(), index)).collect();
    for member in others {
        if let Some(&index) = indices.get(&member.key) {
            let known = &mut members[index];
            known.positions.extend_from_slice(&member.positions);
            known.selected_on_all_types &= member.selected_on_all_types;
            if known.shape.len() + member.shape.len() > 0 {
                let mut both = known.shape.members.clone();
                add_members(&mut both, &member.shape.members);
                known.shape = Arc::new(Shape::new(both));
            }
            common[index] = true;
        } else {
            members.push(Member { selected_on_all_types: false, ..member.clone() });
            common.push(true);
        }
    }
    for (member, common) in members.iter_mut().zip(common) {
        member.selected_on_all_types &= common;
    }
}

impl Member {
    /// Returns whether the value of a field, or of an element at a level of its lists, is allowed. Sets the value to
    /// null first if a part of it is null but not nullable.
    fn complete(&self, value: &mut Value, level: usize) -> bool {
        let complete = match &mut *value {
            Value::Null => false,
            Value::List(items) => items.iter_mut().all(|item| self.complete(item, level + 1)),
            value => self.shape.complete(value),
        };
        if !complete {
            *value = Value::Null;
        }
        complete || self.nullable.get(level).copied().unwrap_or(true)
    }
}

#[cfg(test)]
mod tests {
    use async_graphql::Variables;
    use serde_json::{Value as Json, json};

    use super::super::{Selected, TypeSystem, check};
    use super::*;
    use crate::limits::Limits;

    const SDL: &str = "
        schema { query: Root }
        type Root { maybe: Thing sure: Thing! list: [Thing!]! loose: [Thing] firm: [Thing!] lax: [Thing]! any: Any json: JSON }
        scalar JSON
        type Thing { name: String! note: String self: Thing! any: Any! }
        type Other { name: String thing: Thing! any: Any! }
        union Any = Thing | Other
    ";

    fn shape(query: &str, variables: Json) -> Shape {
        let types = TypeSystem::from_sdl(SDL).unwrap();
        let selected = Selected { query, operation: None };
        let checked = check(selected, &Variables::from_json(variables).into(), &types, &Limits::default());
        checked.unwrap().shape
    }

    fn apply(query: &str, data: Json, paths: &[Json]) -> Json {
        apply_with(query, json!({}), data, paths)
    }

    fn apply_with(query: &str, variables: Json, data: Json, paths: &[Json]) -> Json {
        let shape = shape(query, variables);
        let mut response = Response::new(Value::from_json(data).unwrap());
        response.errors = paths.iter().map(failed).collect();
        shape.apply(&mut response);
        response.data.into_json().unwrap()
    }

    fn failed(path: &Json) -> ServerError {
        ServerError::new("", None).with_path(serde_json::from_value(path.clone()).unwrap())
    }

    #[test]
    fn failed_nullable_field_is_null() {
        let query = "{ maybe { name note } }";
        let data = apply(query, json!({ "maybe": { "name": "a" } }), &[json!(["maybe", "note"])]);
        assert_eq!(data, json!({ "maybe": { "name": "a", "note": null } }));
        assert_eq!(apply("{ maybe { name } }", json!(null), &[json!(["maybe"])]), json!({ "maybe": null }));
    }

    #[test]
    fn null_of_a_non_null_field_moves_up_to_the_nearest_nullable_value() {
        let path = json!(["maybe", "self", "self", "name"]);
        let query = "{ maybe { note self { note self { note name } } } }";
        let data = json!({ "maybe": { "note": "a", "self": { "note": "b", "self": { "note": "c" } } } });
        assert_eq!(apply(query, data, &[path]), json!({ "maybe": null }));
        assert_eq!(apply("{ sure { name } }", json!({ "sure": null }), &[json!(["sure", "name"])]), json!(null));
    }

    #[test]
    fn object_with_only_failed_nullable_fields_is_not_null() {
        let data = apply("{ sure { note } }", json!({ "sure": null }), &[json!(["sure", "note"])]);
        assert_eq!(data, json!({ "sure": { "note": null } }));
        let both = [json!(["sure", "note"]), json!(["sure", "name"])];
        assert_eq!(apply("{ sure { note name } }", json!({ "sure": null }), &both), json!(null));
    }

    #[test]
    fn only_nullable_list_elements_are_null() {
        let things = |key: &str| json!({ key: [{ "name": "a" }, null, { "name": "c" }] });
        let loose = apply("{ loose { name } }", things("loose"), &[json!(["loose", 1, "name"])]);
        assert_eq!(loose, things("loose"));
        assert_eq!(apply("{ lax { name } }", things("lax"), &[json!(["lax", 1, "name"])]), things("lax"));
        assert_eq!(apply("{ firm { name } }", things("firm"), &[json!(["firm", 1, "name"])]), json!({ "firm": null }));
        assert_eq!(apply("{ list { name } }", things("list"), &[json!(["list", 1, "name"])]), json!(null));
    }

    #[test]
    fn nulls_inside_a_scalar_stay() {
        let data = json!({ "json": [null, [1, null]], "maybe": null });
        assert_eq!(apply("{ json maybe { name } }", data.clone(), &[json!(["maybe", "name"])]), data);
    }

    #[test]
    fn key_of_several_types_has_the_fields_of_each_type() {
        let query =
            "{ any { ... on Thing { a: self { name } } ...other } } fragment other on Other { a: thing { note } }";
        let data = json!({ "any": { "a": { "note": "x" } } });
        assert_eq!(apply(query, data.clone(), &[json!([])]), data);
        assert_eq!(
            apply(query, json!({ "any": {} }), &[json!(["any", "a", "note"])]),
            json!({ "any": { "a": { "note": null } } })
        );
    }

    #[test]
    fn field_omitted_by_an_error_without_path_is_restored() {
        let data = || json!({ "maybe": { "a": "x" }, "sure": { "a": "x" } });
        let applied = apply("{ maybe { a: name note } sure { a: name note } }", data(), &[json!([])]);
        assert_eq!(applied, json!({ "maybe": { "a": "x", "note": null }, "sure": { "a": "x", "note": null } }));
        let applied = apply("{ maybe { a: name name } sure { a: name } }", data(), &[json!([])]);
        assert_eq!(applied, json!({ "maybe": null, "sure": { "a": "x" } }));
        // Fields that are skipped, or that the type does not have, stay absent.
        let query = "query ($b: Boolean!) { sure { a: name name @skip(if: $b) } any { ... on Other { name } } }";
        let data = json!({ "sure": { "a": "x" }, "any": {} });
        assert_eq!(apply_with(query, json!({ "b": true }), data.clone(), &[json!([])]), data);
        // Here a `Thing` selects `a.note` only on a `Thing`, and an `Other` always.
        let query = "{ any { ... on Thing { a: any { ... on Thing { note } } } ... on Other { a: thing { note } } } }";
        let data = json!({ "any": { "a": {} } });
        assert_eq!(apply(query, data.clone(), &[json!([])]), data);
        // Here it is the other way round.
        let query = "{ any { ... on Thing { a: self { note } } ... on Other { a: any { ... on Thing { note } } } } }";
        assert_eq!(apply(query, data.clone(), &[json!([])]), data);
    }

    #[test]
    fn keys_have_the_order_of_the_document() {
        let query = "{ list { b: name ...f a: name } } fragment f on Thing { self { y: name x: name } }";
        let thing = r#"{"a":"1","self":{"x":"2","y":"3"},"b":"4"}"#;
        let data = apply(query, serde_json::from_str(&format!(r#"{{"list":[{thing},{thing}]}}"#)).unwrap(), &[]);
        assert_eq!(data, serde_json::from_str::<Json>(&format!(r#"{{"list":[{thing},{thing}]}}"#)).unwrap());
        let value = Value::from_json(data).unwrap();
        let expected = r#"{b: "4",self: {y: "3",x: "2"},a: "1"}"#;
        let mut response = Response::new(value);
        shape(query, json!({})).apply(&mut response);
        assert_eq!(response.data.to_string().replace(", ", ","), format!("{{list: [{expected},{expected}]}}"));
    }

    #[test]
    fn keys_have_the_order_of_their_object_type() {
        let query = "{ any { ... on Thing { a: note } n: __typename ... on Other { a: name } } }";
        for (object, expected) in [("Thing", ["a", "n"]), ("Other", ["n", "a"])] {
            for given in [["a", "n"], ["n", "a"]] {
                let fields = given.map(|key| (Name::new(key), Value::Null)).into_iter();
                let fields = fields.chain([(Name::new(UNWRITTEN), Value::from(object))]).collect();
                let any = [(Name::new("any"), Value::Object(fields))].into_iter().collect();
                let mut response = Response::new(Value::Object(any));
                shape(query, json!({})).apply(&mut response);
                let Value::Object(data) = response.data else { panic!("no object") };
                let Value::Object(fields) = &data["any"] else { panic!("no object") };
                let keys: Vec<&str> = fields.keys().map(Name::as_str).filter(|key| *key != UNWRITTEN).collect();
                assert_eq!(keys, expected, "{object}");
            }
        }
    }

    #[test]
    fn keys_inside_an_object_whose_type_comes_first_are_ordered() {
        let object = |keys: &[(&str, Value)]| {
            Value::Object(keys.iter().map(|(key, value)| (Name::new(key), value.clone())).collect())
        };
        let inner = object(&[("x", Value::Null), ("y", Value::Null)]);
        let any = object(&[(UNWRITTEN, "Thing".into()), ("a", inner)]);
        let mut response = Response::new(object(&[("any", any)]));
        shape("{ any { ... on Thing { a: self { y: name x: name } } } }", json!({})).apply(&mut response);
        assert!(response.data.to_string().contains("a: {y: null, x: null}"), "{}", response.data);
    }
}
