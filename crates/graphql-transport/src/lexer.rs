//! Counts a document's tokens and brackets before it is parsed.
//!
//! The parser is recursive and builds a tree, so its input is limited here: in one pass over the bytes, without
//! allocation, which stops at the first byte beyond a limit. The count of a document that is not GraphQL has no
//! meaning; the parser refuses such a document. Tokens are those of the GraphQL specification (section 2.1), except
//! that a number with a sign, a fraction or an exponent counts as several tokens.

use super::limits::Limits;
use super::operation_error::{Limit, OperationError};

/// Maximum depth of brackets that the recursive parser gets. Selection sets are limited further after parsing.
const MAX_BRACKETS: usize = 64;

/// Refuses a document that is too long, has too many tokens, or nests brackets too deeply.
pub(super) fn check(document: &str, limits: &Limits) -> Result<(), OperationError> {
    Limit::DocumentBytes.check(document.len() as u64, limits.document_bytes as u64)?;
    let mut lexer = Lexer { bytes: document.as_bytes(), at: 0 };
    let (mut tokens, mut open) = (0, 0_usize);
    while let Some(token) = lexer.next_token() {
        tokens += 1;
        Limit::Tokens.check(tokens, limits.tokens as u64)?;
        match token {
            b'{' | b'[' | b'(' => open += 1,
            b'}' | b']' | b')' => open = open.saturating_sub(1),
            _ => {}
        }
        Limit::Brackets.check(open as u64, MAX_BRACKETS as u64)?;
    }
    Ok(())
}

struct Lexer<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Lexer<'_> {
    /// Moves past the next token and returns its first byte.
    fn next_token(&mut self) -> Option<u8> {
        self.skip_ignored();
        let first = *self.bytes.get(self.at)?;
        self.at += 1;
        match first {
            b'"' => self.skip_string(),
            b'.' => self.skip_while(|byte| byte == b'.'),
            b'_' | b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => {
                self.skip_while(|byte| byte == b'_' || byte.is_ascii_alphanumeric());
            }
            _ => {}
        }
        Some(first)
    }

    fn skip_ignored(&mut self) {
        while let Some(byte) = self.bytes.get(self.at) {
            match byte {
                b' ' | b'\t' | b'\n' | b'\r' | b',' => self.at += 1,
                b'#' => self.skip_while(|byte| byte != b'\n' && byte != b'\r'),
                _ => return,
            }
        }
    }

    fn skip_while(&mut self, matches: impl Fn(u8) -> bool) {
        let rest = &self.bytes[self.at..];
        self.at += rest.iter().position(|byte| !matches(*byte)).unwrap_or(rest.len());
    }

    /// Skips the rest of a string or block string. An unterminated string ends with its line. An unterminated block
    /// string ends with the document.
    fn skip_string(&mut self) {
        let block = self.bytes[self.at..].starts_with(b"\"\"");
        if block {
            self.at += 2;
        }
        while let Some(byte) = self.bytes.get(self.at) {
            let rest = &self.bytes[self.at..];
            self.at += match byte {
                b'\\' if block && rest.starts_with(b"\\\"\"\"") => 4,
                b'\\' if !block => 2,
                b'"' if block && rest.starts_with(b"\"\"\"") => return self.at += 3,
                b'"' if !block => return self.at += 1,
                b'\n' if !block => return,
                _ => 1,
            };
        }
    }
}

/// Returns the approximate number of values and keys in a JSON text. For a text that is not JSON the number has no
/// meaning.
pub(super) fn json_values(text: &[u8]) -> usize {
    let (mut count, mut quoted, mut escaped) = (0, false, false);
    for byte in text {
        match byte {
            _ if escaped => escaped = false,
            // In JSON, a backslash occurs only in strings.
            b'\\' => escaped = true,
            b'"' => quoted = !quoted,
            b',' | b':' | b'[' | b'{' if !quoted => count += 1,
            _ => {}
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(document: &str) -> Vec<u8> {
        let mut lexer = Lexer { bytes: document.as_bytes(), at: 0 };
        // Each token has at least one byte.
        std::iter::from_fn(|| lexer.next_token()).take(document.len() + 1).collect()
    }

    #[test]
    fn strings_count_as_one_token_and_comments_and_commas_as_none() {
        assert_eq!(tokens("{ a(b: \"x { y \\\" }\"), ...c } # { {"), b"{a(b:\").c}");
        assert_eq!(tokens("\"\"\" { \\\"\"\" \" { \"\"\" a"), b"\"a");
        assert_eq!(tokens("\"\" a"), b"\"a");
    }

    #[test]
    fn comments_and_strings_end_where_the_specification_says() {
        assert_eq!(tokens("a # { \n{ # ( \r}"), b"a{}");
        assert_eq!(tokens("abc \"\"\" { \"\"\" }"), b"a\"}");
        assert_eq!(tokens("abcdefgh \"\"\" { \"\"\" }"), b"a\"}");
        assert_eq!(tokens(r#""a\"" }"#), b"\"}", "an escaped quote does not end a string");
        let block = r#""""\\""" { """ }"#;
        assert_eq!(tokens(block), b"\"}", "a backslash is a plain character in a block string");
        assert_eq!(tokens(r#""""\a""" }"#), b"\"}", "only three quotes can be escaped in a block string");
    }

    #[test]
    fn unterminated_string_ends_with_its_line() {
        assert_eq!(tokens("\"abc { \n a"), b"\"a");
        assert_eq!(tokens("\"abc\\"), b"\"");
        assert_eq!(tokens("\"\"\"abc { \n a"), b"\"");
    }

    #[test]
    fn deep_brackets_and_too_many_tokens_are_refused() {
        let limits = Limits::default();
        assert!(check(&"[".repeat(MAX_BRACKETS), &limits).is_ok());
        assert!(check(&"[".repeat(MAX_BRACKETS + 1), &limits).is_err());
        assert!(check(&"[]".repeat(5_000), &limits).is_ok());
        assert!(check(&"[]".repeat(10_001), &limits).is_err());
    }

    #[test]
    fn json_values_ignore_punctuation_in_strings() {
        assert_eq!(json_values(br#"{"a,[\"{": [1, 2, {"b": 3}]}"#), 7);
    }
}
