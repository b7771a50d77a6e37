//! The types of a schema, read from its SDL. Validation, merging and nullability all use them.

use std::collections::{HashMap, HashSet};

use apollo_compiler::ast::{DirectiveList, FieldDefinition, Type};
use apollo_compiler::schema::{ExtendedType, Name, NamedType};
use apollo_compiler::validation::Valid;
use apollo_compiler::{Schema, name, ty};
use async_graphql::{Name as Key, Value};

use super::prepared::RecentDocuments;

/// A scalar of the schema whose values are checked before an operation runs.
#[derive(Debug, Clone, Copy)]
pub struct CheckedScalar {
    /// Name of the scalar.
    pub name: &'static str,
    /// A value of the scalar, for messages.
    pub example: &'static str,
    /// Returns whether a value is one of the scalar.
    pub fits: fn(&Value) -> bool,
}

/// The types of a schema. Documents are validated against them.
#[derive(Debug)]
pub struct TypeSystem {
    schema: Valid<Schema>,
    scalars: Vec<CheckedScalar>,
    /// Names of the scalars whose values are carried as text.
    carried: Vec<&'static str>,
    /// The names of the fields of all input objects.
    input_fields: HashSet<Key>,
    /// The object types of each union, and of each interface that has any.
    possible: HashMap<NamedType, Vec<NamedType>>,
    recent: RecentDocuments,
}

/// An SDL document that is not a valid schema.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct InvalidSchema(String);

impl TypeSystem {
    /// Reads the types of an SDL document.
    ///
    /// # Errors
    ///
    /// Returns an error if the SDL is not a valid schema.
    pub fn from_sdl(sdl: &str) -> Result<Self, InvalidSchema> {
        let mut schema =
            Schema::parse(sdl, "schema.graphql").map_err(|invalid| InvalidSchema(invalid.errors.to_string()))?;
        add_is_one_of(&mut schema);
        let schema = schema.validate().map_err(|invalid| InvalidSchema(invalid.errors.to_string()))?;
        let mut possible: HashMap<NamedType, Vec<NamedType>> = HashMap::new();
        let mut input_fields = HashSet::new();
        for (name, definition) in &schema.types {
            match definition {
                ExtendedType::Union(union) => {
                    possible.insert(name.clone(), union.members.iter().map(|member| member.name.clone()).collect());
                }
                ExtendedType::Object(object) => {
                    for interface in &object.implements_interfaces {
                        possible.entry(interface.name.clone()).or_default().push(name.clone());
                    }
                }
                ExtendedType::InputObject(input) => input_fields.extend(input.fields.keys().map(Key::new)),
                _ => {}
            }
        }
        let (scalars, carried) = (Vec::new(), Vec::new());
        Ok(Self { schema, scalars, carried, input_fields, possible, recent: RecentDocuments::default() })
    }

    /// Adds a scalar whose values are checked. The values of other scalars are left to the resolvers.
    #[must_use]
    pub fn with_scalar(mut self, scalar: CheckedScalar) -> Self {
        self.scalars.push(scalar);
        self
    }

    /// Adds a scalar whose values in variables are carried as text: a resolver gets such a value as bytes that contain
    /// JSON text, and that share the memory of the request. Null stays null. The values in documents are values as usual,
    /// in which a variable can be such bytes.
    #[must_use]
    pub fn with_carried_scalar(mut self, name: &'static str) -> Self {
        self.carried.push(name);
        self
    }

    /// Returns whether the values of a type are carried as text.
    pub(super) fn is_carried(&self, name: &Name) -> bool {
        self.carried.iter().any(|carried| *carried == name.as_str())
    }

    /// Returns the name of a field of some input object.
    pub(super) fn input_field(&self, name: &str) -> Option<&Key> {
        self.input_fields.get(name)
    }

    /// Returns the scalars whose values are checked.
    pub(super) fn scalars(&self) -> &[CheckedScalar] {
        &self.scalars
    }

    /// Returns the documents that were validated against the types recently.
    pub(super) fn recent(&self) -> &RecentDocuments {
        &self.recent
    }

    pub(super) fn schema(&self) -> &Valid<Schema> {
        &self.schema
    }

    /// Returns the object types of an interface or union; `None` for any other type, and for an interface that no object
    /// type implements.
    pub(super) fn possible(&self, name: &Name) -> Option<&[NamedType]> {
        self.possible.get(name).map(Vec::as_slice)
    }

    /// Returns whether a fragment on `condition` applies to an object (GraphQL specification, section 6.3.2,
    /// `DoesFragmentTypeApply`).
    pub(super) fn applies(&self, condition: &Name, object: &Name) -> bool {
        condition == object || self.possible(condition).is_some_and(|objects| objects.contains(object))
    }
}

/// Returns whether a type is nullable at each level, from the outermost list to the innermost element.
pub(super) fn levels(mut given: &Type) -> Vec<bool> {
    let mut levels = vec![!given.is_non_null()];
    while let Type::List(element) | Type::NonNullList(element) = given {
        given = element;
        levels.push(!given.is_non_null());
    }
    levels
}

/// Adds `__Type.isOneOf`. apollo-compiler has the introspection types of GraphQL's edition of 2021; the executor has this
/// field of the next one too.
fn add_is_one_of(schema: &mut Schema) {
    let field = FieldDefinition {
        description: None,
        name: name!("isOneOf"),
        arguments: Vec::new(),
        ty: ty!(Boolean),
        directives: DirectiveList::default(),
    };
    if let Some(ExtendedType::Object(introspected)) = schema.types.get_mut("__Type") {
        introspected.make_mut().fields.insert(field.name.clone(), field.into());
    }
}
