//! Parses requests, headers and expectations of the command line.
//!
//! Error messages do not name the option and its argument: the caller adds both.

use std::collections::BTreeMap;

use dyno_model::plan::{Body, Request};

use crate::{ReadFile, header};

/// Returns a request of weight 1, with method and path as its name. Any status from 200 to 399 is
/// correct.
#[must_use]
pub fn request(
    method: &str,
    path: &str,
    headers: Vec<(String, String)>,
    body: Option<Body>,
) -> Request {
    Request {
        name: format!("{method} {path}"),
        weight: 1,
        method: method.into(),
        path: path.into(),
        headers,
        body,
        ..Request::default()
    }
}

/// Reads a request of a mix: `80 GET /items/{seq}`, `20 POST /items {"n":1}` or `20 POST /items
/// @body.json`. `Err`: the text is not a request, or its body cannot be read.
pub fn parse_mix_entry(text: &str, read: ReadFile<'_>) -> Result<Request, String> {
    const WRONG: &str = "not a request\nhint: write weight, method and path, such as '80 GET \
                         /items' or '20 POST /items @body.json'";
    let (weight, rest) = split_word(text.trim_start());
    let (method, rest) = split_word(rest);
    let (path, body) = split_word(rest);
    let weight = weight.parse().map_err(|_| WRONG)?;
    if !path.starts_with('/') {
        return Err(WRONG.into());
    }
    let body = match body.strip_prefix('@').map(str::trim_end) {
        Some(file) => Some(Body(read(file).map_err(|error| format!("{file}: {error}"))?)),
        None => (!body.is_empty()).then(|| Body(body.into())),
    };
    Ok(Request { weight, ..request(method, path, Vec::new(), body) })
}

/// Reads a step of a sequence: `GET /items` or `POST /login @user.json`. `Err`: the text is not a
/// request, or its body cannot be read.
pub fn parse_step(text: &str, read: ReadFile<'_>) -> Result<Request, String> {
    const WRONG: &str = "not a request\nhint: write method and path, such as 'GET /items' or 'POST \
                         /login @user.json'";
    let (method, rest) = split_word(text.trim_start());
    if !split_word(rest).0.starts_with('/') {
        return Err(WRONG.into());
    }
    parse_mix_entry(&format!("1 {method} {rest}"), read)
}

/// Returns the first word, and the text after the blanks that follow the word.
fn split_word(text: &str) -> (&str, &str) {
    let (word, rest) = text.split_at(text.find(char::is_whitespace).unwrap_or(text.len()));
    (word, rest.trim_start())
}

/// Reads a header that is sent: `Name: value`. `Err`: the header has no colon, or is a framing
/// header.
pub fn header(text: &str) -> Result<(String, String), String> {
    // A pseudo-header field begins with a colon.
    let colon = text.char_indices().skip(1).find(|(_, c)| *c == ':');
    let (name, value) = colon
        .map(|(at, _)| (&text[..at], &text[at + 1..]))
        .ok_or("not a header\nhint: write it like 'Name: value'")?;
    let name = name.trim();
    if header::is_framing(name) {
        return Err(header::framing_error(name));
    }
    Ok((name.into(), value.trim().into()))
}

/// Reads an expected header: `Name`, or `Name: value` if it must have that value.
#[must_use]
pub fn expected_header(text: &str) -> (String, Option<String>) {
    match text.split_once(':') {
        Some((name, value)) => (name.trim().into(), Some(value.trim().into())),
        None => (text.trim().into(), None),
    }
}

/// Reads an expected value of a JSON body: `/items/0/name="ann"`.
///
/// # Errors
/// The text has no `=`, or a number that 64 bits cannot hold.
pub fn expected_json(text: &str) -> Result<(String, serde_json::Value), String> {
    let (pointer, value) = text
        .split_once('=')
        .ok_or("not a JSON expectation\nhint: write it like /items/0/name=\"ann\"")?;
    // Invalid JSON is read as text, because quotes within quotes are hard to type.
    let is_json = serde_json::from_str::<serde::de::IgnoredAny>(value).is_ok();
    let expected = match serde_json::from_str(value) {
        Ok(expected) if !has_number_above_64_bits(&expected) => expected,
        _ if is_json => {
            return Err(
                "the value has a number of more than 64 bits, which would be rounded\nhint: use \
                        --expect-contains, or `json_matches` in a suite"
                    .into(),
            );
        }
        _ => value.into(),
    };
    Ok((pointer.into(), expected))
}

/// Whether JSON has a number of 2⁶³ or more that is stored as a float, possibly rounded.
fn has_number_above_64_bits(value: &serde_json::Value) -> bool {
    use serde_json::Value;
    match value {
        Value::Number(number) => {
            number.is_f64() && number.as_f64().is_some_and(|float| float.abs() >= 2f64.powi(63))
        }
        Value::Array(items) => items.iter().any(has_number_above_64_bits),
        Value::Object(members) => members.values().any(has_number_above_64_bits),
        Value::Null | Value::Bool(_) | Value::String(_) => false,
    }
}

