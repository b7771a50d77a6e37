//! Which fields of a schema may be null, as its SDL says.

use std::collections::HashMap;

use async_graphql::Name;
use async_graphql::Positioned;
use async_graphql::parser::types::{
    BaseType, FieldDefinition, OperationType, SchemaDefinition, Type, TypeDefinition, TypeKind, TypeSystemDefinition,
};
use async_graphql::parser::{self, parse_schema};

/// The type of each field of a schema. An empty one, the default, takes every field as nullable.
#[derive(Debug, Clone, Default)]
pub struct Nullability {
    roots: HashMap<&'static str, Name>,
    types: HashMap<Name, HashMap<Name, Type>>,
}

impl Nullability {
    /// Reads the types of an SDL document.
    ///
    /// # Errors
    ///
    /// If it is no SDL document.
    pub fn from_sdl(sdl: &str) -> Result<Self, parser::Error> {
        let mut nullability = Self::default();
        for definition in parse_schema(sdl)?.definitions {
            match definition {
                TypeSystemDefinition::Schema(schema) => nullability.add_roots(schema.node),
                TypeSystemDefinition::Type(definition) => nullability.add_type(definition.node),
                TypeSystemDefinition::Directive(_) => {}
            }
        }
        Ok(nullability)
    }

    fn add_roots(&mut self, schema: SchemaDefinition) {
        let roots = [("query", schema.query), ("mutation", schema.mutation), ("subscription", schema.subscription)];
        self.roots.extend(roots.into_iter().filter_map(|(kind, name)| Some((kind, name?.node))));
    }

    fn add_type(&mut self, definition: TypeDefinition) {
        let fields = match definition.kind {
            TypeKind::Object(object) => object.fields,
            TypeKind::Interface(interface) => interface.fields,
            _ => return,
        };
        let field = |field: Positioned<FieldDefinition>| (field.node.name.node, field.node.ty.node);
        self.types.entry(definition.name.node).or_default().extend(fields.into_iter().map(field));
    }

    /// The type at the root of an operation.
    pub(super) fn root(&self, kind: OperationType) -> Option<&Name> {
        self.roots.get(kind.to_string().as_str())
    }

    /// The type of a field; none where it is not known.
    pub(super) fn field(&self, parent: Option<&Name>, field: &Name) -> Option<&Type> {
        self.types.get(parent?)?.get(field)
    }
}

/// Whether a type is nullable at each level, from the outermost list to the innermost element.
pub(super) fn levels(mut given: &Type) -> Vec<bool> {
    let mut levels = vec![given.nullable];
    while let BaseType::List(element) = &given.base {
        given = element;
        levels.push(given.nullable);
    }
    levels
}

/// The type that a list, or a list of lists, is made of.
pub(super) fn element(mut given: &Type) -> &Name {
    loop {
        match &given.base {
            BaseType::List(inner) => given = inner,
            BaseType::Named(name) => return name,
        }
    }
}
