//! Digest of the fields that an operation selects. Readers with equal digests can share a rendered item.

use std::convert::Infallible;

use async_graphql::Variables;
use async_graphql::parser::types::{ExecutableDocument, Selection as Node, SelectionSet};
use sha2::{Digest, Sha256};

/// Digest of the fields that a subscription selects. Two digests are equal only if the operations select the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Selection([u8; 32]);

impl Selection {
    /// Returns the selection of a merged operation; `None` if it has no root field. The arguments of the root field,
    /// such as a cursor, only select the items and do not count. All fields below it count, with the values of
    /// variables.
    #[must_use]
    pub fn of(document: &ExecutableDocument, variables: &Variables) -> Option<Self> {
        let (_, operation) = document.operations.iter().next()?;
        let Node::Field(root) = &operation.node.selection_set.node.items.first()?.node else { return None };
        let mut digest = SelectionHasher { hash: Sha256::new(), variables };
        digest.text(&root.node.name.node);
        digest.set(&root.node.selection_set.node);
        Some(Self(digest.hash.finalize().into()))
    }
}

/// Hashes a selection. Each part is preceded by its length or number, so that different selections hash different
/// bytes.
struct SelectionHasher<'a> {
    hash: Sha256,
    variables: &'a Variables,
}

impl SelectionHasher<'_> {
    fn text(&mut self, text: &str) {
        self.number(text.len());
        self.hash.update(text);
    }

    fn number(&mut self, number: usize) {
        self.hash.update(number.to_be_bytes());
    }

    /// Recursive; the transport bounds the depth of an operation.
    fn set(&mut self, set: &SelectionSet) {
        self.number(set.items.len());
        for item in &set.items {
            match &item.node {
                Node::Field(field) => {
                    let field = &field.node;
                    self.text(&field.name.node);
                    self.text(&field.response_key().node);
                    self.number(field.arguments.len());
                    for (name, value) in &field.arguments {
                        self.text(&name.node);
                        let value = value.node.clone().into_const_with(|name| {
                            Ok::<_, Infallible>(self.variables.get(&name).cloned().unwrap_or_default())
                        });
                        self.text(&value.map(|value| value.to_string()).unwrap_or_default());
                    }
                    self.set(&field.selection_set.node);
                }
                Node::InlineFragment(inline) => {
                    let condition = inline.node.type_condition.as_ref();
                    self.text("...");
                    self.text(condition.map_or("", |condition| &condition.node.on.node));
                    self.set(&inline.node.selection_set.node);
                }
                Node::FragmentSpread(spread) => self.text(&spread.node.fragment_name.node),
            }
        }
    }
}
