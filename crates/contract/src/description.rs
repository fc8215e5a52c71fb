//! Describes requests, expectations and responses as text for reports.

use std::io;

use dyno_config::secret::may_be_secret;
use dyno_model::plan::{Body, Expect, Request};

use crate::client::ProbeResponse;
use crate::limits::SHOWN_BODY_BYTES;

/// The text in place of a secret.
const WITHHELD: &str = "(withheld)";

/// Returns the reason why an exchange failed. For time-outs it replaces the system's message, which
/// does not mention a time-out.
pub(crate) fn cause(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => "connection refused".into(),
        io::ErrorKind::TimedOut if error.get_ref().is_none() => "connection timed out".into(),
        io::ErrorKind::WouldBlock => "timed out".into(),
        _ => error.to_string(),
    }
}

/// Describes a request: `GET /items/7`, its headers, and its body. Reports quote the text, so the
/// value of a header whose name suggests a secret is replaced by a mark.
pub(crate) fn request_text(request: &Request) -> String {
    let headers = request
        .headers
        .iter()
        .map(|(name, value)| format!(", {name}: {}", shareable_value(name, value)));
    let headers: String = headers.collect();
    let body =
        request.body.as_ref().map(|body| format!(", body {}", body_text(body))).unwrap_or_default();
    format!("{} {}{headers}{body}", request.method, request.path)
}

/// Describes an expectation: `status 200, Content-Type matching ^text/plain, body "Hello, World!"`.
pub(crate) fn expectation_text(expect: &Expect) -> String {
    let mut texts = vec![
        expect
            .status
            .map_or_else(|| "status 200 to 399".into(), |status| format!("status {status}")),
    ];
    texts.extend(expect.headers.iter().map(|(name, value)| match value {
        None => format!("a header {name}"),
        Some(value) => format!("{name}: {}", shareable_value(name, value)),
    }));
    let matching = |(name, text): &(String, String)| {
        format!("{name} matching {}", shareable_value(name, text))
    };
    texts.extend(expect.headers_match.iter().map(matching));
    texts.extend(expect.body.as_ref().map(|body| match body.0.as_slice() {
        [] => "no body".into(),
        _ => format!("body {}", body_text(body)),
    }));
    texts.extend(expect.body_sha256.as_ref().map(|sum| format!("a body whose SHA-256 is {sum}")));
    texts
        .extend(expect.body_contains.as_ref().map(|text| format!("a body that contains {text:?}")));
    texts.extend(expect.body_matches.as_ref().map(|text| format!("a body matching {text}")));
    texts.extend(
        expect.json.iter().map(|(pointer, value)| format!("JSON {}{value}", pointer_text(pointer))),
    );
    texts.extend(
        expect
            .json_match
            .iter()
            .map(|(pointer, text)| format!("JSON {}matching {text}", pointer_text(pointer))),
    );
    texts.join(", ")
}

/// Describes a correct response: `200, text/plain, 13 bytes`.
pub(crate) fn response_text(response: &ProbeResponse) -> String {
    let media =
        response.header("content-type").map(|media| format!(", {media}")).unwrap_or_default();
    format!("{}{media}, {} bytes", response.status, response.body.len())
}

/// Returns a header's value, or a mark in place of a secret.
fn shareable_value<'a>(name: &str, value: &'a str) -> &'a str {
    if may_be_secret(name) { WITHHELD } else { value }
}

fn pointer_text(pointer: &str) -> String {
    if pointer.is_empty() { String::new() } else { format!("{pointer} ") }
}

fn body_text(body: &Body) -> String {
    let text = String::from_utf8_lossy(&body.0[..body.0.len().min(SHOWN_BODY_BYTES)]).into_owned();
    let rest = body.0.len().saturating_sub(SHOWN_BODY_BYTES);
    if rest == 0 { format!("{text:?}") } else { format!("{text:?} and {rest} more bytes") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_have_all_parts_of_request_and_expectation() {
        let request = Request {
            method: "POST".into(),
            path: "/a".into(),
            headers: vec![("X-A".into(), "1".into()), ("X-My-Pass".into(), "b".into())],
            body: Some(Body(b"b\"".to_vec())),
            ..Request::default()
        };
        assert_eq!(request_text(&request), r#"POST /a, X-A: 1, X-My-Pass: (withheld), body "b\"""#);
        assert_eq!(expectation_text(&Expect::default()), "status 200 to 399");
        let all = Expect {
            status: Some(201),
            body: Some(Body(Vec::new())),
            headers: vec![
                ("a".into(), None),
                ("b".into(), Some("c".into())),
                ("Set-Cookie".into(), Some("z".into())),
            ],
            headers_match: vec![("d".into(), "^e".into())],
            body_sha256: Some("00".into()),
            body_contains: Some("f".into()),
            body_matches: Some("g$".into()),
            json: vec![("/h".into(), 1.into()), (String::new(), "i".into())],
            json_match: vec![("/j".into(), "k".into())],
        };
        assert_eq!(
            expectation_text(&all),
            "status 201, a header a, b: c, Set-Cookie: (withheld), d matching ^e, no body, a body \
             whose SHA-256 is 00, a body that contains \"f\", a body matching g$, JSON /h 1, JSON \
             \"i\", JSON /j matching k"
        );
        let long = Body(vec![b'x'; SHOWN_BODY_BYTES + 3]);
        assert!(body_text(&long).ends_with("x\" and 3 more bytes"));
    }
}
