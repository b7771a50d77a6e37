//! Content types of requests, and negotiation of the content type of responses.
//!
//! These follow the GraphQL-over-HTTP specification (sections 4 and 6). A request must be `application/json` in UTF-8.
//! So types that a browser sends to other sites without a preflight are refused. A response is
//! `application/graphql-response+json`, or `application/json` if the client has no preference, or a stream if the client
//! names its type.
//!
//! This is code of our own because `headers-accept` 0.3 rejects the whole header if one element is malformed, finds no
//! type if a range has any parameter (such as `charset=utf-8`), and does not tell `text/event-stream` from `*/*`.
//! `accept-header` 0.2 does not match ranges such as `application/*`.

use axum::http::{HeaderMap, HeaderValue, StatusCode, header};

use super::reply::Reply;

/// Media type of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Media {
    Json,
    GraphqlResponse,
}

impl Media {
    /// Returns the media type that the client prefers: by the highest quality, then the most specific range, then the
    /// order in `Accept`. `None` if the client accepts neither.
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

    /// Returns whether the client accepts `text/event-stream`.
    pub(super) fn accepts_event_stream(headers: &HeaderMap) -> bool {
        preference(EVENT_STREAM, &ranges(headers)).is_some_and(|(_, specificity, _)| specificity > 0)
    }

    /// Returns whether the client names `text/event-stream` and prefers it to all other types of responses.
    pub(super) fn prefers_event_stream(headers: &HeaderMap) -> bool {
        let ranges = ranges(headers);
        let json = [Self::Json, Self::GraphqlResponse].map(|media| preference(media.name(), &ranges));
        let others = json.into_iter().chain([named(MULTIPART, &ranges)]).flatten().max();
        named(EVENT_STREAM, &ranges).is_some_and(|events| others.is_none_or(|other| events > other))
    }

    /// Returns the status of a response. It is always 200 for `application/json` (section 6.4.1).
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

/// Media type of a response that is a stream of replies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StreamMedia {
    EventStream,
    Multipart,
}

impl StreamMedia {
    /// Returns the offer that the client prefers of those that it names. `None` if it names none of them.
    pub(super) fn negotiate(headers: &HeaderMap, offers: &[Self]) -> Option<Self> {
        let ranges = ranges(headers);
        let accepted = offers.iter().filter_map(|offer| Some((named(offer.name(), &ranges)?, *offer)));
        accepted.max_by_key(|(preference, _)| *preference).map(|(_, offer)| offer)
    }

    fn name(self) -> &'static str {
        match self {
            Self::EventStream => EVENT_STREAM,
            Self::Multipart => MULTIPART,
        }
    }
}

const EVENT_STREAM: &str = "text/event-stream";
/// Name of the range `multipart/mixed` with the parameter `subscriptionSpec=1.0`.
const MULTIPART: &str = "multipart/mixed;subscriptionspec=1.0";
/// Specificity of a range that names a type.
const EXACT: u8 = 2;

/// Quality in thousandths, specificity and rank of a range, in the order of their weight.
type Preference = (u16, u8, isize);

/// One element of `Accept`: a lower-case type or range, its quality in thousandths, and its rank. Earlier elements
/// have a greater rank.
struct Range {
    name: String,
    quality: u16,
    rank: isize,
}

fn elements(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let values = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).filter(|element| !element.trim().is_empty())
}

fn ranges(headers: &HeaderMap) -> Vec<Range> {
    elements(headers).zip(0_isize..).map(|(element, index)| range(element, -index)).collect()
}

/// Reads a range. A range with another charset than UTF-8 gets quality 0.
fn range(element: &str, rank: isize) -> Range {
    let (name, parameters) = split(element);
    let quality = parameters.iter().map(|(key, value)| match key.as_str() {
        "q" => thousandths(value),
        "charset" if !is_utf8(value) => 0,
        _ => 1_000,
    });
    let quality = quality.min().unwrap_or(1_000);
    let of_subscriptions =
        parameters.iter().any(|(key, value)| key == "subscriptionspec" && value.trim_matches('"') == "1.0");
    let name = if name == "multipart/mixed" && of_subscriptions { MULTIPART.to_owned() } else { name };
    Range { name, quality, rank }
}

/// Returns the preference of the most specific range that matches a type. `None` if the type is not accepted.
fn preference(name: &str, ranges: &[Range]) -> Option<Preference> {
    let specificity = |range: &Range| match range.name.as_str() {
        exact if exact == name => Some(EXACT),
        "*/*" | "*" => Some(0),
        wild => wild.strip_suffix('*').filter(|main| main.ends_with('/') && name.starts_with(main)).map(|_| 1),
    };
    let matching = ranges.iter().filter_map(|range| Some((specificity(range)?, range)));
    let (specificity, range) = matching.max_by_key(|(specificity, range)| (*specificity, range.rank))?;
    (range.quality > 0).then_some((range.quality, specificity, range.rank))
}

/// Returns the preference for a type if the client accepts it by its name.
fn named(name: &str, ranges: &[Range]) -> Option<Preference> {
    preference(name, ranges).filter(|(_, specificity, _)| *specificity == EXACT)
}

