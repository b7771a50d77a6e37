//! Finds parts of a JSON text that can't be represented as values unchanged.
//!
//! Makes one pass over the bytes, without recursion. Text that is not JSON may pass, because reading it fails later.

use std::fmt;

use crate::read::MAX_DEPTH;

/// Maximum depth of nested objects and lists in JSON that is passed on. Common parsers allow 128, and the JSON is
/// embedded in a response or an event.
const MAX_CARRIED_DEPTH: usize = 104;

/// Maximum number of segments of a place in messages.
const MAX_SEGMENTS: usize = 8;
/// Maximum number of characters of a segment in messages.
const MAX_SEGMENT: usize = 64;
/// Number of significant digits that a 64-bit float always keeps.
const SURE_DIGITS: usize = 15;
/// Maximum number of significant digits that are compared. No program writes a float with more digits.
const MAX_DIGITS: usize = 40;

/// A value that can't be represented unchanged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unrepresentable {
    /// Path of the value, such as `["variables", "input", "trace"]`; at most its first 8 segments. An index of a list is
    /// a decimal number.
    pub field: Vec<String>,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Depth(usize),
    Number,
    Range,
    Surrogate,
}

impl std::error::Error for Unrepresentable {}

impl fmt::Display for Unrepresentable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let field = self.field.join(".");
        match &self.kind {
            Kind::Depth(most) => write!(f, "{field} has more than {most} nested objects or lists"),
            Kind::Number => write!(f, "{field} is a number that a 64-bit float can't represent; send it as a string"),
            Kind::Range => write!(f, "{field} is a number beyond 64-bit floats"),
            Kind::Surrogate => write!(f, "{field} contains half of a surrogate pair, which is not a character"),
        }
    }
}

/// Returns an error for the first value of a JSON text that can't be represented unchanged. `within` is the place of
/// the text itself.
pub fn check(within: &str, text: &[u8]) -> Result<(), Unrepresentable> {
    let mut scan = Scan { text, at: 0, place: Vec::new(), depth: MAX_DEPTH, numbers: exact };
    scan.run().map_err(|kind| Unrepresentable { field: field(within, &scan.place), kind })
}

/// Reason why JSON can't be stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unstorable {
    /// Objects and lists are nested too deeply.
    #[error("objects or lists are nested too deeply")]
    Depth,
    /// A key or string contains the NUL character.
    #[error("a key or string contains the NUL character")]
    Nul,
}

/// Returns an error for JSON text with more than `levels` nested objects and lists, or with a NUL character.
pub(super) fn storable(text: &[u8], levels: usize) -> Result<(), Unstorable> {
    let (mut at, mut depth, mut quoted, mut nul) = (0, 0_usize, false, false);
    while let Some(byte) = text.get(at) {
        match byte {
            b'"' => quoted = !quoted,
            b'\\' => {
                nul |= text[at..].starts_with(b"\\u0000");
                // The escaped character is a quote, a backslash, or begins the digits of a character.
                at += 1;
            }
            b'{' | b'[' if !quoted => {
                depth += 1;
                if depth > levels {
                    return Err(Unstorable::Depth);
                }
            }
            b'}' | b']' if !quoted => depth = depth.saturating_sub(1),
            _ => {}
        }
        at += 1;
    }
    if nul { Err(Unstorable::Nul) } else { Ok(()) }
}

/// Returns an error for the first value of a JSON text that parsers can't read. Numbers that they round are allowed.
pub(super) fn readable(text: &[u8]) -> Result<(), Unrepresentable> {
    let mut scan = Scan { text, at: 0, place: Vec::new(), depth: MAX_CARRIED_DEPTH, numbers: in_range };
    scan.run().map_err(|kind| Unrepresentable { field: field("$", &scan.place), kind })
}

fn exact(number: &str) -> Result<(), Kind> {
    if is_kept(number) { Ok(()) } else { Err(Kind::Number) }
}

fn in_range(number: &str) -> Result<(), Kind> {
    if number.parse::<f64>().is_ok_and(f64::is_infinite) { Err(Kind::Range) } else { Ok(()) }
}

/// A step from an object or list to a value in it.
enum Step<'a> {
    /// Step into a list.
    Index(usize),
    /// Step into an object; `None` before the key is known.
    Key(Option<&'a [u8]>),
}

struct Scan<'a> {
    text: &'a [u8],
    at: usize,
    place: Vec<Step<'a>>,
    depth: usize,
    numbers: fn(&str) -> Result<(), Kind>,
}

