//! Texts of values that several readers share.
//!
//! The executor orders the fields of an object by the time at which they are resolved. The transport corrects that in
//! values, and can't do it in texts, so a text is written in the order of the document. It relies on the transport, which
//! merges the selection: each response key occurs once, and where the type of an object determines its fields, there is a
//! fragment for each type, and the object names its type under [`UNWRITTEN`].

use async_graphql::indexmap::IndexMap;
use async_graphql::parser::types::{Field, Selection, SelectionSet};
use async_graphql::{Name, Value};
use plain_json::{UNWRITTEN, append};

/// Orders a value as its selection and returns it as JSON text; `None` if it can't be written.
pub fn text(value: &mut Value, selection: &SelectionSet) -> Option<Vec<u8>> {
    order(value, selection);
    let mut text = Vec::new();
    append(value, &mut text).ok()?;
    text.shrink_to_fit();
    Some(text)
}

/// Sorts the keys of an object, and of all objects inside it, into the order of the selection.
fn order(value: &mut Value, selection: &SelectionSet) {
    match value {
        Value::List(items) => items.iter_mut().for_each(|item| order(item, selection)),
        // The object of a JSON scalar has no selection.
        Value::Object(values) if !selection.items.is_empty() => {
            let selected = fields(selection, values);
            let mut ordered = IndexMap::with_capacity(values.len());
            for field in selected {
                let key = &field.response_key().node;
                if let Some(mut value) = values.swap_remove(key) {
                    order(&mut value, &field.selection_set.node);
                    ordered.insert(key.clone(), value);
                }
            }
            *values = ordered;
        }
        _ => {}
    }
}

/// Returns the fields that are selected on an object.
fn fields<'s>(selection: &'s SelectionSet, object: &IndexMap<Name, Value>) -> Vec<&'s Field> {
    let mut fields = Vec::with_capacity(selection.items.len());
    for item in &selection.items {
        match &item.node {
            Selection::Field(field) => fields.push(&field.node),
            Selection::InlineFragment(inline) => {
                let of = inline.node.type_condition.as_ref().map(|condition| condition.node.on.node.as_str());
                if of.is_some_and(|of| matches!(object.get(UNWRITTEN), Some(Value::String(name)) if name == of)) {
                    fields.extend(self::fields(&inline.node.selection_set.node, object));
                }
            }
            Selection::FragmentSpread(_) => {}
        }
    }
    fields
}
