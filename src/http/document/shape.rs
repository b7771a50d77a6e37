//! Gives an answer the shape that its operation asked for.
//!
//! The executor puts fields in the order in which they are resolved, leaves a field that failed out of its object, and
//! makes an object null when all its fields failed. The GraphQL specification (sections 6.3 and 6.4.4) has fields in the
//! order of the document, null for a field that failed, and, where that field may not be null, null for what is around it,
//! up to the next place that may.
//!
//! What may be null comes from the types of the schema. Validation ensures that fields of different types with the same
//! response key are null under the same conditions.

use std::collections::HashMap;

use async_graphql::{Name, PathSegment, Pos, Response, ServerError, Value};

use crate::http::reply::{code, set_code};

/// Selection of one object, in the order of the document, with its fields merged.
#[derive(Debug, Default)]
pub(in crate::http) struct Shape {
    members: Vec<Member>,
}

#[derive(Debug)]
pub(super) struct Member {
    pub(super) key: Name,
    /// Where the document selects it.
    pub(super) positions: Vec<Pos>,
    /// Whether it is selected of every object, whatever its type.
    pub(super) certain: bool,
    /// Whether it may be null, then whether its elements may, and theirs; what is not told may.
    pub(super) nullable: Vec<bool>,
    pub(super) shape: Shape,
}

impl Shape {
    /// The shape of objects of one type.
    pub(super) fn new(members: Vec<Member>) -> Self {
        Self { members }
    }

    /// The shape of objects that have one of several types.
    pub(super) fn any_of(shapes: impl IntoIterator<Item = Self>) -> Self {
        shapes.into_iter().reduce(Self::or).unwrap_or_default()
    }

    fn or(mut self, other: Self) -> Self {
        let mut common = vec![false; self.members.len()];
        let places = self.members.iter().enumerate().map(|(index, member)| (member.key.clone(), index));
        let places: HashMap<Name, usize> = places.collect();
        for mut member in other.members {
            if let Some(&index) = places.get(&member.key) {
                let known = &mut self.members[index];
                known.positions.append(&mut member.positions);
                known.certain &= member.certain;
                known.shape = std::mem::take(&mut known.shape).or(member.shape);
                common[index] = true;
            } else {
                self.members.push(Member { certain: false, ..member });
                common.push(true);
            }
        }
        for (member, common) in self.members.iter_mut().zip(common) {
            member.certain &= common;
        }
        self
    }

    /// Mends an answer.
    pub(in crate::http) fn restore(&self, response: &mut Response) {
        for error in &mut response.errors {
            if self.blames_an_argument(error) {
                set_code(error, "GRAPHQL_VALIDATION_FAILED");
            }
            self.fill(&mut response.data, &error.path);
        }
        if !response.errors.is_empty() && !self.complete(&mut response.data) {
            response.data = Value::Null;
        }
        self.order(&mut response.data);
    }

    fn member(&self, key: &str) -> Option<&Member> {
        self.members.iter().find(|member| member.key.as_str() == key)
    }

    /// Whether an error without a code is of an argument's value, found when the field was to run: a resolver's own error
    /// is placed at its field.
    fn blames_an_argument(&self, error: &ServerError) -> bool {
        let mut keys = error.path.iter().filter_map(|segment| match segment {
            PathSegment::Field(key) => Some(key.as_str()),
            PathSegment::Index(_) => None,
        });
        let first = keys.next().and_then(|key| self.member(key));
        let member = keys.try_fold(first, |member, key| Some(member?.shape.member(key)));
        let place = error.locations.first();
        let elsewhere = |member: &Member| place.is_some_and(|place| !member.positions.contains(place));
        code(error).is_none() && error.source.is_none() && member.flatten().is_some_and(elsewhere)
    }

    /// Puts null where the field of an error is left out.
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

    /// Whether an object has, in every field that it must have, a value that may be there. An error
    /// need not have a path, so what it left out is found by looking for it.
    fn complete(&self, value: &mut Value) -> bool {
        let Value::Object(fields) = value else {
            return true;
        };
        self.members.iter().all(|member| {
            if member.certain && !fields.contains_key(&member.key) {
                fields.insert(member.key.clone(), Value::Null);
            }
            fields.get_mut(&member.key).is_none_or(|value| member.complete(value, 0))
        })
    }

