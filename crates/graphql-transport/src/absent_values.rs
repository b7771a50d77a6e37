//! Arguments and input fields whose variable has no value.
//!
//! The executor gets them as absent (GraphQL specification, section 6.4.1). A resolver whose absent input has a
//! dangerous meaning, such as "everything", reads [`AbsentValues`] from its context to refuse the request.

use async_graphql::Pos;

/// Arguments and input fields of an operation whose variable has no value: the position of their field in the document,
/// and their path. It is part of the data of each request.
#[derive(Debug, Default)]
pub struct AbsentValues(Vec<(Pos, Vec<String>)>);

impl AbsentValues {
    /// Adds the absent arguments and input fields of the field at a position.
    pub(super) fn add(&mut self, field: Pos, paths: Vec<Vec<String>>) {
        self.0.extend(paths.into_iter().map(|path| (field, path)));
    }

    /// Returns the paths of the absent arguments and input fields of the field at a position. A path begins with the
    /// argument, and contains the indexes of lists as decimal texts.
    pub fn of_field(&self, field: Pos) -> impl Iterator<Item = &[String]> {
        self.0.iter().filter(move |(of, _)| *of == field).map(|(_, path)| path.as_slice())
    }
}
