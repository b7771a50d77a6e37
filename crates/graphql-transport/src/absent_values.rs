//! Arguments and input fields whose variable has no value.
//!
//! The executor gets them as absent (GraphQL specification, section 6.4.1). A resolver whose absent input has a
//! dangerous meaning, such as "everything", reads [`AbsentValues`] from its context to refuse the request.

use async_graphql::Pos;

/// Arguments and input fields of an operation whose variable has no value. It is part of the data of each request.
#[derive(Debug, Default)]
pub struct AbsentValues(Vec<AbsentOfField>);

/// The absent arguments and input fields of one field.
#[derive(Debug)]
struct AbsentOfField {
    /// Position of the field in the document.
    field: Pos,
    paths: Vec<Vec<String>>,
}

impl AbsentValues {
    /// Adds the absent arguments and input fields of a field.
    pub(super) fn add(&mut self, field: Pos, paths: Vec<Vec<String>>) {
        if !paths.is_empty() {
            self.0.push(AbsentOfField { field, paths });
        }
    }

    /// Returns the paths of the absent arguments and input fields of the field at a position. A path begins with the
    /// argument, and contains the indexes of lists as decimal texts.
    pub fn of_field(&self, field: Pos) -> impl Iterator<Item = &[String]> {
        let absent = self.0.iter().filter(move |absent| absent.field == field);
        absent.flat_map(|absent| absent.paths.iter().map(Vec::as_slice))
    }
}
