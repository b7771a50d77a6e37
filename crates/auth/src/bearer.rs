//! Reads the token of a request.
//!
//! A token is in the header `Authorization: Bearer <token>` (RFC 6750, section 2.1), or, on a WebSocket, in the payload
//! of `connection_init`. Tokens in cookies and URLs are ignored, because a browser sends cookies also for requests of
//! other sites, and URLs are logged.

use axum::http::{HeaderMap, header};
use serde_json::{Map, Value};

/// Maximum number of bytes of a token.
pub const MAX_TOKEN_BYTES: usize = 16 << 10;
/// Keys of a `connection_init` payload that may contain the token. The scheme `Bearer` is optional only under `token`.
const PAYLOAD_KEYS: [&str; 3] = ["Authorization", "authorization", "token"];

/// Reason why a request has no usable token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoToken {
    /// The request has no token.
    #[error("there is no token")]
    Missing,
    /// The request has several tokens, or one that is not written as `Bearer <token>`.
    #[error("the token is not written as `Bearer <token>`, or there are several")]
    Malformed,
}

/// Returns the token of the headers and of a `connection_init` payload. If both have one, the two must be equal.
pub fn token<'a>(headers: &'a HeaderMap, init: Option<&'a Map<String, Value>>) -> Result<&'a str, NoToken> {
    let mut found = headers
        .get_all(header::AUTHORIZATION)
        .iter()
        .map(|value| value.to_str().ok().and_then(bearer))
        .chain(init.into_iter().flat_map(of_payload));
    let first = found.next().ok_or(NoToken::Missing)?.ok_or(NoToken::Malformed)?;
    if found.any(|other| other != Some(first)) { Err(NoToken::Malformed) } else { Ok(first) }
}

fn of_payload(payload: &Map<String, Value>) -> impl Iterator<Item = Option<&str>> {
    let given =
        PAYLOAD_KEYS.into_iter().filter_map(|key| Some((key, payload.get(key).filter(|value| !value.is_null())?)));
    given.map(|(key, value)| {
        let text = value.as_str()?;
        if key == "token" { bearer(text).or_else(|| plain(text)) } else { bearer(text) }
    })
}

fn bearer(text: &str) -> Option<&str> {
    let (scheme, token) = text.trim().split_once(' ')?;
    plain(token.trim_start()).filter(|_| scheme.eq_ignore_ascii_case("bearer"))
}

fn plain(text: &str) -> Option<&str> {
    Some(text).filter(|text| is_token(text))
}

/// Returns whether a text has the form of a token: a token68 (RFC 9110, section 11.2) of bounded length.
#[must_use]
pub fn is_token(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte);
    (1..=MAX_TOKEN_BYTES).contains(&text.len()) && text.bytes().all(allowed)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn headers(values: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in values {
            headers.append(*name, value.parse().unwrap());
        }
        headers
    }

    fn read(of: &[(&'static str, &str)], init: &Value) -> Result<String, NoToken> {
        token(&headers(of), init.as_object()).map(str::to_owned)
    }

    #[test]
    fn tokens_are_read_from_the_header_and_the_payload() {
        let null = Value::Null;
        assert_eq!(read(&[("authorization", "Bearer a.b-c")], &null), Ok("a.b-c".to_owned()));
        assert_eq!(read(&[("authorization", "bearer   abc")], &null), Ok("abc".to_owned()));
        for payload in [
            json!({"Authorization": "Bearer abc"}),
            json!({"authorization": "Bearer abc"}),
            json!({"token": "abc"}),
            json!({"token": "Bearer abc"}),
            json!({"token": "abc", "authorization": "Bearer abc"}),
        ] {
            assert_eq!(read(&[], &payload), Ok("abc".to_owned()), "{payload}");
            assert_eq!(read(&[("authorization", "Bearer abc")], &payload), Ok("abc".to_owned()), "{payload}");
            assert_eq!(read(&[("authorization", "Bearer other")], &payload), Err(NoToken::Malformed), "{payload}");
        }
    }

    #[test]
    fn malformed_tokens_and_other_sources_are_refused() {
        let null = Value::Null;
        assert_eq!(read(&[("cookie", "authorization=abc; token=abc")], &null), Err(NoToken::Missing));
        assert_eq!(read(&[("x-authorization", "Bearer abc")], &json!({})), Err(NoToken::Missing));
        assert_eq!(
            read(&[("authorization", "Bearer a"), ("authorization", "Bearer b")], &null),
            Err(NoToken::Malformed)
        );
        for wrong in ["abc", "Basic abc", "Bearer", "Bearer ", "Bearer a b", "Bearer a,b", "Bearerabc"] {
            assert_eq!(read(&[("authorization", wrong)], &null), Err(NoToken::Malformed), "{wrong}");
        }
        for wrong in
            [json!({"Authorization": "abc"}), json!({"token": 1}), json!({"token": ["abc"]}), json!({"token": ""})]
        {
            assert_eq!(read(&[], &wrong), Err(NoToken::Malformed), "{wrong}");
        }
        let long = format!("Bearer {}", "a".repeat(MAX_TOKEN_BYTES + 1));
        assert_eq!(read(&[("authorization", &long)], &null), Err(NoToken::Malformed));
    }
}
