//! Finds line and column of a byte in a document, in constant time per look-up.

use apollo_compiler::parser::SourceSpan;
use async_graphql::Pos;

/// Number of bytes between two marks. It bounds the bytes that one look-up reads.
const STEP: usize = 256;

/// Positions of the lines of a document. Columns count characters, and both start at 1 (GraphQL specification, 7.1.2).
#[derive(Debug)]
pub(super) struct Positions<'a> {
    text: &'a [u8],
    /// The position of every [`STEP`]th byte.
    marks: Vec<Pos>,
}

impl<'a> Positions<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        let text = text.as_bytes();
        let mut marks = Vec::with_capacity(text.len() / STEP + 1);
        let mut position = Pos { line: 1, column: 1 };
        for at in 0..text.len() {
            if at % STEP == 0 {
                marks.push(position);
            }
            step(text, at, &mut position);
        }
        Self { text, marks }
    }

    /// Returns the position of a byte.
    pub(super) fn at(&self, offset: usize) -> Pos {
        let offset = offset.min(self.text.len());
        let mark = (offset / STEP).min(self.marks.len().saturating_sub(1));
        let mut position = self.marks.get(mark).copied().unwrap_or(Pos { line: 1, column: 1 });
        for at in mark * STEP..offset {
            step(self.text, at, &mut position);
        }
        position
    }

    /// Returns the position of an element's first byte, or a default for an element that is not from the document.
    pub(super) fn of(&self, span: Option<SourceSpan>) -> Pos {
        span.map(|span| self.at(span.offset())).unwrap_or_default()
    }
}

/// Moves a position past the byte at `at`. A carriage return and the line feed after it count as one line end.
fn step(text: &[u8], at: usize, position: &mut Pos) {
    match text[at] {
        b'\n' if at > 0 && text[at - 1] == b'\r' => {}
        b'\r' | b'\n' => *position = Pos { line: position.line + 1, column: 1 },
        // Only the first byte of a character counts.
        byte if byte & 0xC0 == 0x80 => {}
        _ => position.column += 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_columns_count_characters() {
        let text = "{ ä, e\r\nb\rc\n\nd }";
        let positions = Positions::new(text);
        let place = |needle: char| {
            let position = positions.at(text.find(needle).unwrap());
            (position.line, position.column)
        };
        assert_eq!(
            [place('{'), place('ä'), place('e'), place('b'), place('c'), place('d')],
            [(1, 1), (1, 3), (1, 6), (2, 1), (3, 1), (5, 1)]
        );
        assert_eq!(place('}'), (5, 3));
    }

    #[test]
    fn positions_from_marks_equal_positions_counted_from_the_start() {
        let text: String = (0..2_000).map(|index| ["a", "é", "\r\n", "\n", " "][index % 5]).collect();
        let positions = Positions::new(&text);
        let mut counted = Pos { line: 1, column: 1 };
        for at in 0..text.len() {
            assert_eq!(positions.at(at), counted, "byte {at}");
            step(text.as_bytes(), at, &mut counted);
        }
        assert_eq!(positions.at(text.len() + 9), counted);
        assert_eq!(Positions::new("").at(0), Pos { line: 1, column: 1 });
    }
}
