//! Refuses expectations that no response can meet. Every request would fail.

use dyno_model::plan::{Expect, Request};
use regex_syntax::ParserBuilder;
use regex_syntax::hir::{Hir, HirKind, Look};

use super::{Field, FieldError, expression};
use crate::header;

/// Refuses expectations of a request that no response can meet.
pub(super) fn check(request: &Request) -> Result<(), FieldError> {
    check_headers(&request.expect)?;
    let Some((reason, (key, content))) = reason_for_no_body(request).zip(expected_content(request))
    else {
        return Ok(());
    };
    let message =
        format!("{content} cannot be expected, because {reason}\nhint: remove this expectation");
    Err((Field::Expected(key), message))
}

/// Refuses names and values that no header of a response has.
fn check_headers(expect: &Expect) -> Result<(), FieldError> {
    let exact = expect.headers.iter().map(|(name, value)| (name, value.as_deref()));
    let matches = expect.headers_match.iter().map(|(name, _)| (name, None));
    for (name, value) in exact.chain(matches) {
        let field = || Field::ExpectedHeader(name.clone());
        if let Some(fault) = header::name_fault(name) {
            return Err((field(), fault));
        }
        // The value may be secret, so the message does not have it.
        if value.is_some_and(|value| {
            value.trim_matches([' ', '\t']) != value || value.contains(['\r', '\n', '\0'])
        }) {
            return Err((
                field(),
                format!(
                    "header {name:?}: the expected value has blanks at its ends, a line break or \
                     NUL, which no header value has (RFC 9110 §5.5)\nhint: remove these characters"
                ),
            ));
        }
    }
    Ok(())
}

/// Returns the reason why no response to a request has a body. `None`: a response may have one.
fn reason_for_no_body(request: &Request) -> Option<String> {
    if request.method == "HEAD" {
        return Some("a response to HEAD has no body".into());
    }
    let status = request.expect.status.filter(|status| matches!(status, 204 | 304))?;
    Some(format!("a response with status {status} has no body"))
}

/// Returns the first expectation that an empty body does not meet: its key, and its content in
/// words. The exact body of a response to HEAD is not compared.
fn expected_content(request: &Request) -> Option<(&'static str, &'static str)> {
    let expect = &request.expect;
    let is_compared = |body: &[u8]| !body.is_empty() && request.method != "HEAD";
    let needs_text = |text: &String| expression(text).is_ok_and(|regex| !regex.is_match(b""));
    let contents = [
        ("body", "a body", expect.body.as_ref().is_some_and(|body| is_compared(&body.0))),
        (
            "body_contains",
            "a text in the body",
            expect.body_contains.as_ref().is_some_and(|text| !text.is_empty()),
        ),
        (
            "body_matches",
            "a match in the body",
            expect.body_matches.as_ref().is_some_and(needs_text),
        ),
        ("json", "a JSON value", !expect.json.is_empty()),
        ("json_matches", "a match in a JSON value", !expect.json_match.is_empty()),
    ];
    let expected = contents.into_iter().find(|(.., is_expected)| *is_expected);
    expected.map(|(key, content, _)| (key, content))
}

/// Whether a valid regular expression matches no text, such as `a^b`. Only expressions for which
/// this follows from the order of their parts are found.
pub(super) fn matches_nothing(text: &str) -> bool {
    // The bytes that an expression matches need not be UTF-8: see `regex::bytes`.
    let parsed = ParserBuilder::new().utf8(false).build().parse(text);
    parsed.is_ok_and(|hir| is_impossible(&hir))
}

fn is_impossible(hir: &Hir) -> bool {
    match hir.kind() {
        HirKind::Capture(capture) => is_impossible(&capture.sub),
        HirKind::Repetition(repetition) => repetition.min > 0 && is_impossible(&repetition.sub),
        HirKind::Alternation(parts) => parts.iter().all(is_impossible),
        HirKind::Concat(parts) => {
            parts.iter().any(is_impossible) || needs_text_outside(parts.iter())
        }
        // An empty class of characters.
        _ => hir.properties().minimum_len().is_none(),
    }
}