/// Adds a number to the name of a request if an earlier request has the same name.
pub fn number_duplicates(requests: &mut [Request]) {
    let mut counts: BTreeMap<String, u32> = BTreeMap::new();
    for request in requests {
        let n = counts.entry(request.name.clone()).or_default();
        *n += 1;
        if *n > 1 {
            request.name = format!("{} #{n}", request.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(path: &str) -> Result<Vec<u8>, String> {
        if path == "body.json" { Ok(b"{}".to_vec()) } else { Err("no such file".into()) }
    }

    #[test]
    fn mix_entry_has_weight_method_path_and_body() {
        let request = parse_mix_entry("20 POST /a/{seq} {\"n\": 1, \"m\": 2}", &read).unwrap();
        assert_eq!(
            (request.weight, request.method.as_str(), request.path.as_str()),
            (20, "POST", "/a/{seq}")
        );
        assert_eq!(request.body.unwrap().0, b"{\"n\": 1, \"m\": 2}");
        assert!(parse_mix_entry("80 GET /x", &read).unwrap().body.is_none());
        assert_eq!(parse_mix_entry("1 PUT /x @body.json", &read).unwrap().body.unwrap().0, b"{}");
        for text in ["GET /x", "x GET /x", "1 GET x", "1 GET", ""] {
            assert!(
                parse_mix_entry(text, &read).unwrap_err().contains("'80 GET /items'"),
                "{text}"
            );
        }
        assert_eq!(
            parse_mix_entry("1 POST /x @/no/such", &read).unwrap_err(),
            "/no/such: no such file"
        );
    }

    #[test]
    fn step_has_method_path_and_body() {
        let request = parse_step(" POST /login {\"user\": \"a b\"}", &read).unwrap();
        assert_eq!((request.method.as_str(), request.path.as_str()), ("POST", "/login"));
        assert_eq!(request.body.unwrap().0, b"{\"user\": \"a b\"}");
        assert_eq!(parse_step("PUT /x @body.json", &read).unwrap().body.unwrap().0, b"{}");
        for text in ["GET", "/x", "1 GET /x", "GET x", ""] {
            assert!(parse_step(text, &read).unwrap_err().contains("'GET /items'"), "{text}");
        }
    }

    #[test]
    fn blanks_between_words_of_mix_entry_are_skipped() {
        for (text, expected) in [
            ("1 PUT /x  @body.json", Some("{}")),
            (" 1  PUT\t/x \t@body.json\n", Some("{}")),
            ("1 PUT /x   a b", Some("a b")),
            ("1 PUT /x  ", None),
        ] {
            let request = parse_mix_entry(text, &read).unwrap();
            assert_eq!((request.method.as_str(), request.path.as_str()), ("PUT", "/x"), "{text:?}");
            let body = request.body.map(|body| String::from_utf8(body.0).unwrap());
            assert_eq!(body.as_deref(), expected, "{text:?}");
        }
    }

    #[test]
    fn inline_body_of_mix_entry_keeps_its_end() {
        let body = parse_mix_entry("1 PUT /x a,b \n", &read).unwrap().body.unwrap();
        assert_eq!(body.0, b"a,b \n");
    }

    #[test]
    fn header_without_colon_or_of_framing_fails() {
        assert_eq!(header(" X-A : b: c ").unwrap(), ("X-A".into(), "b: c".into()));
        assert_eq!(header(":path: /").unwrap(), (":path".into(), "/".into()));
        assert!(header("X-A").unwrap_err().contains("'Name: value'"));
        assert!(header("Content-Length: 3").unwrap_err().contains("remove it"));
    }

    #[test]
    fn expected_header_without_value_accepts_any() {
        assert_eq!(expected_header(" ETag "), ("ETag".into(), None));
        assert_eq!(expected_header("Server: a: b"), ("Server".into(), Some("a: b".into())));
    }

    #[test]
    fn expected_json_invalid_is_text() {
        assert_eq!(expected_json("/a=1").unwrap(), ("/a".into(), 1.into()));
        assert_eq!(expected_json("/a=ann").unwrap(), ("/a".into(), "ann".into()));
        assert!(expected_json("/a").is_err());
        assert_eq!(
            expected_json("/a=18446744073709551615").unwrap().1,
            serde_json::json!(u64::MAX)
        );
        for rounded in ["18446744073709551616", "{\"b\": [-12345678901234567890]}", "1e400"] {
            let error = expected_json(&format!("/a={rounded}")).unwrap_err();
            assert!(error.contains("more than 64 bits"), "{rounded}: {error}");
        }
    }

    #[test]
    fn duplicate_names_get_numbers() {
        let named =
            |name: &str| Request { name: name.into(), ..request("GET", "/", Vec::new(), None) };
        let mut requests = ["a", "b", "a", "a"].map(named);
        number_duplicates(&mut requests);
        assert_eq!(requests.map(|r| r.name), ["a", "b", "a #2", "a #3"]);
    }
}