/// Returns whether a body is uncompressed JSON in UTF-8 according to its headers.
pub(super) fn is_json(headers: &HeaderMap) -> bool {
    let Some(Ok(value)) = headers.get(header::CONTENT_TYPE).map(HeaderValue::to_str) else {
        return false;
    };
    let (name, parameters) = split(value);
    let utf8 = parameters.iter().all(|(key, value)| key != "charset" || is_utf8(value));
    let plain = headers.get(header::CONTENT_ENCODING).is_none_or(|coding| coding == "identity");
    name == "application/json" && utf8 && plain
}

/// Returns the lower-case name and parameters of a media type or range.
fn split(value: &str) -> (String, Vec<(String, String)>) {
    let mut parts = value.split(';').map(str::trim);
    let name = parts.next().unwrap_or_default().to_ascii_lowercase();
    let parameters = parts.filter_map(|part| part.split_once('='));
    (name, parameters.map(|(key, value)| (key.trim().to_ascii_lowercase(), value.trim().to_owned())).collect())
}

fn is_utf8(charset: &str) -> bool {
    matches!(charset.trim_matches('"').to_ascii_lowercase().as_str(), "utf-8" | "utf8")
}

/// Returns a quality (RFC 9110, section 12.4.2) in thousandths. A malformed quality counts as 1.
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
    fn preferred_type_is_negotiated() {
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
    fn event_stream_needs_a_range_for_text() {
        let accepts = |accept: &'static str| {
            Media::accepts_event_stream(&HeaderMap::from_iter([(header::ACCEPT, HeaderValue::from_static(accept))]))
        };
        assert!(accepts("text/event-stream") && accepts("text/*") && accepts("*/*, text/event-stream;q=0.5"));
        for other in ["", "*/*", "application/json", "text/html", "text/event-stream;q=0, text/*"] {
            assert!(!accepts(other), "{other}");
        }
    }

    #[test]
    fn event_stream_is_preferred_only_by_its_name_and_before_all_other_types() {
        let prefers = |accept: &'static str| {
            Media::prefers_event_stream(&HeaderMap::from_iter([(header::ACCEPT, HeaderValue::from_static(accept))]))
        };
        for accept in [
            "text/event-stream",
            "Text/Event-Stream;charset=utf-8",
            "text/event-stream, application/json",
            "*/*, text/event-stream",
            "application/json;q=0.9, text/event-stream",
            // urql, for a subscription.
            "text/event-stream, multipart/mixed",
        ] {
            assert!(prefers(accept), "{accept}");
        }
        for accept in [
            "",
            "*/*",
            "text/*",
            "text/event-stream;q=0",
            "application/json, text/event-stream",
            "text/event-stream;q=0.9, application/json",
            "text/event-stream;q=0.9, */*",
            "multipart/mixed;subscriptionSpec=1.0, text/event-stream",
            // urql, for a query.
            "application/graphql-response+json, application/graphql+json, application/json, text/event-stream, multipart/mixed",
        ] {
            assert!(!prefers(accept), "{accept}");
        }
    }

    #[test]
    fn stream_is_the_preferred_of_those_that_are_offered_and_named() {
        let both = &[StreamMedia::EventStream, StreamMedia::Multipart][..];
        let events = &[StreamMedia::EventStream][..];
        for (accept, offers, expected) in [
            ("application/json, text/event-stream", both, Some(StreamMedia::EventStream)),
            ("text/event-stream;q=0.1, */*", both, Some(StreamMedia::EventStream)),
            ("multipart/mixed;subscriptionSpec=1.0, text/event-stream", both, Some(StreamMedia::Multipart)),
            ("text/event-stream, multipart/mixed;subscriptionSpec=1.0", both, Some(StreamMedia::EventStream)),
            ("multipart/mixed;subscriptionSpec=1.0;q=0.5, text/event-stream", both, Some(StreamMedia::EventStream)),
            ("multipart/mixed;subscriptionSpec=1.0, text/event-stream", events, Some(StreamMedia::EventStream)),
            ("multipart/mixed;subscriptionSpec=1.0, text/event-stream;q=0", events, None),
            ("text/*, */*", both, None),
            ("", both, None),
        ] {
            let headers = HeaderMap::from_iter([(header::ACCEPT, HeaderValue::from_static(accept))]);
            assert_eq!(StreamMedia::negotiate(&headers, offers), expected, "{accept}");
        }
    }

    #[test]
    fn multipart_needs_its_subscription_spec() {
        let accepts = |accept: &'static str| {
            let headers = HeaderMap::from_iter([(header::ACCEPT, HeaderValue::from_static(accept))]);
            StreamMedia::negotiate(&headers, &[StreamMedia::Multipart]).is_some()
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
    fn only_utf8_json_is_accepted() {
        let content = |value: &'static str| {
            is_json(&HeaderMap::from_iter([(header::CONTENT_TYPE, HeaderValue::from_static(value))]))
        };
        assert!(content("application/json") && content("application/json; charset=\"UTF-8\""));
        assert!(!content("application/json; charset=utf-16") && !content("text/plain"));
        assert!(!content("application/x-www-form-urlencoded") && !content("multipart/form-data; boundary=x"));
        assert!(!is_json(&HeaderMap::new()));
    }
}