/// Whether a part that needs the start of the text follows a part that is not empty, or a part that
/// is not empty follows a part that needs the end.
fn needs_text_outside<'h>(parts: impl Iterator<Item = &'h Hir>) -> bool {
    let (mut has_text, mut has_end) = (false, false);
    for part in parts {
        let properties = part.properties();
        let is_text = properties.minimum_len().is_some_and(|bytes| bytes > 0);
        let needs_start = properties.look_set_prefix().contains(Look::Start);
        if has_text && needs_start || has_end && is_text {
            return true;
        }
        has_text |= is_text;
        has_end |= properties.look_set_suffix().contains(Look::End);
    }
    false
}

#[cfg(test)]
mod tests {
    use dyno_model::plan::Body;

    use super::*;

    fn fault(method: &str, expect: Expect) -> Option<FieldError> {
        check(&Request { method: method.into(), expect, ..Request::default() }).err()
    }

    #[test]
    fn names_and_values_that_no_header_has_are_refused() {
        let exact = |name: &str, value: Option<&str>| Expect {
            headers: vec![(name.into(), value.map(Into::into))],
            ..Expect::default()
        };
        let matches = |name: &str| Expect {
            headers_match: vec![(name.into(), "x".into())],
            ..Expect::default()
        };
        for (expect, expected) in [
            (exact("", None), "not a valid name"),
            (exact("X Y", Some("1")), "not a valid name"),
            (exact(":status", Some("200")), "not a valid name"),
            (matches("Server:"), "not a valid name"),
            (exact("X-A", Some(" 1")), "blanks at its ends"),
            (exact("X-A", Some("1\r\n2")), "a line break"),
        ] {
            let (field, message) = fault("GET", expect).unwrap();
            assert!(matches!(field, Field::ExpectedHeader(_)), "{field:?}");
            assert!(message.contains(expected) && message.contains("hint:"), "{message}");
        }
        assert_eq!(fault("GET", exact("X-A", Some("a b"))), None);
        assert_eq!(fault("GET", matches("X-A")), None);
    }

    #[test]
    fn bodies_are_refused_where_no_response_has_one() {
        let text = || Some("x".to_string());
        let pointer = || vec![("/a".to_string(), serde_json::json!(1))];
        let pattern = || vec![("/a".to_string(), "1".to_string())];
        let expects = [
            ("body_contains", Expect { body_contains: text(), ..Expect::default() }),
            ("body_matches", Expect { body_matches: text(), ..Expect::default() }),
            ("json", Expect { json: pointer(), ..Expect::default() }),
            ("json_matches", Expect { json_match: pattern(), ..Expect::default() }),
        ];
        for (key, expect) in expects {
            for (method, status) in [("HEAD", None), ("GET", Some(204)), ("PUT", Some(304))] {
                let (field, message) = fault(method, Expect { status, ..expect.clone() }).unwrap();
                assert_eq!(field, Field::Expected(key), "{message}");
                assert!(message.contains("has no body\nhint:"), "{message}");
            }
            assert_eq!(fault("GET", Expect { status: Some(200), ..expect }), None, "{key}");
        }
        let empty = Expect { body_matches: Some("^$".into()), ..Expect::default() };
        assert_eq!(fault("HEAD", empty), None);
        let body = Expect { body: Some(Body(b"x".to_vec())), ..Expect::default() };
        assert_eq!(fault("HEAD", body.clone()), None, "it is not compared");
        let (field, _) = fault("GET", Expect { status: Some(204), ..body }).unwrap();
        assert_eq!(field, Field::Expected("body"));
    }

    #[test]
    fn expressions_that_match_nothing_are_refused() {
        for text in [
            "a^b",
            "$x",
            "x(^a|^b)",
            "(a$)+b",
            "(?:$)\\n",
            "[a&&b]",
            "(a^)|($b)",
            "^a$b",
            r"a\Ab",
            r"a\zb",
        ] {
            assert!(matches_nothing(text), "{text}");
            assert!(expression(text).unwrap_err().contains("matches no text"), "{text}");
        }
        for text in [
            "",
            "^",
            "^$",
            "$^",
            "a*^b",
            "^^a",
            "a$$",
            "$x*",
            "(^|x)a",
            "x(^a|b)",
            "(a$)?b",
            "(?m)a\n^b",
            "(?m)$\nx",
            "a|b^c",
        ] {
            assert!(!matches_nothing(text) && expression(text).is_ok(), "{text}");
        }
    }
}
