//! Content types: what a request is sent in, and what its answer is wanted in.
//!
//! By the GraphQL-over-HTTP specification (sections 4 and 6): a request is `application/json` in UTF-8, and is refused in
//! anything that a browser would send across sites without asking first. An answer is `application/graphql-response+json`
//! or, when nothing is asked for, `application/json`.

use axum::http::{HeaderMap, HeaderValue, StatusCode, header};

use super::reply::Reply;

/// A media type of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Media {
    Json,
    GraphqlResponse,
}

impl Media {
    /// What the client likes best: the greatest quality, then the most specific range, then the one named first.
    /// None when it accepts neither.
    pub(super) fn negotiate(headers: &HeaderMap) -> Option<Self> {
        let ranges = ranges(headers);
        if ranges.is_empty() {
            return Some(Self::Json);
        }
        let offers = [Self::Json, Self::GraphqlResponse].map(|media| (preference(media.name(), &ranges), media));
        let [json, graphql] = offers;
        let best = if graphql.0 > json.0 { graphql } else { json };
        best.0.map(|_| best.1)
    }

    /// Whether the client accepts `text/event-stream`.
    pub(super) fn accepts_event_stream(headers: &HeaderMap) -> bool {
        preference("text/event-stream", &ranges(headers)).is_some_and(|(_, specificity, _)| specificity > 0)
    }

    /// Whether the client accepts subscriptions in parts, as `multipart/mixed;subscriptionSpec=1.0`.
    pub(super) fn accepts_multipart(headers: &HeaderMap) -> bool {
        elements(headers).any(|element| {
            let (name, parameters) = split(element);
            let speaks =
                parameters.iter().any(|(key, value)| key == "subscriptionspec" && value.trim_matches('"') == "1.0");
            let refuses = parameters.iter().any(|(key, value)| key == "q" && thousandths(value) == 0);
            name == "multipart/mixed" && speaks && !refuses
        })
    }

    /// The status of an answer: `application/json` has 200 for all that could be read (section 6.4.1).
    pub(super) fn status(self, reply: &Reply) -> StatusCode {
        match self {
            Self::Json => StatusCode::OK,
            Self::GraphqlResponse => reply.status(),
        }
    }

    pub(super) fn content_type(self) -> HeaderValue {
        HeaderValue::from_static(match self {
            Self::Json => "application/json; charset=utf-8",
            Self::GraphqlResponse => "application/graphql-response+json; charset=utf-8",
        })
    }

    fn name(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::GraphqlResponse => "application/graphql-response+json",
        }
    }
}

/// One element of `Accept`: a lower-case type or range, its quality in thousandths, and its place, earlier being greater.
struct Range {
    name: String,
    quality: u16,
    place: isize,
}

fn elements(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let values = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).filter(|element| !element.trim().is_empty())
}

fn ranges(headers: &HeaderMap) -> Vec<Range> {
    elements(headers).zip(0_isize..).map(|(element, index)| range(element, -index)).collect()
}

/// A range; one that asks for a charset that is not UTF-8 is not wanted.
fn range(element: &str, place: isize) -> Range {
    let (name, parameters) = split(element);
    let quality = parameters.iter().map(|(key, value)| match key.as_str() {
        "q" => thousandths(value),
        "charset" if !is_utf8(value) => 0,
        _ => 1_000,
    });
    Range { name, quality: quality.min().unwrap_or(1_000), place }
}

/// How much a type is wanted: the quality and place of the most specific range it is in. None if it is not wanted.
fn preference(name: &str, ranges: &[Range]) -> Option<(u16, u8, isize)> {
    let specificity = |range: &Range| match range.name.as_str() {
        exact if exact == name => Some(2),
        "*/*" | "*" => Some(0),
        wild => wild.strip_suffix('*').filter(|main| main.ends_with('/') && name.starts_with(main)).map(|_| 1),
    };
    let matching = ranges.iter().filter_map(|range| Some((specificity(range)?, range)));
    let (specificity, range) = matching.max_by_key(|(specificity, range)| (*specificity, range.place))?;
    (range.quality > 0).then_some((range.quality, specificity, range.place))
}

