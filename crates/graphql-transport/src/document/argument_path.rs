//! Finds the argument of an error, for its message.

use std::fmt::Write;

use apollo_compiler::Node;
use apollo_compiler::ast::{Argument, Definition, DirectiveList, Document, Selection, Value};
use apollo_compiler::parser::SourceSpan;

/// Returns the path to the argument value at a byte, such as `filter.states[0]`; `None` if no argument contains the
/// byte.
pub(super) fn at(document: &Document, offset: usize) -> Option<String> {
    let around = document.definitions.iter().find(|definition| holds(definition.location(), offset))?;
    match around {
        Definition::OperationDefinition(operation) => {
            within_directives(&operation.directives, offset).or_else(|| within(&operation.selection_set, offset))
        }
        Definition::FragmentDefinition(fragment) => {
            within_directives(&fragment.directives, offset).or_else(|| within(&fragment.selection_set, offset))
        }
        _ => None,
    }
}

/// Recursive. The depth is bounded because the lexer limits the depth of brackets.
fn within(selections: &[Selection], offset: usize) -> Option<String> {
    let around = selections.iter().find(|selection| holds(selection.location(), offset))?;
    match around {
        Selection::Field(field) => within_arguments(&field.arguments, offset)
            .or_else(|| within_directives(&field.directives, offset))
            .or_else(|| within(&field.selection_set, offset)),
        Selection::FragmentSpread(spread) => within_directives(&spread.directives, offset),
        Selection::InlineFragment(inline) => {
            within_directives(&inline.directives, offset).or_else(|| within(&inline.selection_set, offset))
        }
    }
}

fn within_directives(directives: &DirectiveList, offset: usize) -> Option<String> {
    directives.iter().find_map(|directive| within_arguments(&directive.arguments, offset))
}

fn within_arguments(arguments: &[Node<Argument>], offset: usize) -> Option<String> {
    let argument = arguments.iter().find(|argument| holds(argument.value.location(), offset))?;
    let (mut path, mut value) = (argument.name.to_string(), &argument.value);
    loop {
        let inner = match &**value {
            Value::List(items) => {
                let mut items = items.iter().enumerate();
                items.find(|(_, item)| holds(item.location(), offset)).map(|(index, item)| {
                    // Writing to a string can't fail.
                    let _ = write!(path, "[{index}]");
                    item
                })
            }
            Value::Object(fields) => {
                fields.iter().find(|(_, field)| holds(field.location(), offset)).map(|(name, field)| {
                    path.push('.');
                    path.push_str(name);
                    field
                })
            }
            _ => None,
        };
        match inner {
            Some(inner) => value = inner,
            None => return Some(path),
        }
    }
}

fn holds(span: Option<SourceSpan>, offset: usize) -> bool {
    span.is_some_and(|span| (span.offset()..span.end_offset()).contains(&offset))
}

#[cfg(test)]
mod tests {
    use apollo_compiler::parser::Parser;

    use super::*;

    #[test]
    fn argument_path_includes_the_place_inside_its_value() {
        let text =
            "query @d(x: 9) { f { g(input: { list: [1, { key: 5 }], other: 6 }) } ...s } fragment s on T { h(y: 7) }";
        let document = Parser::new().parse_ast(text, "").unwrap();
        let path = |value: char| at(&document, text.find(value).unwrap());
        assert_eq!(path('5').as_deref(), Some("input.list[1].key"));
        assert_eq!(path('6').as_deref(), Some("input.other"));
        assert_eq!((path('7').as_deref(), path('9').as_deref()), (Some("y"), Some("x")));
        assert_eq!(path('g'), None);
    }
}
