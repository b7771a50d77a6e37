//! Subscriptions over HTTP as multipart/mixed: the protocol of Apollo's clients, `subscriptionSpec=1.0`
//! (<https://www.apollographql.com/docs/graphos/routing/operations/subscriptions/multipart-protocol>).
//!
//! A part is one JSON object: `{"payload": …}` with a GraphQL response, `{}` as heartbeat, or
//! `{"payload": null, "errors": […]}` when the server ends the stream before the operation has ended. The delimiter is
//! sent together with the part before it, because a client considers a part complete only when the delimiter has
//! arrived.

use bytes::Bytes;

use super::streaming::Framing;

/// Returns the framing of a multipart response.
pub(super) fn framing() -> Framing {
    Framing {
        content_type: "multipart/mixed;boundary=\"graphql\";subscriptionSpec=1.0",
        opening: Bytes::from_static(
            b"\r\n--graphql\r\ncontent-type: application/json; charset=utf-8\r\n\r\n{}\r\n--graphql",
        ),
        heartbeat: Bytes::from_static(b"\r\ncontent-type: application/json; charset=utf-8\r\n\r\n{}\r\n--graphql"),
        reply: |reply| reply.framed(REPLY_START, b"}\r\n--graphql").into(),
        complete: Bytes::from_static(b"--\r\n"),
        interrupted: |end| {
            // The reply is an object with the only member `errors`.
            let errors = end.reply().to_json();
            Some(part(&errors.replacen('{', r#"{"payload":null,"#, 1), "--\r\n"))
        },
    }
}

const REPLY_START: &[u8] = b"\r\ncontent-type: application/json; charset=utf-8\r\n\r\n{\"payload\":";

fn part(json: &str, end: &str) -> Bytes {
    format!("\r\ncontent-type: application/json; charset=utf-8\r\n\r\n{json}\r\n--graphql{end}").into()
}