/// Whether a body may be read as JSON.
pub(super) fn is_json(headers: &HeaderMap) -> bool {
    let Some(Ok(value)) = headers.get(header::CONTENT_TYPE).map(HeaderValue::to_str) else {
        return false;
    };
    let (name, parameters) = split(value);
    let utf8 = parameters.iter().all(|(key, value)| key != "charset" || is_utf8(value));
    let plain = headers.get(header::CONTENT_ENCODING).is_none_or(|coding| coding == "identity");
    name == "application/json" && utf8 && plain
}

/// The lower-case name and parameters of a media type or range.
fn split(value: &str) -> (String, Vec<(String, String)>) {
    let mut parts = value.split(';').map(str::trim);
    let name = parts.next().unwrap_or_default().to_ascii_lowercase();
    let parameters = parts.filter_map(|part| part.split_once('='));
    (name, parameters.map(|(key, value)| (key.trim().to_ascii_lowercase(), value.trim().to_owned())).collect())
}

fn is_utf8(charset: &str) -> bool {
    matches!(charset.trim_matches('"').to_ascii_lowercase().as_str(), "utf-8" | "utf8")
}

/// A quality (RFC 9110, section 12.4.2) in thousandths; one that can't be read counts as 1.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn thousandths(quality: &str) -> u16 {
    quality.parse::<f32>().map_or(1_000, |quality| (quality.clamp(0.0, 1.0) * 1_000.0) as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn negotiate(accept: &'static str) -> Option<Media> {
        Media::negotiate(&HeaderMap::from_iter([(header::ACCEPT, HeaderValue::from_static(accept))]))
    }

    #[test]
    fn the_best_accepted_type_wins() {
        let cases = [
            ("", Some(Media::Json)),
            ("*/*", Some(Media::Json)),
            ("application/*", Some(Media::Json)),
            ("application/json", Some(Media::Json)),
            ("application/graphql-response+json", Some(Media::GraphqlResponse)),
            ("Application/GraphQL-Response+JSON;Charset=UTF-8", Some(Media::GraphqlResponse)),
            ("application/graphql-response+json, application/json;q=0.9", Some(Media::GraphqlResponse)),
            ("application/graphql-response+json;q=0.5, application/json;q=0.9", Some(Media::Json)),
            ("application/json, application/graphql-response+json", Some(Media::Json)),
            ("application/graphql-response+json, application/json, */*", Some(Media::GraphqlResponse)),
            ("*/*, application/graphql-response+json", Some(Media::GraphqlResponse)),
            ("application/json;q=0, */*", Some(Media::GraphqlResponse)),
            ("application/json;charset=latin1", None),
            ("text/html", None),
            ("text/*;q=1, application/json;q=0.001", Some(Media::Json)),
            ("application/json;q=0", None),
        ];
        for (accept, expected) in cases {
            assert_eq!(negotiate(accept), expected, "{accept}");
        }
    }

    #[test]
    fn parts_are_accepted_by_their_specification() {
        let accepts = |accept: &'static str| {
            Media::accepts_multipart(&HeaderMap::from_iter([(header::ACCEPT, HeaderValue::from_static(accept))]))
        };
        assert!(accepts("multipart/mixed;subscriptionSpec=\"1.0\""));
        assert!(accepts("multipart/mixed;boundary=graphql;subscriptionSpec=1.0,application/json"));
        assert!(accepts("application/json;q=0.9, Multipart/Mixed; SubscriptionSpec=1.0; q=0.5"));
        for other in ["multipart/mixed", "multipart/mixed;deferSpec=20220824", "*/*", "multipart/*", "application/json"]
        {
            assert!(!accepts(other), "{other}");
        }
        assert!(
            !accepts("multipart/mixed;subscriptionSpec=1.0;q=0") && !accepts("multipart/mixed;subscriptionSpec=2.0")
        );
    }

    #[test]
    fn only_plain_utf8_json_is_read() {
        let content = |value: &'static str| {
            is_json(&HeaderMap::from_iter([(header::CONTENT_TYPE, HeaderValue::from_static(value))]))
        };
        assert!(content("application/json") && content("application/json; charset=\"UTF-8\""));
        assert!(!content("application/json; charset=utf-16") && !content("text/plain"));
        assert!(!content("application/x-www-form-urlencoded") && !content("multipart/form-data; boundary=x"));
        assert!(!is_json(&HeaderMap::new()));
    }
}