impl<'a> Scan<'a> {
    fn run(&mut self) -> Result<(), Kind> {
        while let Some(byte) = self.text.get(self.at) {
            self.at += 1;
            match byte {
                b'{' => self.enter(Step::Key(None))?,
                b'[' => self.enter(Step::Index(0))?,
                b'}' | b']' => drop(self.place.pop()),
                b',' => match self.place.last_mut() {
                    Some(Step::Index(index)) => *index += 1,
                    Some(Step::Key(key)) => *key = None,
                    None => {}
                },
                b'"' => self.string()?,
                b'-' | b'0'..=b'9' => self.number()?,
                _ => {}
            }
        }
        Ok(())
    }

    fn enter(&mut self, step: Step<'a>) -> Result<(), Kind> {
        self.place.push(step);
        if self.place.len() > self.depth { Err(Kind::Depth(self.depth)) } else { Ok(()) }
    }

    fn string(&mut self) -> Result<(), Kind> {
        let (text, start) = (self.text, self.at);
        let mut whole = true;
        while let Some(byte) = text.get(self.at) {
            match byte {
                b'"' => break,
                b'\\' => {
                    let (length, valid) = escape(&text[self.at..]);
                    whole &= valid;
                    self.at += length;
                }
                _ => self.at += 1,
            }
        }
        let end = self.at.min(text.len());
        self.at = end + 1;
        if let Some(Step::Key(key @ None)) = self.place.last_mut() {
            *key = Some(&text[start..end]);
        }
        if whole { Ok(()) } else { Err(Kind::Surrogate) }
    }

    fn number(&mut self) -> Result<(), Kind> {
        let start = self.at - 1;
        let rest = &self.text[self.at..];
        let length = rest.iter().position(|byte| !matches!(byte, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-'));
        self.at += length.unwrap_or(rest.len());
        std::str::from_utf8(&self.text[start..self.at]).map_or(Ok(()), self.numbers)
    }
}

/// Returns the length of the escape at the start of `text`, and whether it is a character.
fn escape(text: &[u8]) -> (usize, bool) {
    match unit(text) {
        Some(0xD800..=0xDBFF) => {
            let follows = matches!(text.get(6..).and_then(unit), Some(0xDC00..=0xDFFF));
            if follows { (12, true) } else { (6, false) }
        }
        Some(0xDC00..=0xDFFF) => (6, false),
        Some(_) => (6, true),
        None => (2, true),
    }
}

/// Returns the UTF-16 code unit of an escape such as `\u00e9`; `None` for other text.
fn unit(text: &[u8]) -> Option<u16> {
    let digits = text.strip_prefix(b"\\u")?.get(..4)?;
    u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

/// Returns whether a value keeps a number: a 64-bit integer, or a number that equals its 64-bit float when this is
/// written in the shortest form or with the same number of digits.
#[must_use]
pub fn is_kept(token: &str) -> bool {
    if token.parse::<i64>().is_ok() || token.parse::<u64>().is_ok() {
        return true;
    }
    let Ok(float) = token.parse::<f64>() else { return true };
    let (digits, exponent) = decimal(token);
    match digits.len() {
        0 => true,
        1..=SURE_DIGITS if float.is_normal() => true,
        count @ 1..=MAX_DIGITS => {
            // Programs write a float in either form.
            let written = [format!("{float:e}"), format!("{float:.*e}", count - 1)];
            float.is_finite() && written.iter().any(|text| decimal(text) == (digits.clone(), exponent))
        }
        _ => false,
    }
}

/// Returns the digits of a number from the first to the last that is not 0, without the sign, and the power of ten of
/// the last digit.
fn decimal(token: &str) -> (String, i64) {
    let (number, exponent) = token.split_once(['e', 'E']).unwrap_or((token, "0"));
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = [whole.trim_start_matches('-'), fraction].concat();
    let kept = digits.trim_end_matches('0');
    let places = i64::try_from(fraction.len()).unwrap_or(i64::MAX);
    let zeros = i64::try_from(digits.len() - kept.len()).unwrap_or(i64::MAX);
    let kept = kept.trim_start_matches('0').to_owned();
    let exponent = exponent.parse::<i64>().unwrap_or(i64::MAX / 2);
    if kept.is_empty() { (kept, 0) } else { (kept, exponent.saturating_sub(places).saturating_add(zeros)) }
}

fn field(within: &str, place: &[Step<'_>]) -> Vec<String> {
    let step = |step: &Step<'_>| match step {
        Step::Index(index) => index.to_string(),
        Step::Key(key) => String::from_utf8_lossy(key.unwrap_or_default()).chars().take(MAX_SEGMENT).collect(),
    };
    let segments = (!within.is_empty()).then(|| within.to_owned()).into_iter().chain(place.iter().map(step));
    segments.take(MAX_SEGMENTS).collect()
}
