//! Requests that try to use more resources than the limits allow. One test sends each to a server, and the fuzz test
//! mutates them.

use std::fmt::Write;

use serde_json::{Value, json};

/// One hostile request.
pub struct Case {
    pub family: &'static str,
    pub name: String,
    pub sent: Sent,
    /// Expected outcome: the code of the first error, followed by the limit if the error names one; `ok` for a response
    /// with data; or an HTTP status or a close code.
    pub expected: &'static str,
}

/// The form in which a request is sent.
pub enum Sent {
    /// The body of a POST.
    Body(Vec<u8>),
    /// The bytes of a whole HTTP request.
    Raw(Vec<u8>),
    /// The messages of a WebSocket after its acknowledgement.
    Socket(Vec<String>),
}

/// Returns all requests of the corpus.
pub fn all() -> Vec<Case> {
    let mut corpus = Corpus::default();
    super::documents::add(&mut corpus);
    super::values::add(&mut corpus);
    super::transports::add(&mut corpus);
    corpus.cases
}

#[derive(Default)]
pub struct Corpus {
    cases: Vec<Case>,
}

impl Corpus {
    /// Adds a document without variables.
    pub fn query(&mut self, family: &'static str, name: &str, expected: &'static str, query: &str) {
        self.with(family, name, expected, query, &json!({}));
    }

    /// Adds a document with variables.
    pub fn with(&mut self, family: &'static str, name: &str, expected: &'static str, query: &str, variables: &Value) {
        let body = json!({ "query": query, "variables": variables }).to_string();
        self.body(family, name, expected, body.as_str());
    }

    /// Adds a document with variables that are written already. Values of many parts are made faster than as [`Value`].
    pub fn with_text(
        &mut self,
        family: &'static str,
        name: &str,
        expected: &'static str,
        query: &str,
        variables: &str,
    ) {
        self.body(family, name, expected, format!(r#"{{"query":{},"variables":{variables}}}"#, json!(query)));
    }

    /// Adds a body of any bytes.
    pub fn body(&mut self, family: &'static str, name: &str, expected: &'static str, body: impl Into<Vec<u8>>) {
        self.sent(family, name, expected, Sent::Body(body.into()));
    }

    pub fn sent(&mut self, family: &'static str, name: &str, expected: &'static str, sent: Sent) {
        self.cases.push(Case { family, name: name.to_owned(), sent, expected });
    }
}

/// Returns the texts of `count` parts, one after another.
pub fn parts(count: usize, part: impl Fn(usize) -> String) -> String {
    (0..count).fold(String::new(), |mut text, index| {
        write!(text, "{} ", part(index)).unwrap();
        text
    })
}