    /// Puts the keys of an object, and of what is in it, into the document's order.
    fn order(&self, value: &mut Value) {
        match value {
            Value::List(items) => items.iter_mut().for_each(|item| self.order(item)),
            Value::Object(fields) if !self.members.is_empty() => {
                if !self.is_ordered(fields.keys()) {
                    let place = |key: &Name| self.members.iter().position(|member| member.key == *key);
                    fields.sort_by_cached_key(|key, _| place(key).unwrap_or(usize::MAX));
                }
                let mut members = self.members.iter();
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

impl Member {
    /// Whether a field, or an element at some level of its lists, may stay. One that has to be null is null afterwards.
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
    use crate::http::limits::Limits;

    const SDL: &str = "
        schema { query: Root }
        type Root { maybe: Thing sure: Thing! list: [Thing!]! loose: [Thing] any: Any }
        type Thing { name: String! note: String self: Thing! }
        type Other { name: String thing: Thing! }
        union Any = Thing | Other
    ";

    fn shape(query: &str, variables: Json) -> Shape {
        let types = TypeSystem::from_sdl(SDL).unwrap();
        let selected = Selected { query, operation: None };
        let checked = check(selected, Variables::from_json(variables), &types, &Limits::default());
        checked.unwrap().shape
    }

    fn restore(query: &str, data: Json, paths: &[Json]) -> Json {
        restore_with(query, json!({}), data, paths)
    }

    fn restore_with(query: &str, variables: Json, data: Json, paths: &[Json]) -> Json {
        let shape = shape(query, variables);
        let mut response = Response::new(Value::from_json(data).unwrap());
        response.errors = paths.iter().map(failed).collect();
        shape.restore(&mut response);
        response.data.into_json().unwrap()
    }

    fn failed(path: &Json) -> ServerError {
        ServerError::new("", None).with_path(serde_json::from_value(path.clone()).unwrap())
    }

    #[test]
    fn a_failed_field_is_null_where_it_may_be() {
        let query = "{ maybe { name note } }";
        let data = restore(query, json!({ "maybe": { "name": "a" } }), &[json!(["maybe", "note"])]);
        assert_eq!(data, json!({ "maybe": { "name": "a", "note": null } }));
        assert_eq!(restore("{ maybe { name } }", json!(null), &[json!(["maybe"])]), json!({ "maybe": null }));
    }

    #[test]
    fn null_goes_up_to_the_next_place_that_may_be_null() {
        let path = json!(["maybe", "self", "self", "name"]);
        let query = "{ maybe { note self { note self { note name } } } }";
        let data = json!({ "maybe": { "note": "a", "self": { "note": "b", "self": { "note": "c" } } } });
        assert_eq!(restore(query, data, &[path]), json!({ "maybe": null }));
        assert_eq!(restore("{ sure { name } }", json!({ "sure": null }), &[json!(["sure", "name"])]), json!(null));
    }

    #[test]
    fn an_object_whose_fields_all_failed_is_no_null_where_they_may_be_null() {
        let data = restore("{ sure { note } }", json!({ "sure": null }), &[json!(["sure", "note"])]);
        assert_eq!(data, json!({ "sure": { "note": null } }));
        let both = [json!(["sure", "note"]), json!(["sure", "name"])];
        assert_eq!(restore("{ sure { note name } }", json!({ "sure": null }), &both), json!(null));
    }

    #[test]
    fn elements_of_lists_are_null_where_they_may_be() {
        let things = |key: &str| json!({ key: [{ "name": "a" }, null, { "name": "c" }] });
        let loose = restore("{ loose { name } }", things("loose"), &[json!(["loose", 1, "name"])]);
        assert_eq!(loose, things("loose"));
        assert_eq!(restore("{ list { name } }", things("list"), &[json!(["list", 1, "name"])]), json!(null));
    }

    #[test]
    fn a_key_of_several_types_has_the_fields_of_each() {
        let query =
            "{ any { ... on Thing { a: self { name } } ...other } } fragment other on Other { a: thing { note } }";
        let data = json!({ "any": { "a": { "note": "x" } } });
        assert_eq!(restore(query, data.clone(), &[json!([])]), data);
        assert_eq!(
            restore(query, json!({ "any": {} }), &[json!(["any", "a", "note"])]),
            json!({ "any": { "a": { "note": null } } })
        );
    }

    #[test]
    fn what_an_error_without_a_path_left_out_is_found() {
        let data = || json!({ "maybe": { "a": "x" }, "sure": { "a": "x" } });
        let restored = restore("{ maybe { a: name note } sure { a: name note } }", data(), &[json!([])]);
        assert_eq!(restored, json!({ "maybe": { "a": "x", "note": null }, "sure": { "a": "x", "note": null } }));
        let restored = restore("{ maybe { a: name name } sure { a: name } }", data(), &[json!([])]);
        assert_eq!(restored, json!({ "maybe": null, "sure": { "a": "x" } }));
        // Not what may rightly be missing.
        let query = "query ($b: Boolean!) { sure { a: name name @skip(if: $b) } any { ... on Other { name } } }";
        let data = json!({ "sure": { "a": "x" }, "any": {} });
        assert_eq!(restore_with(query, json!({ "b": true }), data.clone(), &[json!([])]), data);
    }

    #[test]
    fn keys_are_in_the_documents_order() {
        let query = "{ list { b: name ...f a: name } } fragment f on Thing { self { y: name x: name } }";
        let thing = r#"{"a":"1","self":{"x":"2","y":"3"},"b":"4"}"#;
        let data = restore(query, serde_json::from_str(&format!(r#"{{"list":[{thing},{thing}]}}"#)).unwrap(), &[]);
        assert_eq!(data, serde_json::from_str::<Json>(&format!(r#"{{"list":[{thing},{thing}]}}"#)).unwrap());
        let value = Value::from_json(data).unwrap();
        let expected = r#"{b: "4",self: {y: "3",x: "2"},a: "1"}"#;
        let mut response = Response::new(value);
        shape(query, json!({})).restore(&mut response);
        assert_eq!(response.data.to_string().replace(", ", ","), format!("{{list: [{expected},{expected}]}}"));
    }
}
